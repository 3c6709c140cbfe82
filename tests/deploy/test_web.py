"""The web page: its JavaScript against the library in node, and itself in a real browser."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import threading
import time
from importlib.resources import files

import numpy as np
import pytest
from deploy_models import EVERY_CASE, case, digits, pooled_program
from PIL import Image

from dcadl import PatchRidge
from dcadl.deploy.evidence import evidence
from dcadl.deploy.reference import run
from dcadl.deploy.translate import operations_of
from dcadl.deploy.web_page import atoms_of, program_json, to_web, web_page

ASSETS = files("dcadl.deploy").joinpath("web")
RUN = """
const dcadl = require(process.argv[2]);
const { program, samples } = JSON.parse(require("fs").readFileSync(0));
const read = dcadl.read(program);
console.log(JSON.stringify(samples.map((sample) => {
  const { best, scores, probabilities, trace } = dcadl.run(read, sample);
  return { best, scores, probabilities, evidence: Array.from(dcadl.evidence(read, trace).values) };
})));
"""
REDUCE = """
const pictures = require(process.argv[2]);
const { rgba, width, height, shape } = JSON.parse(require("fs").readFileSync(0));
const read = (top, count) => rgba.slice(4 * top * width, 4 * (top + count) * width);
console.log(JSON.stringify(Array.from(pictures.reduce(read, width, height, shape))));
"""


def node(script, asset, given, tmp_path):
    """What a script prints as JSON."""
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    (tmp_path / "script.js").write_text(script)
    words = ["node", str(tmp_path / "script.js"), str(ASSETS.joinpath(asset))]
    done = subprocess.run(words, input=json.dumps(given), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def answers(program, X, tmp_path):
    samples = X.reshape(len(X), -1).astype(float).tolist()
    found = node(RUN, "operations.js", {"program": program_json(program), "samples": samples}, tmp_path)
    return {name: np.array([row[name] for row in found]) for name in found[0]}


def intercept(program):
    return program.operations[-2].intercept


@EVERY_CASE
def test_javascript_gives_what_the_model_gives(name, form, tmp_path):
    model, real, noise = case(name, form)
    X, program = np.concatenate([real[:20], noise[:6]]), operations_of(model)

    found = answers(program, X, tmp_path)

    expected = run(program, X)
    np.testing.assert_array_equal(model.classes_[found["best"]], model.predict(X))
    np.testing.assert_allclose(found["scores"], expected.scores, atol=1e-5)
    np.testing.assert_allclose(found["probabilities"], expected.probabilities, atol=1e-5)
    np.testing.assert_allclose(found["evidence"], evidence(program, X).reshape(len(X), -1), atol=1e-5)


@EVERY_CASE
def test_evidence_adds_up_to_the_score(name, form):
    model, real, _ = case(name, form)
    program = operations_of(model)

    total = evidence(program, real[:10]).sum(axis=(1, 2)) + intercept(program)

    np.testing.assert_allclose(total, run(program, real[:10]).scores, atol=1e-9)


def test_evidence_through_pooling_adds_up_in_both_languages(tmp_path):
    pooled = pooled_program()
    X = digits()[0][:5]
    found, expected = answers(pooled, X, tmp_path), run(pooled, X)

    np.testing.assert_allclose(found["scores"], expected.scores, atol=1e-5)
    np.testing.assert_allclose(evidence(pooled, X).sum(axis=(1, 2)) + intercept(pooled), expected.scores)
    np.testing.assert_allclose(found["evidence"], evidence(pooled, X).reshape(5, -1), atol=1e-5)


def test_filters_after_whitening_are_shown_as_they_see_the_picture():
    pooled = pooled_program()
    whitening, mix = pooled.operations[:2]

    atoms = atoms_of(pooled)

    expected = np.tensordot(mix.filters[:, 0, 0], whitening.filters, 1)
    np.testing.assert_allclose(atoms, expected)


@pytest.mark.parametrize("color", [False, True], ids=["grey", "colour"])
@pytest.mark.parametrize("size", [(48, 36), (300, 91), (67, 30), (7, 36), (5, 5)], ids=str)
def test_pictures_are_brought_to_size_as_the_library_does(rng, tmp_path, size, color):
    from dcadl.data.images import decode

    pixels = rng.integers(0, 256, (*size, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "p.png")
    rgba = np.concatenate([pixels, np.full((*size, 1), 255, np.uint8)], axis=-1)
    given = {"rgba": rgba.ravel().tolist(), "width": size[1], "height": size[0]}

    found = np.array(node(REDUCE, "pictures.js", given | {"shape": [12, 9, 3 if color else 1]}, tmp_path))

    expected = decode(tmp_path / "p.png", size=(12, 9), color=color)
    assert np.abs(found - expected.ravel()).max() <= 1  # rounded after each axis there, once here


def test_rows_of_features_have_no_page(tmp_path):
    X, y = digits()

    with pytest.raises(ValueError, match="takes pictures"):
        to_web(PatchRidge().fit(X.reshape(600, -1), y), tmp_path / "page.html")


def test_ink_is_dark_or_light():
    with pytest.raises(ValueError, match="ink must be one of 'dark', 'light'; got 'red'"):
        web_page(operations_of(case("dcadl").model), "Digits", "red")


def test_names_cannot_become_markup():
    program = operations_of(case("dcadl").model)
    evil = "</script><script>alert(1)</script>"
    program = program._replace(classes=np.array([evil] * 10))

    assert "<script>alert" not in web_page(program, evil)


# --- in a browser

FAKE_CAMERA = ["--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"]
HAND_OVER = """
async ([kind, base64]) => {
  const bytes = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
  const data = new DataTransfer();
  data.items.add(new File([bytes], "digit.png", { type: "image/png" }));
  const options = { bubbles: true, cancelable: true };
  document.dispatchEvent(kind === "drop"
    ? new DragEvent("drop", { ...options, dataTransfer: data })
    : new ClipboardEvent("paste", { ...options, clipboardData: data }));
}
"""


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("Chromium is not installed: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        yield driver.chromium.launch(executable_path=path, args=["--no-sandbox", *FAKE_CAMERA])


@pytest.fixture(params=[1400, 390], ids=["desk", "phone"])
def page(request, browser, tmp_path):
    """The digits' page, open; its faults and requests are kept."""
    to_web(case("dcadl-centred").model, tmp_path / "page.html", title="Digits", scale=1 / 255, ink="light")
    page = browser.new_page(viewport={"width": request.param, "height": 900})
    page.faults, page.asked = [], []
    page.on("console", lambda message: page.faults.append(message.text))
    page.on("pageerror", lambda error: page.faults.append(str(error)))
    page.on("request", lambda wanted: page.asked.append(wanted.url))
    page.goto((tmp_path / "page.html").as_uri())
    yield page
    assert page.faults == []
    assert [url for url in page.asked if not url.startswith("file:") and not url.startswith("blob:")] == []
    assert page.evaluate("document.documentElement.scrollWidth") <= request.param
    page.close()


def shown(page):
    from playwright.sync_api import expect

    expect(page.locator("#label")).not_to_have_text("–")
    return page.inner_text("#label")


def test_a_picture_that_is_opened_is_named_as_the_library_names_it(page, tmp_path):
    model, real, _ = case("dcadl-centred")
    pixels = np.rint(real[:1] * 255).astype(np.uint8)
    Image.fromarray(pixels[0]).save(tmp_path / "digit.png")

    page.set_input_files("#file", tmp_path / "digit.png")

    expected = run(operations_of(model, scale=1 / 255), pixels)
    assert shown(page) == str(expected.labels[0])
    top = page.inner_text("#bars li:first-child .value")
    assert top == f"{100 * expected.probabilities.max():.1f} %"
    page.click("#bars li:nth-child(2) button")
    assert "evidence for" in page.inner_text("#evidence-caption")


@pytest.mark.parametrize("size", [(30, 90), (611, 40)], ids=["wide", "tall"])
def test_a_picture_of_other_proportions_is_seen_as_the_library_sees_it(page, rng, tmp_path, size):
    from dcadl.data.images import decode

    Image.fromarray(rng.integers(0, 256, (*size, 3), dtype=np.uint8)).save(tmp_path / "picture.png")

    page.set_input_files("#file", tmp_path / "picture.png")

    assert shown(page) in "0123456789"
    bytes_of = "(canvas) => Array.from(canvas.getContext('2d').getImageData(0, 0, 8, 8).data)"
    seen = page.locator("#seen").evaluate(bytes_of)
    expected = decode(tmp_path / "picture.png", size=(8, 8)).ravel()
    assert np.abs(np.array(seen)[::4] - expected).max() <= 1


@pytest.mark.parametrize("kind", ["drop", "paste"])
def test_a_picture_may_be_dropped_or_pasted(page, tmp_path, kind):
    model, real, _ = case("dcadl-centred")
    Image.fromarray(np.rint(real[1] * 255).astype(np.uint8)).save(tmp_path / "digit.png")

    page.evaluate(HAND_OVER, [kind, base64.b64encode((tmp_path / "digit.png").read_bytes()).decode()])

    assert shown(page) == str(model.predict(real[1:2])[0])


def test_the_camera_is_watched_until_it_is_switched_off(page):
    page.click("#camera")

    assert shown(page) in "0123456789"
    page.click("#camera")
    assert page.get_attribute("#camera", "aria-pressed") == "false"
    assert page.evaluate("document.getElementById('video').srcObject") is None


def test_a_drawing_is_named(page):
    page.click("#draw")
    box = page.locator("#picture").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 40)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] - 40, steps=5)
    page.mouse.up()

    assert shown(page) in "0123456789"
    page.click("#clear")
    assert page.inner_text("#label") == "–"


def test_the_keyboard_alone_draws_and_chooses(page):
    page.focus("#draw")
    page.keyboard.press("Enter")
    page.keyboard.press("Space")
    for _ in range(6):
        page.keyboard.press("ArrowDown")

    first = shown(page)
    page.focus("#bars li:nth-child(3) button")
    page.keyboard.press("Enter")
    chosen = page.inner_text("#bars [aria-pressed=true] .name")
    assert page.inner_text("#evidence-caption") == f"evidence for {chosen}"
    assert chosen != first


def test_a_key_that_scrolls_does_not_wipe_an_opened_picture(page, tmp_path):
    model, real, _ = case("dcadl-centred")
    Image.fromarray(np.rint(real[1] * 255).astype(np.uint8)).save(tmp_path / "digit.png")
    page.set_input_files("#file", tmp_path / "digit.png")
    shown(page)

    page.focus("#picture")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Space")

    assert page.inner_text("#label") == str(model.predict(real[1:2])[0])
    assert page.get_attribute("#draw", "aria-pressed") == "false"


def test_without_a_camera_to_ask_for_the_page_says_where_there_is_one(page):
    page.evaluate("Object.defineProperty(navigator, 'mediaDevices', { value: undefined })")

    page.click("#camera")

    page.wait_for_selector("#message:has-text('https')")


def test_what_is_no_picture_is_said_so(page, tmp_path):
    (tmp_path / "text.png").write_text("no picture")

    page.set_input_files("#file", tmp_path / "text.png")

    page.wait_for_selector("#message:has-text('no picture')")


def test_the_servers_page_is_the_same_page(browser, tmp_path):
    uvicorn = pytest.importorskip("uvicorn", reason="not installed: pip install 'dcadl[serve]'")
    from dcadl.deploy.server.app import create_app

    model, real, _ = case("dcadl-centred")
    model.save(tmp_path / "digits.safetensors")
    Image.fromarray(np.rint(real[0] * 255).astype(np.uint8)).save(tmp_path / "digit.png")
    app = create_app([tmp_path / "digits.safetensors"])
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.05)
    port = server.servers[0].sockets[0].getsockname()[1]
    page, asked, faults = browser.new_page(), [], []
    page.on("request", lambda wanted: asked.append(wanted.url))
    page.on("console", lambda message: faults.append(message.text))
    page.goto(f"http://127.0.0.1:{port}/")
    page.set_input_files("#file", tmp_path / "digit.png")

    assert shown(page) == str(model.predict(real[:1])[0])
    assert asked == [f"http://127.0.0.1:{port}/"]
    assert faults == []
    page.close()
    server.should_exit = True
    thread.join(10)
