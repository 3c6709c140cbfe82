"""The server: answers as the library gives them, limits, tokens, replaced files."""

from __future__ import annotations

import asyncio
import base64
import copy
import shutil
import socket
import threading

import numpy as np
import pytest
from deploy_models import case, pixels, png
from PIL import Image

testclient = pytest.importorskip("fastapi.testclient", reason="not installed: pip install 'dcadl[serve]'")
fastapi = pytest.importorskip("fastapi", reason="not installed: pip install 'dcadl[serve]'")
httpx = pytest.importorskip("httpx", reason="httpx is not installed")

from dcadl import DPL  # noqa: E402 (after the skips)
from dcadl.deploy.evidence import evidence  # noqa: E402
from dcadl.deploy.server import answers as answers_module  # noqa: E402
from dcadl.deploy.server import requests as requests_module  # noqa: E402
from dcadl.deploy.server import serve  # noqa: E402
from dcadl.deploy.server.app import create_app  # noqa: E402
from dcadl.deploy.server.limits import Limits, Refusal  # noqa: E402
from dcadl.deploy.server.models import Models, Served  # noqa: E402
from dcadl.deploy.server.requests import bounded_body  # noqa: E402
from dcadl.deploy.translate import operations_of  # noqa: E402

SMALL = Limits(upload_bytes=20_000, pixels=5_000, batch=4, queue=8, seconds=5.0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two models: digits in grey, and digits in colour."""
    home = tmp_path_factory.mktemp("models")
    case("dcadl-centred").model.save(home / "digits.safetensors")
    case("dcadl-centred", "colour").model.save(home / "colour.safetensors")
    return home


@pytest.fixture(scope="module")
def client(folder):
    with testclient.TestClient(
        create_app([folder / "digits.safetensors", folder / "colour.safetensors"])
    ) as open_:
        yield open_


@pytest.fixture(scope="module")
def small(folder):
    """The same behind narrow limits."""
    with testclient.TestClient(create_app([folder / "digits.safetensors"], limits=SMALL)) as open_:
        yield open_


def expected(images):
    model = case("dcadl-centred").model
    X = images.astype(np.float32) / np.float32(255)
    return [str(label) for label in model.predict(X)], model.decision_function(X), model.predict_proba(X)


def check(response, images):
    labels, scores, probabilities = expected(images)
    answers = response.json()["answers"]
    assert [answer["label"] for answer in answers] == labels
    np.testing.assert_allclose([list(answer["scores"].values()) for answer in answers], scores, atol=1e-5)
    shares = [list(answer["probabilities"].values()) for answer in answers]
    np.testing.assert_allclose(shares, probabilities, atol=1e-4)


def test_pictures_in_a_form_are_answered_as_the_library_answers(client):
    files = [("pictures", (f"{i}.png", png(image), "image/png")) for i, image in enumerate(pixels())]

    check(client.post("/predict", files=files), pixels())


def test_one_picture_may_be_the_whole_body(client):
    headers = {"content-type": "image/png"}

    check(client.post("/predict", content=png(pixels(1)[0]), headers=headers), pixels(1))


def test_pictures_may_come_in_base64(client):
    body = {"pictures": [base64.b64encode(png(image)).decode() for image in pixels()]}

    check(client.post("/predict", json=body), pixels())


def test_arrays_are_taken_as_the_model_takes_them(client):
    check(client.post("/predict", json={"arrays": (pixels() / 255).tolist()}), pixels())


def test_explanations_are_the_evidence_maps(client):
    X = (pixels() / 255).astype(np.float32)
    found = client.post("/explain", json={"arrays": X.tolist()}).json()["explanations"]

    maps = evidence(operations_of(case("dcadl-centred").model), X)
    best = expected(pixels())[1].argmax(axis=1)
    wanted = [each[..., k] - each.mean(axis=-1) for k, each in zip(best, maps)]
    np.testing.assert_allclose([entry["evidence"] for entry in found], wanted, atol=1e-5)


def test_models_are_chosen_by_name(client):
    facts = client.get("/models").json()

    assert [entry["name"] for entry in facts] == ["digits", "colour"]
    assert client.post("/predict?model=colour", content=png(pixels(1)[0])).status_code == 415
    response = client.post("/predict", params={"model": "colour"}, files={"pictures": png(pixels(1)[0])})
    assert response.json()["model"] == "colour"
    response = client.post("/explain?model=digits&model=colour", files={"pictures": png(pixels(1)[0])})
    assert response.json()["model"] == "colour"
    assert client.post("/explain?model=none", json={}).status_code == 404


def test_the_page_the_health_and_the_metrics_are_there(client):
    assert client.get("/healthz").json() == {"status": "ok"}
    page = client.get("/")
    assert "<h1>digits</h1>" in page.text
    assert client.get("/?model=colour").status_code == 200
    client.post("/predict", json={"arrays": (pixels(1) / 255).tolist()})
    text = client.get("/metrics").text
    assert 'dcadl_requests_total{path="/predict",status="200"}' in text
    assert "dcadl_batch_samples_bucket" in text


def test_openapi_names_every_path_and_every_refusal(client):
    document = client.get("/openapi.json").json()

    assert {"/predict", "/explain", "/models", "/healthz", "/metrics", "/"} <= set(document["paths"])
    operation = document["paths"]["/predict"]["post"]
    assert {"401", "408", "413", "415", "422", "429"} <= set(operation["responses"])
    body = operation["requestBody"]["content"]
    for example in body["application/json"]["examples"].values():
        assert client.post("/predict", json=example["value"]).status_code == 200
    fields = [body[kind]["schema"]["properties"] for kind in ("multipart/form-data", "application/json")]
    assert [entry["name"] for entry in operation["parameters"]] == ["model"]
    counts = [(entry["minItems"], entry["maxItems"]) for field in fields for entry in field.values()]
    assert counts == [(1, Limits().batch)] * 3


BOMB = Image.new("L", (100, 51))
TORN = png(np.random.default_rng(0).integers(0, 256, (20, 20), dtype=np.uint8))[:200]
REFUSED = {
    "too many bytes": (413, {"content": b"x" * 20_001, "headers": {"content-type": "image/png"}}),
    "too many pixels": (413, {"content": png(np.asarray(BOMB)), "headers": {"content-type": "image/png"}}),
    "too many pictures": (413, {"json": {"arrays": np.zeros((5, 8, 8)).tolist()}}),
    "no picture": (422, {"content": b"no picture", "headers": {"content-type": "image/png"}}),
    "a truncated picture": (422, {"content": TORN, "headers": {"content-type": "image/png"}}),
    "an unknown type": (415, {"content": b"?", "headers": {"content-type": "text/plain"}}),
    "no type": (415, {"content": b"?"}),
    "no JSON": (422, {"content": b"{", "headers": {"content-type": "application/json"}}),
    "an unknown field": (422, {"json": {"picture": []}}),
    "nothing": (422, {"json": {}}),
    "both": (422, {"json": {"pictures": ["aaaa"], "arrays": [[1]]}}),
    "no base64": (422, {"json": {"pictures": ["?"]}}),
    "a wrong shape": (422, {"json": {"arrays": [[1, 2]]}}),
    "no numbers": (422, {"json": {"arrays": [["a"]]}}),
    "numbers as text": (422, {"json": {"arrays": [[["1"] * 8] * 8]}}),
    "ragged rows": (422, {"json": {"arrays": [[[1], [1, 2]]]}}),
    "huge numbers": (422, {"json": {"arrays": [[[1e300] * 8] * 8]}}),
    "numbers too large to be squared": (422, {"json": {"arrays": [[[1e30] * 8] * 8]}}),
    "numbers too small to be squared": (422, {"json": {"arrays": [[[1e-30] * 8] * 8]}}),
    "an empty form": (422, {"files": {"other": (None, "text")}}),
    "a form of too many": (413, {"files": [("pictures", b"x")] * 40}),
    "a broken form": (400, {"content": b"--x", "headers": {"content-type": "multipart/form-data"}}),
    "an unknown model": (404, {"params": {"model": "../../secret"}, "json": {}}),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_answered_is_refused_in_one_line(small, name):
    status, given = REFUSED[name]

    response = small.post("/predict", **given)

    assert response.status_code == status, response.text
    assert "\n" not in response.json()["detail"]


def test_a_body_without_a_length_is_cut_off_at_the_limit(small):
    def endless():
        for _ in range(30):
            yield b"x" * 1000

    assert small.post("/predict", content=endless(), headers={"content-type": "image/png"}).status_code == 413


def test_a_body_that_does_not_arrive_in_time_is_refused():
    async def receive():
        await asyncio.sleep(10)

    scope = {"type": "http", "headers": [], "method": "POST"}
    with pytest.raises(Refusal, match=r"did not arrive within 0.05 s") as refusal:
        asyncio.run(bounded_body(fastapi.Request(scope, receive), Limits(seconds=0.05)))
    assert refusal.value.status == 408


def test_with_a_token_only_the_health_is_open(folder):
    app = create_app([folder / "digits.safetensors"], token="a secret")
    with testclient.TestClient(app) as client:
        for path in ("/models", "/metrics", "/", "/openapi.json"):
            assert client.get(path).status_code == 401
            assert client.get(path, headers={"authorization": "Bearer a secreT"}).status_code == 401
            assert client.get(path, headers={"authorization": "Bearer a secret"}).status_code == 200
        for path in ("/predict", "/explain"):
            refused = client.post(path, json={})
            assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
            right = {"authorization": "Bearer a secret"}
            assert client.post(path, json={}, headers=right).status_code == 422
        assert client.get("/healthz").status_code == 200


def test_a_token_may_have_letters_beyond_ascii(folder):
    with testclient.TestClient(create_app([folder / "digits.safetensors"], token="pässwörd")) as client:
        found = [
            client.get("/models", headers={b"authorization": f"Bearer {word}".encode()}).status_code
            for word in ("pässwörd", "passwörd")
        ]

    assert found == [200, 401]


def test_an_address_that_is_taken_is_said_so_in_one_line(folder):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ValueError, match=f"^cannot listen on 127.0.0.1, port {port}: .*in use.$"):
            serve([folder / "digits.safetensors"], host="127.0.0.1", port=port)


def test_a_method_without_operations_predicts_but_explains_nothing(tmp_path):
    X = case("dcadl").real
    DPL(n_atoms=3, max_iter=2, random_state=0).fit(X, np.arange(len(X)) % 3).save(
        tmp_path / "dpl.safetensors"
    )
    with testclient.TestClient(create_app([tmp_path / "dpl.safetensors"])) as client:
        body = {"arrays": X[:2].tolist()}
        assert len(client.post("/predict", json=body).json()["answers"]) == 2
        assert client.post("/explain", json=body).status_code == 422
        assert client.get("/").status_code == 404
        assert not client.get("/models").json()[0]["explains"]


def test_two_models_of_one_name_are_refused(folder, tmp_path):
    shutil.copy(folder / "digits.safetensors", tmp_path)
    with pytest.raises(ValueError, match="different names; got digits, digits"):
        Models([folder / "digits.safetensors", tmp_path / "digits.safetensors"], SMALL)


# --- replaced files


def test_a_replaced_file_is_taken_whole_or_not_at_all(folder, tmp_path):
    path = tmp_path / "model.safetensors"
    shutil.copy(folder / "digits.safetensors", path)
    served = Served(path, SMALL)
    assert not served.reload_if_replaced()

    path.write_bytes(path.read_bytes()[:100])
    assert not served.reload_if_replaced()
    assert served.error is not None
    assert served.sample_shape == (8, 8)

    case("dcadl-centred", "colour").model.save(path)
    assert served.reload_if_replaced()
    assert served.error is None
    assert served.sample_shape == (8, 8, 3)


def test_an_answer_is_of_one_model_though_the_file_is_replaced_meanwhile(folder, tmp_path):
    path = tmp_path / "model.safetensors"
    shutil.copy(folder / "digits.safetensors", path)
    served = Served(path, SMALL)
    model, score = served.loaded.model, served.loaded.model.decision_function

    def replaced_meanwhile(X):
        case("dcadl-centred", "two").model.save(path)
        assert served.reload_if_replaced()
        return score(X)

    model.decision_function = replaced_meanwhile

    async def ask():
        served.answers.start()
        found = await served.answers.ask(case("dcadl-centred").real[:3])
        await served.answers.stop()
        return found

    found = asyncio.run(ask())

    assert served.loaded.names == ["high", "low"]
    assert [answer.label for answer in found] == expected(pixels())[0]
    assert list(found[0].probabilities) == [str(digit) for digit in range(10)]


# --- batching


def test_explanations_take_the_memory_of_one_picture(client, monkeypatch):
    sizes = []

    def noted(program, X):
        sizes.append(len(X))
        return evidence(program, X)

    monkeypatch.setattr(answers_module, "evidence", noted)
    body = {"arrays": (pixels(5) / 255).tolist()}

    assert len(client.post("/explain", json=body).json()["explanations"]) == 5
    assert sizes == [1] * 5


def test_a_model_that_overflows_is_a_refusal(tmp_path):
    model = copy.copy(case("dcadl-centred").model)
    model.atoms_, model.coef_ = 1e30 * model.atoms_, 1e30 * model.coef_
    model.save(tmp_path / "huge.safetensors")
    with testclient.TestClient(create_app([tmp_path / "huge.safetensors"])) as client:
        response = client.post("/predict", json={"arrays": (pixels() / 255).tolist()})

    assert response.status_code == 422
    assert "overflowed" in response.json()["detail"]


def test_a_large_picture_in_a_small_file_is_read_beside_the_event_loop(client, monkeypatch):
    threads = []
    decode = requests_module.decode_bytes

    def noted(data, **form):
        found = decode(data, **form)
        threads.append(threading.current_thread().name)
        return found

    monkeypatch.setattr(requests_module, "decode_bytes", noted)
    large = np.zeros((900, 900), np.uint8)

    for picture in (pixels(1)[0], large):
        assert client.post("/predict", content=png(picture), headers={"content-type": "image/png"}).is_success

    assert len(png(large)) < requests_module.AT_ONCE_BYTES
    assert threads[0] != threads[1]
    assert threads[1].startswith(("asyncio", "ThreadPoolExecutor"))  # as asyncio and uvloop name their own
