"""What trying the commands as a new user showed, each mended."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from matplotlib import font_manager
from sklearn.exceptions import ConvergenceWarning

from dcadl import DCADL, LOOADL
from dcadl.cli.summary import idle_atoms
from dcadl.estimators.fitting import Result, warn_if_not_converged
from dcadl.plot import canvas

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


def test_warnings_speak_of_options_as_errors_do(call, tmp_path, folder):
    words = ("--param", "max_iter=2", "--param", "tol=1e-9")

    told = call("fit", folder, "-o", tmp_path / "m", *WORDS, *words).stderr

    assert "--param max_iter" in told


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
