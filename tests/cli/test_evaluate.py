"""`dcadl evaluate` and `dcadl info`."""

from __future__ import annotations

import json
import shutil
import time

import numpy as np
import pytest
from PIL import Image

import dcadl


def test_the_accuracy_is_the_librarys(call, model, folder, arrays):
    images, labels = arrays

    found = json.loads(call("evaluate", model, folder, "--json").stdout)

    expected = dcadl.load(model).score(images.astype(np.float32) / np.float32(255), labels)
    assert found["accuracy"] == pytest.approx(expected)
    assert found["samples"] == len(labels)


def test_recall_and_confusion_tell_the_same(call, model, folder):
    found = json.loads(call("evaluate", model, folder, "--json").stdout)

    confusion = np.array(found["confusion"])
    recalls = [row["recall"] for row in found["classes"]]
    np.testing.assert_allclose(recalls, np.diag(confusion) / confusion.sum(axis=1))


def test_mistakes_are_named(call, tmp_path, model, arrays):
    images, labels = arrays
    images = images[labels == "across"]
    answers = dcadl.load(model).predict(images / np.float32(255))
    wrong = np.where(answers == "down", "slant", "down")
    wrong[:1] = "slant" if answers[0] != "slant" else "down"  # of two classes, as data must be
    np.savez(tmp_path / "wrong.npz", images=images, labels=wrong)

    result = call("evaluate", model, tmp_path / "wrong.npz")

    assert "across (" in result.stdout
    assert "accuracy: 0.00% of 12 samples" in result.stdout


def test_of_a_file_with_a_test_part_only_that_is_judged(call, tmp_path, model, arrays):
    images, labels = arrays
    parts = {"x_train": images[3:], "y_train": labels[3:], "x_test": images[:3], "y_test": labels[:3]}
    np.savez(tmp_path / "parts.npz", **parts)

    assert json.loads(call("evaluate", model, tmp_path / "parts.npz", "--json").stdout)["samples"] == 3


def test_of_a_file_with_a_mask_only_what_is_outside_is_judged(call, tmp_path, model, arrays):
    images, labels = arrays
    right = dcadl.load(model).predict(images.astype(np.float32) / np.float32(255)) == labels
    mask = np.arange(len(labels)) % 5 > 0
    np.savez(tmp_path / "masked.npz", images=images, labels=labels, train=mask)

    found = json.loads(call("evaluate", model, tmp_path / "masked.npz", "--json").stdout)

    assert found["samples"] == np.sum(~mask)
    assert found["accuracy"] == right[~mask].mean()


def test_the_confusion_matrix_is_drawn(call, tmp_path, model, folder):
    assert call("evaluate", model, folder, "--plot", tmp_path / "c.png").exit_code == 0

    with Image.open(tmp_path / "c.png") as picture:
        assert min(picture.size) > 300


def test_classes_the_model_does_not_know_are_refused(refused, tmp_path, model, arrays):
    np.savez(tmp_path / "other.npz", images=arrays[0][:4], labels=["across", "down", "zigzag", "zigzag"])

    assert "zigzag" in refused("evaluate", model, tmp_path / "other.npz")


def test_rows_of_the_wrong_length_are_refused(refused, tmp_path, model):
    np.savez(tmp_path / "rows.npz", X=np.ones((4, 7)), y=["across", "down"] * 2)

    assert "7" in refused("evaluate", model, tmp_path / "rows.npz")


def test_a_model_of_features_is_judged_on_features(call, tmp_path):
    rng = np.random.default_rng(0)
    y = np.repeat(["a", "b"], 10)
    X = rng.standard_normal((20, 6)) + 5.0 * (y == "b")[:, None]
    np.savez(tmp_path / "rows.npz", features=X, labels=y)
    call(
        "fit",
        tmp_path / "rows.npz",
        "-o",
        tmp_path / "m",
        "--method",
        "patch-ridge",
        "--patch",
        3,
        "--stride",
        3,
    )

    found = json.loads(call("evaluate", tmp_path / "m", tmp_path / "rows.npz", "--json").stdout)

    model = dcadl.load(tmp_path / "m")
    assert model.grid_.p == 2
    assert found["accuracy"] == model.score(X, y)


def test_info_tells_what_the_model_holds(call, model):
    found = json.loads(call("info", model, "--json").stdout)

    fitted = dcadl.load(model)
    assert found["classes"] == fitted.classes_.tolist()
    assert found["sample_shape"] == [12, 12]
    assert found["params"]["n_atoms"] == 8
    assert found["passes"] == 5
    assert found["bytes"] == model.stat().st_size


def test_info_for_people_names_method_classes_and_patches(call, model):
    text = call("info", model).stdout

    assert all(
        part in text for part in ("DCADL", "3: across, down, slant", "12×12", "6×6, stride 3×3: 3×3 places")
    )


def test_info_refuses_what_is_no_model(refused, folder):
    assert "safetensors" in refused("info", next(folder.rglob("*.png")))


@pytest.mark.parametrize("victim", ["MODEL", "DATA"])
def test_a_picture_never_overwrites_what_it_is_drawn_of(refused, tmp_path, model, arrays, victim):
    files = {"MODEL": tmp_path / "m.png", "DATA": tmp_path / "d.npz"}
    files["MODEL"].write_bytes(model.read_bytes())
    np.savez(files["DATA"], images=arrays[0], labels=arrays[1])
    before = files[victim].read_bytes()

    line = refused("evaluate", *files.values(), "--plot", files[victim])

    assert f"--plot would overwrite {victim}" in line
    assert files[victim].read_bytes() == before


def test_unreadable_pictures_are_refused_or_left_out_with_a_note(call, tmp_path, model, folder):
    shutil.copytree(folder, tmp_path / "data")
    (tmp_path / "data" / "down" / "broken.png").write_bytes(b"no picture")

    refused = call("evaluate", model, tmp_path / "data", "--json")
    judged = call("evaluate", model, tmp_path / "data", "--json", "--skip-unreadable")

    assert refused.exit_code == 2
    assert "--skip-unreadable leaves them out" in refused.stderr
    assert judged.exit_code == 0
    assert "broken.png" in judged.stderr
    assert json.loads(judged.stdout)["samples"] == 36


def test_pictures_of_two_sizes_do_not_suit_a_model_of_features(refused, tmp_path):
    rng = np.random.default_rng(0)
    dcadl.PatchRidge().fit(rng.standard_normal((10, 6)), np.arange(10) % 2).save(tmp_path / "m")
    for side in (8, 9):
        (tmp_path / "data" / str(side)).mkdir(parents=True)
        Image.new("L", (side, side)).save(tmp_path / "data" / str(side) / "a.png")

    assert "not on pictures" in refused("evaluate", tmp_path / "m", tmp_path / "data")


def test_probabilities_are_judged_too(call, tmp_path, model, folder):
    result = call("evaluate", model, folder, "--json", "--plot", tmp_path / "judged.png")

    found = json.loads(result.stdout)
    gaps = np.subtract(found["reliability"]["confidence"], found["reliability"]["accuracy"])
    weights = np.divide(found["reliability"]["counts"], found["samples"])
    assert found["calibration_error"] == pytest.approx(np.abs(gaps) @ weights)
    assert found["coverage"]["share"][-1] == 1
    assert found["coverage"]["accuracy"][-1] == pytest.approx(found["accuracy"])
    assert (tmp_path / "judged.png").stat().st_size > 10_000
    assert "calibration error: " in call("evaluate", model, folder).stdout


def test_the_time_is_the_median_of_several_calls(call, model, folder, monkeypatch):
    predict, calls = dcadl.DCADL.predict, []

    def first_is_slow(self, X):
        calls.append(1)
        time.sleep(0.4 if len(calls) == 1 else 0)
        return predict(self, X)

    monkeypatch.setattr(dcadl.DCADL, "predict", first_is_slow)

    found = json.loads(call("evaluate", model, folder, "--json").stdout)

    assert len(calls) > 2
    assert found["seconds"] < 0.4
