"""What trying the commands as a new user showed, each mended."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from matplotlib import font_manager
from sklearn.exceptions import ConvergenceWarning

import dcadl
from dcadl import DADL, DCADL, LOOADL, PatchRidge
from dcadl.cli import reading_plan
from dcadl.cli.evaluate import Evaluation
from dcadl.cli.pictures import evaluation_picture
from dcadl.cli.summary import idle_atoms
from dcadl.estimators.fitting import Result, warn_if_not_converged
from dcadl.plot import EvidenceDisplay, canvas

WORDS = ("--method", "dcadl", "--patch", 6, "--atoms", 4, "--no-probabilities")


def test_the_shell_completes_commands():
    asked = {"_DCADL_COMPLETE": "complete_bash", "COMP_WORDS": "dcadl pred", "COMP_CWORD": "1"}
    command = [sys.executable, "-c", "from dcadl.cli import app; app(prog_name='dcadl')"]

    told = subprocess.run(command, env=os.environ | asked, capture_output=True, text=True, check=False)

    assert told.stdout.split() == ["predict"]


def test_all_faults_of_a_folder_are_named_at_once_with_the_option_that_skips_them(refused, tmp_path, pets):
    (pets / "cat" / "torn.png").write_bytes(b"no picture")
    (pets / "dog" / "cut.jpg").write_bytes(b"no picture either")
    (pets / "empty").mkdir()

    line = refused("fit", pets, "-o", tmp_path / "m", *WORDS)

    assert all(word in line for word in ("torn.png", "cut.jpg", "empty", "--skip-unreadable leaves them out"))
    assert line.count("; cannot read") == 1  # two faults on one line are told apart


def test_warnings_speak_of_options_as_errors_do(call, tmp_path, folder):
    words = ("--param", "max_iter=2", "--param", "tol=1e-9")

    told = call("fit", folder, "-o", tmp_path / "m", *WORDS, *words).stderr

    assert "--param max_iter" in told
    assert "--param tol=0 asks for exactly" in told


@pytest.mark.parametrize(
    ("change", "advice"), [(0.2, "Raise max_iter"), (0.001, "More passes would change little: raise tol")]
)
def test_more_passes_are_advised_only_where_they_help(change, advice):
    with pytest.warns(ConvergenceWarning, match=advice):
        warn_if_not_converged("DCADL", Result(None, 5, False, change), 1e-4)


@pytest.mark.parametrize(
    "model", [LOOADL(random_state=0), DCADL(n_atoms=5, patch_shape=6, max_iter=3, tol=0)]
)
def test_atoms_that_never_respond_are_counted(arrays, model):
    images, labels = arrays
    X = images / np.float32(255)
    model.fit(X, labels)
    assert idle_atoms(model, X) == 0

    model.atoms_[[1, 3]] = 0

    assert idle_atoms(model, X) == 2


def test_class_names_beyond_latin_get_a_font_that_is_here(monkeypatch):
    font = font_manager.FontEntry(name="Noto Sans CJK SC")
    monkeypatch.setattr(font_manager.fontManager, "ttflist", [font])
    figure = canvas.new_figure(2, 2)
    plain, strange = figure.text(0, 0, "Žluťoučký ξ"), figure.text(0, 1, "\u732b")

    canvas.with_fallback_fonts(figure)

    assert strange.get_fontfamily() == ["DejaVu Sans", "Noto Sans CJK SC"]
    assert "Noto Sans CJK SC" not in plain.get_fontfamily()


@pytest.mark.parametrize("name", ["x.pkl", "x.joblib", "x.npz"])
def test_models_are_written_in_one_format_only(refused, tmp_path, folder, name):
    assert "must end in .safetensors" in refused("fit", folder, "-o", tmp_path / name)


def test_channels_first_are_said(refused, tmp_path):
    np.savez(tmp_path / "nchw.npz", X=np.zeros((10, 3, 8, 9), np.uint8), y=np.arange(10) % 2)

    assert "channels last" in refused("fit", tmp_path / "nchw.npz", "-o", tmp_path / "m")


def test_class_names_that_no_font_has_are_named_in_one_line(tmp_path):
    figure = canvas.new_figure(2, 2)
    figure.text(0.5, 0.5, "\U000f0000 \U000f0001")  # for private use

    said = "letters \U000f0000\U000f0001, drawn as boxes"
    with pytest.warns(UserWarning, match=said) as told, canvas.missing_letters_named():
        figure.savefig(tmp_path / "x.png")

    assert len(told) == 1


def test_the_commands_that_are_advised_can_be_pasted(call, tmp_path, folder, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(folder, tmp_path / "my pictures; all")

    told = call("fit", "my pictures; all", *WORDS).stdout

    advised = [shlex.split(line) for line in re.findall("^next: dcadl (.*)$", told, re.MULTILINE)]
    assert [words[0] for words in advised] == ["predict", "show"]
    assert all(Path(words[1]).exists() for words in advised)
    assert call(*advised[1], "-o", "drawn.png").exit_code == 0


def test_data_that_plain_ridge_fits_better_are_sent_to_the_comparison(call, tmp_path, rng):
    X = rng.standard_normal((80, 4)) * [1, 1000, 1, 1]
    np.savez(tmp_path / "rows.npz", X=X, y=X[:, 0] > 0)

    told = call("fit", tmp_path / "rows.npz", "-o", tmp_path / "m").stdout

    assert "plain ridge is better here" in told
    assert f"next: dcadl compare {tmp_path}/rows.npz" in told


# What memory goes to: copies of pictures, atoms as large as they, a matrix of their values squared
LARGE = {
    "patch ridge": (PatchRidge(), (400, 400)),
    "DCADL on whole pictures": (DCADL(patch_shape=None), (200, 200)),
    "DADL": (DADL(), (50, 50)),
}


@pytest.mark.parametrize(("model", "shape"), LARGE.values(), ids=LARGE)
def test_a_fit_takes_no_more_memory_than_was_foretold_and_a_tenth_at_least(call, tmp_path, rng, model, shape):
    X = rng.integers(0, 255, (24, *shape), dtype=np.uint8)
    np.savez(tmp_path / "data.npz", X=X, y=np.arange(24) % 2)
    given = [f"--param={name}={value}" for name, value in model.get_params().items() if name == "patch_shape"]
    words = ("-o", tmp_path / "m", "--method", type(model).__name__, *given, "--no-probabilities")
    call("fit", "digits", *words)  # modules are imported

    tracemalloc.start()
    result = call("fit", tmp_path / "data.npz", *words)
    taken = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    foretold = reading_plan.memory_needed(model, 24, shape) - reading_plan.PROCESS_BYTES
    assert result.exit_code == 0, result.output
    assert foretold / 10 < taken < foretold


def test_one_picture_of_each_class_tells_nothing_of_new_ones(call, tmp_path, arrays):
    images, labels = arrays
    np.savez(tmp_path / "data.npz", X=images[::12], y=labels[::12])

    result = call("fit", tmp_path / "data.npz", "-o", tmp_path / "m")

    assert "expected accuracy" not in result.stdout
    assert "a class has one sample only" in result.stderr
    assert dcadl.load(tmp_path / "m").expected_accuracy_ == 0


def test_colour_arrays_that_become_grey_are_said_to(call, tmp_path, arrays, monkeypatch):
    images, labels = arrays
    colours = np.stack([images, images // 2, images // 3], axis=3)
    np.savez(tmp_path / "data.npz", X=colours, y=labels)
    monkeypatch.setattr(reading_plan, "_left_out_error", lambda X, y, seed: float(X.ndim))  # less in grey

    told = call("fit", tmp_path / "data.npz", "-o", tmp_path / "m").stdout

    assert "pictures: in grey, which had less leave-one-out error than colour" in told
    assert dcadl.load(tmp_path / "m").atoms_.ndim == 3


def test_colour_arrays_without_colours_become_grey(call, tmp_path, arrays):
    images, labels = arrays
    np.savez(tmp_path / "data.npz", X=np.repeat(images[..., None], 3, axis=3), y=labels)

    told = call("fit", tmp_path / "data.npz", "-o", tmp_path / "m").stdout

    assert "pictures: in grey: their channels are equal" in told
    assert dcadl.load(tmp_path / "m").atoms_.ndim == 3


def test_arrays_of_two_channels_are_taken_as_they_are(call, tmp_path, arrays):
    """They are no colours: there is no grey of them."""
    images, labels = arrays
    np.savez(tmp_path / "data.npz", X=np.stack([images, 255 - images], axis=3), y=labels)

    told = call("fit", tmp_path / "data.npz", "-o", tmp_path / "m")

    assert told.exit_code == 0, told.output
    assert dcadl.load(tmp_path / "m").atoms_.shape[-1] == 2


def test_the_size_that_large_arrays_are_worked_on_is_said(call, tmp_path, rng):
    np.savez(
        tmp_path / "data.npz", X=rng.integers(0, 255, (12, 130, 130), dtype=np.uint8), y=np.arange(12) % 2
    )

    told = call("fit", tmp_path / "data.npz", "-o", tmp_path / "m", "--param", "learn=false").stdout

    shape = dcadl.load(tmp_path / "m").grid_.image[:2]
    assert f"on pictures reduced to {shape[0]}×{shape[1]}" in told


def test_what_the_model_may_have_been_trained_on_is_said(call, tmp_path, model, folder):
    trained, other = call("evaluate", model, folder), tmp_path / "held-out"
    shutil.copytree(folder, other)

    card = call("card", model, "-o", tmp_path / "card.md", "--data", folder)

    assert "may be what the model was trained on" in trained.stderr
    assert "may be what" not in call("evaluate", model, other).stderr
    assert card.exit_code == 0, card.output
    assert "which may be what it was trained on" in (tmp_path / "card.md").read_text()


def test_a_card_is_measured_on_the_test_part_only(call, tmp_path, model, arrays):
    images, labels = arrays
    parts = {"x_train": images[:24], "y_train": labels[:24], "x_test": images[24:], "y_test": labels[24:]}
    np.savez(tmp_path / "parts.npz", **parts)

    call("card", model, "-o", tmp_path / "card.md", "--data", tmp_path / "parts.npz")

    assert "Measured on 12 samples of parts.npz" in (tmp_path / "card.md").read_text()


def test_folders_for_training_and_testing_are_parts_and_their_repeats_are_counted(call, tmp_path, folder):
    shutil.copytree(folder, tmp_path / "data" / "train")
    shutil.copytree(folder, tmp_path / "data" / "test")

    result = call("fit", tmp_path / "data", "-o", tmp_path / "m", *WORDS)

    assert result.exit_code == 0, result.output
    assert list(dcadl.load(tmp_path / "m").classes_) == ["across", "down", "slant"]
    assert "of 36 samples not trained on" in result.stdout
    assert "36 of 36 test pictures nearly repeat a training picture" in result.stderr


def test_long_class_names_leave_room_for_the_drawing():
    names = [
        f"{kind}_in_front_of_a_noisy_background_{where}" for kind in "ab" for where in ("indoors", "outdoors")
    ]
    confusion, right = np.diag([9, 9, 9, 9]), np.ones(36, bool)
    figure = evaluation_picture(Evaluation(np.array(names), confusion, 1.0, np.full(36, 0.95), right))

    figure.canvas.draw()

    heights = [ax.get_position().height for ax in figure.axes]
    labels = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert min(heights) > 0.4
    assert len(set(labels)) == 4


def test_titles_of_evidence_lie_within_the_picture(arrays):
    images, labels = arrays
    names = np.char.add(labels, "_and_a_long_name_behind_it")
    model = PatchRidge(patch_shape=6).fit(images / 255, names)

    figure = EvidenceDisplay.from_estimator(model, images[:1] / 255).figure_

    figure.canvas.draw()
    edges = [ax.title.get_window_extent().x1 for ax in figure.axes]
    assert max(edges) <= figure.bbox.x1
