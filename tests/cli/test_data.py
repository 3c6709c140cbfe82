"""`dcadl data …` and `dcadl features` as a user calls them."""

import shutil

import numpy as np
import pytest
import typer
from PIL import Image
from threadpoolctl import threadpool_limits
from typer.testing import CliRunner

from dcadl.cli.data import data_app, features
from dcadl.data import read_labelled, split

SMALL = ["--words", "8", "--levels", "1,2"]


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Calls the commands and gives the result."""
    monkeypatch.setenv("DCADL_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("DCADL_DATA", raising=False)
    app = typer.Typer()
    app.add_typer(data_app, name="data")
    app.command("features")(features)

    def call(*arguments):
        with threadpool_limits(1):
            return CliRunner().invoke(app, [str(argument) for argument in arguments])

    return call


@pytest.fixture
def pictures(tmp_path):
    """Two classes of five pictures of differing sizes."""
    rng = np.random.default_rng(0)
    for name in ("ant", "bee"):
        (tmp_path / "pictures" / name).mkdir(parents=True)
        for i in range(5):
            values = rng.integers(0, 256, (30 + i, 40), dtype=np.uint8)
            Image.fromarray(values).save(tmp_path / "pictures" / name / f"{i}.png")
    return tmp_path / "pictures"


def test_list_names_every_set_and_where_it_is(run, tmp_path):
    np.savez(tmp_path / "mnist.npz", images=np.zeros((2, 28, 28), np.uint8), labels=[0, 1])
    result = run("data", "list", "--root", tmp_path)
    assert result.exit_code == 0
    assert all(name in result.output for name in ("extended_yaleb", "ar", "caltech101", "scene15", "digits"))
    assert "mnist.npz" in result.output


def test_list_works_without_any_data(run):
    assert run("data", "list").exit_code == 0


def test_info_tells_source_terms_and_files(run):
    result = run("data", "info", "ar")
    assert result.exit_code == 0
    assert all(word in result.output for word in ("Source:", "Terms:", "Citation:", "m-001-01.bmp"))


def test_info_of_an_unknown_set_is_one_line_and_code_2(run):
    result = run("data", "info", "imagenet")
    assert result.exit_code == 2
    assert "imagenet" in result.stderr
    assert result.stderr.count("\n") == 1


def test_check_finds_digits_whole(run):
    result = run("data", "check", "digits")
    assert result.exit_code == 0
    assert "1797 samples, 10 classes" in result.output


def test_check_finds_a_small_copy_incomplete(run, tmp_path):
    np.savez(tmp_path / "mnist.npz", images=np.zeros((4, 28, 28), np.uint8), labels=[0, 1, 0, 1])
    result = run("data", "check", "mnist", "--root", tmp_path)
    assert result.exit_code == 1
    assert "should have 70000 images" in result.output


def test_check_of_a_missing_set_says_where_to_get_it(run, tmp_path):
    result = run("data", "check", "ar", "--root", tmp_path)
    assert result.exit_code == 2
    assert "ohio-state" in result.stderr


def test_check_of_a_folder_lists_broken_files_and_repeated_ones(run, pictures):
    (pictures / "ant" / "broken.png").write_text("x")
    shutil.copy(pictures / "ant" / "0.png", pictures / "bee" / "again.png")
    result = run("data", "check", pictures)
    assert result.exit_code == 1
    assert "broken.png" in result.output
    assert "1 files repeat another" in result.output
    assert "30–34 × 40–40 pixels" in result.output


def test_check_of_a_whole_folder_is_content(run, pictures):
    result = run("data", "check", pictures)
    assert result.exit_code == 0
    assert "10 samples, 2 classes of 5 to 5" in result.output


def test_features_are_learned_from_the_training_images_it_names(run, pictures, tmp_path):
    output = tmp_path / "features.npz"
    result = run("features", pictures, "-o", output, "--per-class", 3, "--seed", 4, *SMALL)
    assert result.exit_code == 0, result.output
    stored = np.load(output, allow_pickle=False)
    assert stored["features"].shape == (10, 5 * 8)
    assert str(stored["protocol"]) == "inductive"
    np.testing.assert_array_equal(
        np.flatnonzero(stored["train"]), split(stored["labels"], per_class=3, seed=4).train
    )
    assert "inductive" in result.output


def test_features_can_be_read_as_labelled_data(run, pictures, tmp_path):
    run("features", pictures, "-o", tmp_path / "f.npz", "--per-class", 3, "--pca", 4, *SMALL)
    bunch = read_labelled(tmp_path / "f.npz")
    assert bunch.data.shape == (10, 4)
    assert list(bunch.target_names) == ["ant", "bee"]
    assert bunch.filenames[0] == "ant/0.png"
    assert bunch.train.sum() == 6


def test_transductive_features_are_named_so(run, pictures, tmp_path):
    result = run("features", pictures, "-o", tmp_path / "f.npz", "--transductive", *SMALL)
    assert "transductive" in result.output
    stored = np.load(tmp_path / "f.npz", allow_pickle=False)
    assert str(stored["protocol"]) == "transductive"
    assert stored["train"].all()


def test_a_saved_pyramid_gives_the_same_features_without_learning(run, pictures, tmp_path):
    learn = ["--per-class", 3, "--save-model", tmp_path / "pyramid.npz", "--no-cache"]
    run("features", pictures, "-o", tmp_path / "one.npz", *learn, *SMALL)
    result = run("features", pictures, "-o", tmp_path / "two.npz", "--model", tmp_path / "pyramid.npz")
    assert result.exit_code == 0, result.output
    one, two = np.load(tmp_path / "one.npz"), np.load(tmp_path / "two.npz")
    np.testing.assert_allclose(one["features"], two["features"], atol=1e-6)
    assert not two["train"].any()


def test_finished_work_is_kept_unless_told_not_to(run, pictures, tmp_path):
    run("features", pictures, "-o", tmp_path / "a.npz", "--per-class", 3, "--no-cache", *SMALL)
    assert not (tmp_path / "cache").exists()
    run("features", pictures, "-o", tmp_path / "b.npz", "--per-class", 3, *SMALL)
    assert len(list((tmp_path / "cache").rglob("*.npy"))) == 11  # ten images and the codebook


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "exactly one of --per-class"),
        (["--per-class", 3, "--transductive"], "exactly one of --per-class"),
        (["--per-class", 5], "ant (5), bee (5). Lower --per-class or"),
        (["--per-class", 3, "--levels", "a,b"], "--levels must be"),
        (["--per-class", 3, "--words", "100000"], "Lower --words or"),
        (["--per-class", 3, "--words", "3"], "Raise --words, or take --coding hard"),
        (["--model", "nowhere.npz"], "nowhere.npz"),
    ],
)
def test_impossible_requests_are_one_clean_line_and_leave_no_file(run, pictures, tmp_path, options, message):
    (tmp_path / "out").mkdir()
    result = run("features", pictures, "-o", tmp_path / "out" / "f.npz", *options)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.strip().count("\n") == 0
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize("name", ["f.txt", "nowhere/f.npz"])
@pytest.mark.parametrize("option", ["--output", "--save-model"])
def test_files_that_cannot_be_written_are_refused_before_any_work(run, pictures, tmp_path, option, name):
    files = {"--output": tmp_path / "a.npz"} | {option: tmp_path / name}
    result = run("features", pictures, "--transductive", *[word for pair in files.items() for word in pair])
    assert result.exit_code == 2
    assert name in result.stderr
    assert not (tmp_path / "cache").exists()


def test_a_corrupt_picture_is_named_and_an_old_output_stays(run, pictures, tmp_path):
    (tmp_path / "f.npz").write_bytes(b"old")
    (pictures / "bee" / "2.png").write_text("x")
    result = run("features", pictures, "-o", tmp_path / "f.npz", "--transductive", *SMALL)
    assert result.exit_code == 2
    assert "2.png" in result.stderr
    assert (tmp_path / "f.npz").read_bytes() == b"old"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-o", "a.npz", "--model", "a.npz"], "--output would overwrite --model"),
        (
            ["-o", "b.npz", "--save-model", "a.npz", "--model", "a.npz"],
            "--save-model would overwrite --model",
        ),
        (["-o", "b.npz", "--save-model", "b.npz", "--transductive"], "must be two files"),
    ],
)
def test_outputs_never_overwrite_an_input_or_each_other(run, pictures, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.npz").write_bytes(b"precious")
    result = run("features", pictures, *words)
    assert result.exit_code == 2
    assert message in result.stderr
    assert (tmp_path / "a.npz").read_bytes() == b"precious"
    assert not (tmp_path / "b.npz").exists()


def test_features_name_what_they_leave_out(run, pictures, tmp_path):
    (pictures / "ant" / "x.heic").write_bytes(b"x")
    result = run("features", pictures, "-o", tmp_path / "f.npz", "--transductive", "--no-cache", *SMALL)
    assert "note: 1 file left out by its ending (.heic: 1)\n" in result.stderr
