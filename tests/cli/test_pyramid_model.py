"""`dcadl fit --features pyramid`: pictures of any size in, labels out, from one file."""

from __future__ import annotations

import json

import numpy as np
import pytest
from PIL import Image

import dcadl
from dcadl.cli import pyramids


@pytest.fixture(scope="module")
def scenes(tmp_path_factory):
    """Colour pictures of differing sizes and formats, of two classes."""
    root, rng = tmp_path_factory.mktemp("scenes"), np.random.default_rng(0)
    for kind, name in enumerate(("across", "down")):
        (root / name).mkdir()
        for i in range(9):
            shape = tuple(rng.integers(30, 60, 2))
            wave = np.sin(np.mgrid[: shape[0], : shape[1]][kind] * 0.8 + rng.uniform(0, 6))
            grey = np.clip(128 + 90 * wave + 9 * rng.standard_normal(shape), 0, 255).astype(np.uint8)
            ending = ("png", "jpg", "webp")[i % 3]
            Image.fromarray(grey).convert("RGB").save(root / name / f"{i}.{ending}")
    return root


@pytest.fixture(scope="module")
def model(scenes, call, tmp_path_factory):
    path = tmp_path_factory.mktemp("m") / "scenes.safetensors"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pyramids, "WORDS", 16)
        patch.setattr(pyramids, "DESCRIPTORS", 2000)
        result = call("fit", scenes, "--features", "pyramid", "-o", path)
    assert result.exit_code == 0, result.output
    assert "features: a spatial pyramid of SIFT in 16 words" in result.stdout
    assert "expected accuracy: " in result.stdout
    assert "dcadl show" not in result.stdout  # it cannot be drawn
    return path


def test_pictures_go_in_and_labels_come_out(call, model, scenes):
    found = json.loads(call("predict", model, scenes, "--json").stdout)

    files = [row["file"] for row in found]
    assert [row["label"] for row in found] == dcadl.load(model).predict(files).tolist()
    assert np.mean([row["label"] == row["file"].split("/")[-2] for row in found]) > 0.9
    assert all(0 < row["probability"] <= 1 for row in found)


def test_evaluate_and_info_know_such_a_file(call, model, scenes):
    judged = json.loads(call("evaluate", model, scenes, "--json").stdout)
    known = json.loads(call("info", model, "--json").stdout)

    assert judged["samples"] == 18
    assert judged["accuracy"] > 0.9
    assert known["features"]["n_words"] == 16
    assert "SpatialPyramid" in call("info", model).stdout


@pytest.mark.parametrize(
    "words",
    [("explain", "IMAGE"), ("export", "--onnx", "m.onnx"), ("show",)],
    ids=lambda w: w[0],
)
def test_what_needs_pixels_says_so_in_a_line(refused, model, scenes, words):
    command, *rest = (str(scenes / "down" / "0.png") if word == "IMAGE" else word for word in words)

    assert "SpatialPyramid" in refused(command, model, *rest)


def test_unreadable_pictures_are_named_and_can_be_left_out(refused, call, model, scenes, tmp_path):
    (tmp_path / "torn.png").write_bytes(b"no picture")
    picture = scenes / "down" / "0.png"

    assert "torn.png" in refused("predict", model, picture, tmp_path / "torn.png")
    result = call("predict", model, picture, tmp_path / "torn.png", "--skip-unreadable", "--json")
    assert len(json.loads(result.stdout)) == 1


@pytest.mark.parametrize("words", [("--size", "20x20"), ("--color",), ("--preset", "ar")])
def test_words_that_contradict_the_pyramid_are_refused(refused, scenes, tmp_path, words):
    given = ("--features", "pyramid", "-o", tmp_path / "m", *words)

    assert "leave out --size" in refused("fit", scenes, *given)


def test_other_features_are_refused(refused, scenes, tmp_path):
    assert "--features must be pyramid" in refused("fit", scenes, "--features", "hog", "-o", tmp_path / "m")


def test_a_card_tells_of_the_features_and_measures_the_whole(call, model, scenes, tmp_path):
    result = call("card", model, "-o", tmp_path / "card.md", "--data", scenes)

    assert result.exit_code == 0, result.output
    text = (tmp_path / "card.md").read_text()
    assert "pictures of any size" in text
    assert "| features: n\\_words | 16 |" in text
    assert "Measured on 18 samples" in text
    assert "Expected on new samples" in text
