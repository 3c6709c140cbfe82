"""`dcadl fit` with no option: size, colour and method are chosen and said, and what to be careful of."""

from __future__ import annotations

import re

import numpy as np
import pytest
from PIL import Image

import dcadl
from dcadl.cli import reading_plan
from dcadl.cli.control import ridge_on_pixels
from dcadl.cli.summary import choice_sentence
from dcadl.ops.interval import interval
from dcadl.solvers.structure import Candidate


def draw(kind, size, rng, light=0):
    """A bar, lying or upright, in front of a plain noisy ground."""
    height, width = size
    picture = np.full((height, width, 3), 60.0 + light)
    if kind == "lying":
        picture[height // 2 - 3 : height // 2 + 3, width // 5 : -width // 5] = 200
    else:
        picture[height // 5 : -height // 5, width // 2 - 3 : width // 2 + 3] = 200
    picture = np.roll(picture, rng.integers(-4, 5, 2), axis=(0, 1))
    return np.clip(picture + 10 * rng.standard_normal(picture.shape), 0, 255).astype(np.uint8)


@pytest.fixture(scope="module")
def bars(tmp_path_factory):
    """Pictures of several sizes and formats."""
    rng, root = np.random.default_rng(0), tmp_path_factory.mktemp("pictures") / "bars"
    for i in range(24):
        kind = ("lying", "upright")[i % 2]
        (root / kind).mkdir(parents=True, exist_ok=True)
        size = rng.integers(24, 40, 2)
        ending = ("png", "jpg", "webp")[i % 3]
        Image.fromarray(draw(kind, size, rng)).save(root / kind / f"{i}.{ending}")
    return root


@pytest.fixture(scope="module")
def screen(bars, call, tmp_path_factory):
    """What the command says, and the model it writes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("here"))
        result = call("fit", bars)
        assert result.exit_code == 0, result.output
        return result, dcadl.load("bars.safetensors")


def test_pictures_get_loo_adl_and_a_size_that_suits_them(screen):
    result, model = screen

    height, width = model.image_shape_
    assert type(model) is dcadl.LOOADL
    assert 24 <= min(height, width) <= max(height, width) <= 40
    assert f"brought to {height}×{width} in grey" in result.stdout


def test_the_screen_says_what_was_chosen_and_what_to_expect(screen):
    result, model = screen

    low, high = interval(model.expected_accuracy_, model.n_judged_)
    assert "classes: lying 12, upright 12" in result.stdout
    assert f"of {len(model.candidates_)} structures on 24 samples" in result.stdout
    assert f"expected accuracy: {model.expected_accuracy_:.1%} ({low:.1%} to {high:.1%}" in result.stdout
    assert (
        f"plain ridge on the same numbers reaches {model.training_['control_accuracy']:.1%}" in result.stdout
    )
    assert "most confused: " in result.stdout
    assert "next: dcadl predict bars.safetensors" in result.stdout


def test_the_choice_says_on_how_many_samples_it_was_made_and_signals_have_cells_along_their_length():
    X, y = np.random.default_rng(0).standard_normal((30, 40)), np.arange(30) % 2
    model = dcadl.LOOADL(image_shape=(40,), learn=False, n_atoms=4, random_state=0).fit(X, y)
    best = dict(zip(Candidate._fields, model._compared[0]))
    model._compared = (tuple((best | {"n_images": 1400}).values()), *model._compared[1:])

    sentence = choice_sentence(model)

    assert "structures on 30 to 1400 samples" in sentence
    assert f"averaged over {model.pool_[0]}" in sentence
    assert "×" not in sentence


def test_a_second_fit_replaces_the_model_but_never_another_file(bars, call, refused, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bars.safetensors").write_bytes(b"precious")

    assert "name the model file with -o" in refused("fit", bars)
    assert (tmp_path / "bars.safetensors").read_bytes() == b"precious"


def test_info_says_what_was_chosen_too(screen, call, tmp_path):
    _, model = screen
    model.save(tmp_path / "m")

    result = call("info", tmp_path / "m")

    words = " ".join(result.stdout.split())
    assert "windows of" in words
    assert f"{model.expected_accuracy_:.1%}" in words


def test_rows_of_numbers_get_dcadl(call, tmp_path, rng):
    y = np.repeat(["a", "b"], 12)
    np.savez(tmp_path / "rows.npz", X=rng.standard_normal((24, 6)) + 4 * (y == "b")[:, None], y=y)

    result = call("fit", tmp_path / "rows.npz", "-o", tmp_path / "m")

    assert result.exit_code == 0, result.output
    assert type(dcadl.load(tmp_path / "m")) is dcadl.DCADL


def test_a_fit_that_does_not_fit_is_refused_before_pictures_are_read(refused, bars, tmp_path, monkeypatch):
    monkeypatch.setattr(reading_plan, "available_bytes", lambda: 250_000_000)
    monkeypatch.setattr("dcadl.data.folder.decode", lambda *_, **__: pytest.fail("a picture was read"))

    line = refused("fit", bars, "-o", tmp_path / "m", "--size", "600x600")

    assert "needs about" in line
    assert "250.0 MB are free" in line
    assert re.search(r"--size \d+x\d+ needs about 2[0-4]\d", line)


def test_the_control_is_ridge_with_every_sample_left_out_once(rng):
    y = np.repeat([0, 1], 10)
    X = rng.standard_normal((20, 3, 2)).astype(np.float32) + (2 * y[:, None, None]).astype(np.float32)

    control = ridge_on_pixels(X, y)

    left_out = [
        ridge_on_pixels(np.delete(X, i, 0), np.delete(y, i), (X[i : i + 1], y[i : i + 1])).accuracy
        for i in range(20)
    ]
    assert control.n == 20
    assert control.accuracy == pytest.approx(np.mean(left_out), abs=0.1)  # λ is chosen anew each time


def test_colour_is_kept_where_it_tells_the_classes_apart(call, tmp_path, rng):
    for i in range(24):
        label, color = (("red", (190, 60, 60)), ("green", (60, 126, 60)))[i % 2]
        (tmp_path / "data" / label).mkdir(parents=True, exist_ok=True)
        noise = rng.normal(0, 30, (20, 20, 1))
        picture = np.clip(np.array(color) + noise, 0, 255).astype(np.uint8)
        Image.fromarray(picture).save(tmp_path / "data" / label / f"{i}.png")

    result = call("fit", tmp_path / "data", "-o", tmp_path / "m")

    assert "in colour, which had less leave-one-out error than grey" in result.stdout
    assert dcadl.load(tmp_path / "m").image_shape_ == (20, 20, 3)


# how many pictures, by how much the second class is higher and lighter, and what is said of that
CAUTIONS = {
    "few to judge by": (8, 0, 0, "only 8 samples to judge by"),
    "small classes": (8, 0, 0, "too few samples to learn from: lying (4), upright (4)"),
    "sizes": (24, 4, 0, "sizes alone tell the classes apart"),
    "brightness": (24, 0, 60, "brightness alone tells the classes apart"),
}


@pytest.mark.parametrize(("n", "higher", "lighter", "said"), CAUTIONS.values(), ids=CAUTIONS)
def test_what_makes_the_estimate_doubtful_is_said(call, tmp_path, rng, n, higher, lighter, said):
    for i in range(n):
        label = ("lying", "upright")[i % 2]
        (tmp_path / "data" / label).mkdir(parents=True, exist_ok=True)
        picture = draw(label, (24 + higher * (i % 2), 24), rng, light=lighter * (i % 2))
        Image.fromarray(picture).save(tmp_path / "data" / label / f"{i}.png")
    words = ("--method", "loo-adl", "--param", "learn=false")

    result = call("fit", tmp_path / "data", "-o", tmp_path / "m", *words)

    assert said in result.stderr


def test_test_pictures_that_repeat_training_pictures_are_counted(call, tmp_path):
    rng = np.random.default_rng(2)
    X = np.stack([draw(("lying", "upright")[i % 2], (16, 16), rng)[..., 0] for i in range(20)])
    y = np.array(["lying", "upright"] * 10)
    parts = {"x_train": X, "y_train": y, "x_test": X[:4] + 1, "y_test": y[:4]}
    np.savez(tmp_path / "data.npz", **parts)

    result = call("fit", tmp_path / "data.npz", "-o", tmp_path / "m", "--method", "patch-ridge")

    assert "4 of 4 test pictures nearly repeat a training picture" in result.stderr


def test_pictures_with_their_channels_first_are_refused_with_the_way_out(refused, tmp_path):
    np.savez(tmp_path / "data.npz", images=np.zeros((4, 3, 8, 8), np.uint8), labels=[0, 0, 1, 1])

    assert "channels last" in refused("fit", tmp_path / "data.npz", "-o", tmp_path / "m")
