"""The small share of `benchmarks/walk.py`: no option, mixed sizes and formats, sensible answers."""

from __future__ import annotations

import csv
import importlib.util
import json
from pathlib import Path

import pytest

from dcadl.data import survey

WALK = Path(__file__).parents[2] / "benchmarks" / "walk.py"


@pytest.fixture(scope="module")
def walk():
    found = importlib.util.spec_from_file_location("walk", WALK)
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def test_a_new_user_gets_from_mixed_pictures_to_labels(call, tmp_path, monkeypatch, walk):
    walk.mixed(tmp_path / "all", 6, None)
    count = walk.halve(tmp_path / "all", tmp_path / "train", tmp_path / "test")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(survey, "WORKING_PIXELS", 400)  # for time

    fitted = call("fit", "train")
    named = call("predict", "train.safetensors", "test", "-o", "labels.csv")
    judged = call("evaluate", "train.safetensors", "test", "--json")

    assert (fitted.exit_code, named.exit_code, judged.exit_code) == (0, 0, 0), fitted.output
    assert count == 12
    assert "expected accuracy: " in fitted.stdout
    assert json.loads(judged.stdout)["accuracy"] > 0.8
    rows = list(csv.DictReader((tmp_path / "labels.csv").read_text().splitlines()))
    assert {Path(row["file"]).suffix for row in rows} == {".png", ".jpg", ".bmp"}
    assert all(0 < float(row["probability"]) <= 1 for row in rows)
