"""`dcadl fit`: what it writes, what it refuses, and that Ctrl-C leaves nothing behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile

import numpy as np
import pytest
from PIL import Image

import dcadl

SMALL = ("--method", "dcadl", "--patch", 6, "--atoms", 4, "--param", "max_iter=2", "--param", "tol=0")


def test_the_model_file_names_the_folders_classes(model):
    assert dcadl.load(model).classes_.tolist() == ["across", "down", "slant"]


def test_the_command_fits_what_the_library_fits(model, arrays):
    images, labels = arrays
    same = dcadl.DCADL(n_atoms=8, patch_shape=6, max_iter=5, tol=0, random_state=0)

    same.fit(images.astype(np.float32) / np.float32(255), labels)

    np.testing.assert_array_equal(dcadl.load(model).atoms_, same.atoms_)


def test_a_npz_of_pixel_values_gives_the_same_model_as_the_pictures(call, tmp_path, arrays, model):
    np.savez(tmp_path / "data.npz", images=arrays[0].astype(np.float64), labels=arrays[1])

    same = ("--method", "dcadl", "--patch", 6, "--atoms", 8, "--param", "max_iter=5", "--param", "tol=0")
    result = call("fit", tmp_path / "data.npz", "-o", tmp_path / "m", *same)

    assert result.exit_code == 0
    np.testing.assert_allclose(dcadl.load(tmp_path / "m").atoms_, dcadl.load(model).atoms_, atol=1e-5)


def test_a_held_out_share_is_measured(call, tmp_path, folder):
    result = call("fit", folder, "-o", tmp_path / "m", *SMALL, "--holdout", 0.25)

    assert "27 samples of 12×12" in result.stdout
    assert "of 9 samples not trained on" in result.stdout


def test_training_images_per_class_are_counted(call, tmp_path, folder):
    result = call("fit", folder, "-o", tmp_path / "m", *SMALL, "--per-class", 4)

    assert "12 samples of 12×12" in result.stdout


def test_the_test_part_of_a_file_is_not_trained_on(call, tmp_path, arrays):
    images, labels = arrays
    parts = {"x_train": images[::2], "y_train": labels[::2], "x_test": images[1::2], "y_test": labels[1::2]}
    np.savez(tmp_path / "parts.npz", **parts)

    result = call("fit", tmp_path / "parts.npz", "-o", tmp_path / "m", *SMALL)

    assert "18 samples" in result.stdout
    assert "of 18 samples not trained on" in result.stdout


def test_colour_and_size_are_kept_in_the_model(call, tmp_path, folder):
    result = call("fit", folder, "-o", tmp_path / "m", *SMALL, "--color", "--size", "10x8")

    assert result.exit_code == 0
    assert dcadl.load(tmp_path / "m").grid_.image == (10, 8, 3)


@pytest.mark.parametrize("method", ["patch-ridge", "PatchRidge", "patch_ridge"])
def test_a_method_may_be_spelled_in_many_ways(call, tmp_path, folder, method):
    call("fit", folder, "-o", tmp_path / "m", "--method", method, "--patch", 6)

    assert type(dcadl.load(tmp_path / "m")).__name__ == "PatchRidge"


def test_what_is_typed_wins_over_the_preset(call, tmp_path, folder):
    words = ("--preset", "extended_yaleb", "--atoms", 3, "--param", "max_iter=1", "--size", "24x18")

    result = call("fit", folder, "-o", tmp_path / "m", *words)

    assert result.exit_code == 0, result.output
    fitted = dcadl.load(tmp_path / "m")
    assert fitted.grid_ == ((24, 18, 1), (12, 12), (6, 6))
    assert (fitted.n_atoms, fitted.max_iter, fitted.lam2) == (3, 1, 0.2)


@pytest.mark.bits
def test_two_fits_with_one_seed_write_the_same_bytes(call, tmp_path, folder):
    for name in ("a", "b"):
        call("fit", folder, "-o", tmp_path / name, *SMALL, "--seed", 3)

    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_running_out_of_passes_is_a_note_and_no_error(call, tmp_path, folder):
    words = ("--method", "dcadl", "--patch", 6, "--param", "max_iter=2", "--param", "tol=1e-9")

    result = call("fit", folder, "-o", tmp_path / "m", *words)

    assert result.exit_code == 0
    assert "note: DCADL ran all its 2 passes" in result.stderr


REFUSALS = {
    "unknown method": (("--method", "svm"), "patch-ridge"),
    "unknown preset": (("--preset", "faces"), "extended_yaleb"),
    "unknown parameter": (("--param", "lam9=1"), "'lam9'"),
    "parameter of another method": (("--method", "patch-ridge", "--atoms", "5"), "'n_atoms'"),
    "parameter without a value": (("--param", "lam1"), "NAME=VALUE"),
    "negative lambda": (("--method", "dcadl", "--param", "lam1=-1"), "--param lam1"),
    "size that is none": (("--size", "big"), "--size"),
    "size of zero": (("--size", "0x4"), "--size"),
    "patch larger than the image": (("--patch", "13"), "--patch must fit in the pictures"),
    "model in a format that is none of ours": (("-o", "m.pkl"), "--output must end in .safetensors"),
    "share that is none": (("--holdout", "2"), "--holdout"),
    "both ways to split": (("--holdout", "0.5", "--per-class", "2"), "not both"),
    "more per class than there are": (("--per-class", "12"), "Lower --per-class or"),
    "nothing left to train on": (("--holdout", "0.99"), "Lower --holdout 0.99 or"),
    "nothing left to test on": (("--holdout", "0.01"), "Raise --holdout 0.01 or"),
}


@pytest.mark.parametrize(("words", "names"), REFUSALS.values(), ids=REFUSALS)
def test_bad_words_are_refused_in_one_line_and_write_nothing(refused, tmp_path, folder, words, names):
    assert names in refused("fit", folder, "-o", tmp_path / "m", *words)
    assert not list(tmp_path.iterdir())


def test_missing_data_is_refused_by_name(refused, tmp_path):
    assert "nowhere" in refused("fit", tmp_path / "nowhere", "-o", tmp_path / "m")


def test_a_missing_output_folder_is_refused_before_data_is_read(refused, tmp_path):
    assert "folder of --output" in refused("fit", tmp_path / "nowhere", "-o", tmp_path / "a" / "m")


def test_one_class_is_refused(refused, tmp_path):
    (tmp_path / "data" / "only").mkdir(parents=True)
    Image.new("L", (8, 8)).save(tmp_path / "data" / "only" / "a.png")

    assert "2 classes" in refused("fit", tmp_path / "data", "-o", tmp_path / "m")


def test_a_corrupt_picture_is_refused_by_its_name(refused, tmp_path, folder):
    for label in ("a", "b"):
        (tmp_path / "data" / label).mkdir(parents=True)
        Image.new("L", (8, 8)).save(tmp_path / "data" / label / "good.png")
    whole = (tmp_path / "data" / "a" / "good.png").read_bytes()
    (tmp_path / "data" / "b" / "torn.png").write_bytes(whole[: len(whole) // 2])

    assert "torn.png" in refused("fit", tmp_path / "data", "-o", tmp_path / "m")
    assert not (tmp_path / "m").exists()


def test_pictures_of_two_sizes_are_brought_to_one(call, tmp_path):
    for side in (8, 9):
        (tmp_path / "data" / str(side)).mkdir(parents=True)
        for i in range(6):
            Image.new("L", (side, side), 20 * i).save(tmp_path / "data" / str(side) / f"{i}.png")

    result = call("fit", tmp_path / "data", "-o", tmp_path / "m", "--method", "patch-ridge")

    assert result.exit_code == 0, result.output
    assert "pictures: 8×8 to 9×9 pixels, brought to 8×8 in grey" in result.stdout


def test_ctrl_c_leaves_the_old_model_and_nothing_half_written(tmp_path, arrays):
    np.savez(tmp_path / "data.npz", images=arrays[0], labels=arrays[1])
    target = tmp_path / "m.safetensors"
    target.write_bytes(b"old")
    method = ["--method", "dcadl", "--patch", "6", "--param", "max_iter=100000000"]
    words = ["fit", tmp_path / "data.npz", "-o", target, *method]
    process = subprocess.Popen(
        [sys.executable, "-c", STARTED, *map(str, words), "--param", "tol=0"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout.readline() == "fitting\n"
    time.sleep(0.3)

    os.kill(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=120)

    assert process.returncode == 130
    assert errors == "interrupted\n"
    assert target.read_bytes() == b"old"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["data.npz", "m.safetensors"]


# the command as it is, but it says when the fit begins, so that the signal meets the loop
STARTED = """
import sys
from dcadl import DCADL
from dcadl.cli import app
fit = DCADL.fit
def announced(self, X, y, sample_weight=None):
    print("fitting", flush=True)
    return fit(self, X, y, sample_weight)
DCADL.fit = announced
app(sys.argv[1:])
"""


def test_unreadable_pictures_are_refused_or_left_out_with_a_note(call, tmp_path, folder):
    data = tmp_path / "data"
    shutil.copytree(folder, data)
    (data / "down" / "broken.png").write_bytes(b"no picture")

    refused = call("fit", data, "-o", tmp_path / "m", *SMALL)
    fitted = call("fit", data, "-o", tmp_path / "m", "--skip-unreadable", *SMALL)

    assert refused.exit_code == 2
    assert "--skip-unreadable leaves them out" in refused.stderr
    assert "on_error" not in refused.stderr
    assert fitted.exit_code == 0
    assert "left out" in fitted.stderr
    assert "broken.png" in fitted.stderr
    assert (tmp_path / "m").exists()


@pytest.fixture
def pair(tmp_path, arrays):
    """A data file, and another name for it."""
    np.savez(tmp_path / "data.npz", images=arrays[0], labels=arrays[1])
    (tmp_path / "link.npz").symlink_to(tmp_path / "data.npz")
    return tmp_path / "data.npz", tmp_path / "link.npz"


@pytest.mark.parametrize("option", ["--output", "--checkpoint"])
@pytest.mark.parametrize("name", [0, 1], ids=["the same name", "a link"])
def test_data_are_never_overwritten(refused, tmp_path, pair, option, name):
    before = pair[0].read_bytes()
    files = {"--output": tmp_path / "m"} | {option: pair[name]}

    line = refused("fit", pair[0], *[word for both in files.items() for word in both], *SMALL)

    assert f"{option} would overwrite DATA" in line
    assert pair[0].read_bytes() == before


def test_a_picture_of_the_data_is_never_overwritten(refused, folder):
    picture = next(folder.rglob("*.png"))
    before = picture.read_bytes()

    assert "--output would overwrite DATA" in refused("fit", folder, "-o", picture, *SMALL)
    assert picture.read_bytes() == before


def test_the_file_of_a_named_set_is_never_overwritten(refused, tmp_path, monkeypatch):
    monkeypatch.setenv("DCADL_DATA", str(tmp_path))
    (tmp_path / "mnist_28x28.npz").write_bytes(b"precious")

    assert "would overwrite DATA" in refused("fit", "mnist", "-o", tmp_path / "mnist_28x28.npz")
    assert (tmp_path / "mnist_28x28.npz").read_bytes() == b"precious"


def test_the_model_is_not_saved_where_the_checkpoint_is(refused, tmp_path, folder):
    words = ("--output", tmp_path / "m", "--checkpoint", tmp_path / "." / "sub" / ".." / "m")

    assert "--output and --checkpoint must be two files" in refused("fit", folder, *words, *SMALL)
    assert not (tmp_path / "m").exists()


@pytest.fixture
def untidy(tmp_path, folder):
    """The folder with files that are no pictures by their ending, and one picture outside the classes."""
    shutil.copytree(folder, tmp_path / "untidy")
    for i in range(40):
        (tmp_path / "untidy" / "down" / f"{i}.heic").write_bytes(b"x")
    shutil.copy(next(folder.rglob("*.png")), tmp_path / "untidy" / "loose.png")
    return tmp_path / "untidy"


@pytest.mark.parametrize("words", [("fit", "-o", "m", *SMALL), ("data", "check")], ids=["fit", "data check"])
def test_what_is_left_out_of_a_folder_is_counted_in_a_note(call, untidy, monkeypatch, words):
    monkeypatch.chdir(untidy.parent)
    expected = "40 files left out by their ending (.heic: 40); 1 picture lies outside the class folders"

    result = call(*words, untidy)

    assert result.exit_code == 0, result.output
    assert f"note: {expected}\n" in result.output
    assert f"note: {expected}\n" in result.output


def test_a_tidy_folder_needs_no_note(call, tmp_path, folder):
    assert call("fit", folder, "-o", tmp_path / "m", *SMALL, "--no-probabilities").stderr == ""


@pytest.mark.parametrize("words", [("fit", "-o", "m", *SMALL), ("data", "check")], ids=["fit", "data check"])
def test_a_zip_with_one_folder_around_its_classes_is_read(call, tmp_path, folder, monkeypatch, words):
    monkeypatch.setenv("DCADL_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    with zipfile.ZipFile(tmp_path / "pets.zip", "w") as archive:
        for file in sorted(folder.rglob("*.png")):
            archive.write(file, f"pets/{file.relative_to(folder)}")
            archive.writestr(f"__MACOSX/pets/{file.parent.name}/._{file.name}", b"x")

    result = call(*words, "pets.zip")

    assert result.exit_code == 0, result.output
    assert "36 samples" in result.stdout
    assert "3 classes" in result.stdout


def test_a_class_of_one_sample_cannot_be_halved_by_any_share(refused, tmp_path, arrays):
    np.savez(tmp_path / "data.npz", images=arrays[0][:13], labels=arrays[1][:13])

    line = refused("fit", tmp_path / "data.npz", "-o", tmp_path / "m", "--holdout", 0.5)

    assert line.endswith("too small (samples): down (1). Leave them out.\n")


def test_a_folder_of_unreadable_pictures_only_is_refused_even_when_skipping(refused, tmp_path):
    for label in ("a", "b"):
        (tmp_path / "data" / label).mkdir(parents=True)
        (tmp_path / "data" / label / "x.png").write_bytes(b"no picture")

    line = refused("fit", tmp_path / "data", "-o", tmp_path / "m", "--skip-unreadable")

    assert line.endswith("No picture is left.\n")


def test_what_the_mask_of_a_file_leaves_out_is_not_trained_on(call, tmp_path, arrays):
    images, labels = arrays
    mask = np.arange(len(labels)) % 3 > 0
    np.savez(tmp_path / "masked.npz", images=images, labels=labels, train=mask)
    np.savez(tmp_path / "alone.npz", images=images[mask], labels=labels[mask])

    result = call("fit", tmp_path / "masked.npz", "-o", tmp_path / "m", *SMALL)
    call("fit", tmp_path / "alone.npz", "-o", tmp_path / "same", *SMALL)

    assert "24 samples" in result.stdout
    assert "of 12 samples not trained on" in result.stdout
    np.testing.assert_array_equal(dcadl.load(tmp_path / "m").atoms_, dcadl.load(tmp_path / "same").atoms_)
