"""`dcadl predict`: the same labels as the library, in three forms, for pictures of any size."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import dcadl
from dcadl.cli.predict import _as_csv, _csv
from dcadl.cli.sorting import copy_into
from dcadl.cli.terminal import shortened_path


@pytest.fixture(scope="session")
def pictures(folder):
    return sorted(folder.rglob("*.png"))


def test_json_names_every_file_and_the_librarys_label(call, model, pictures, arrays):
    result = call("predict", model, *pictures, "--json")

    found = json.loads(result.stdout)
    expected = dcadl.load(model).predict(arrays[0].astype(np.float32) / np.float32(255))
    assert [row["file"] for row in found] == [str(p) for p in pictures]
    assert [row["label"] for row in found] == expected.tolist()


def test_the_margin_is_what_parts_the_two_highest_scores(call, model, pictures, arrays):
    scores = dcadl.load(model).decision_function(arrays[0].astype(np.float32) / np.float32(255))

    found = json.loads(call("predict", model, *pictures, "--json").stdout)

    ranked = np.sort(scores, axis=1)
    np.testing.assert_allclose([row["margin"] for row in found], ranked[:, -1] - ranked[:, -2], atol=1e-4)
    assert all(row["label"] != row["runner_up"] for row in found)


def test_csv_holds_what_json_holds(call, model, pictures):
    rows = list(csv.DictReader(call("predict", model, *pictures, "--csv").stdout.splitlines()))
    found = json.loads(call("predict", model, *pictures, "--json").stdout)

    assert [row["label"] for row in rows] == [row["label"] for row in found]
    assert [float(row["margin"]) for row in rows] == [row["margin"] for row in found]


def test_the_table_shows_file_and_label(call, model, pictures):
    result = call("predict", model, pictures[0])

    assert f"/across/{pictures[0].name} " in result.stdout  # the folder may be cut, the name is whole
    assert "across" in result.stdout


@pytest.mark.parametrize(
    ("path", "width", "shown"),
    [
        ("a/b.png", 20, "a/b.png"),
        ("long/folders/here/b.png", 12, "…/here/b.png"),
        ("long/b.png", 6, "b.png"),
        ("folder/a_name_too_long.png", 8, "a_name_too_long.png"),
    ],
)
def test_a_path_loses_its_leading_folders_first(path, width, shown):
    assert shortened_path(path, width) == shown


def test_a_larger_colour_picture_is_brought_to_the_models_form(call, tmp_path, model, pictures):
    with Image.open(pictures[0]) as small:
        small.convert("RGB").resize((36, 36), Image.Resampling.NEAREST).save(tmp_path / "large.png")

    same, large = (
        json.loads(call("predict", model, file, "--json").stdout)
        for file in (pictures[0], tmp_path / "large.png")
    )

    assert large[0]["label"] == same[0]["label"]
    assert large[0]["margin"] == pytest.approx(same[0]["margin"], abs=0.01)


def test_two_classes_have_a_margin_too(call, tmp_path, arrays, pictures):
    images, labels = arrays
    np.savez(tmp_path / "two.npz", images=images[:24], labels=labels[:24])
    call("fit", tmp_path / "two.npz", "-o", tmp_path / "m", "--method", "patch-ridge", "--patch", 6)

    found = json.loads(call("predict", tmp_path / "m", *pictures[:24], "--json").stdout)

    gaps = dcadl.load(tmp_path / "m").decision_function(images[:24].astype(np.float32) / np.float32(255))
    np.testing.assert_allclose([row["margin"] for row in found], np.abs(gaps), atol=1e-4)
    assert [row["label"] == "down" for row in found] == (gaps > 0).tolist()


def test_a_corrupt_picture_is_refused_by_its_name(refused, tmp_path, model, pictures):
    (tmp_path / "torn.png").write_bytes(pictures[0].read_bytes()[:60])

    assert "torn.png" in refused("predict", model, pictures[0], tmp_path / "torn.png")


def test_all_corrupt_pictures_are_named_with_a_way_out(refused, tmp_path, model, pictures):
    for name in ("a.png", "b.png"):
        (tmp_path / name).write_bytes(b"no picture")

    line = refused("predict", model, tmp_path / "a.png", pictures[0], tmp_path / "b.png")

    assert all(word in line for word in ("a.png", "b.png", "--skip-unreadable leaves them out"))


def test_corrupt_pictures_can_be_skipped(call, tmp_path, model, pictures):
    (tmp_path / "torn.png").write_bytes(b"no picture")

    result = call("predict", model, tmp_path / "torn.png", *pictures[:3], "--json", "--skip-unreadable")

    assert result.exit_code == 0
    assert result.stdout == call("predict", model, *pictures[:3], "--json").stdout
    assert result.stderr.startswith("note: left out: ")
    assert "torn.png" in result.stderr


def test_missing_pictures_can_be_skipped_too(call, tmp_path, model, pictures):
    result = call("predict", model, tmp_path / "gone.png", *pictures[:2], "--json", "--skip-unreadable")

    assert len(json.loads(result.stdout)) == 2
    assert "gone.png" in result.stderr


def test_corrupt_pictures_only_are_refused_even_when_skipping(refused, tmp_path, model):
    (tmp_path / "torn.png").write_bytes(b"no picture")

    assert "No picture is left" in refused("predict", model, tmp_path / "torn.png", "--skip-unreadable")


def test_a_missing_picture_is_refused_by_its_name(refused, tmp_path, model):
    assert "nowhere.png" in refused("predict", model, tmp_path / "nowhere.png")


@pytest.mark.parametrize("command", ["predict", "evaluate"])
def test_a_damaged_model_is_refused_by_its_name(refused, tmp_path, model, folder, command):
    (tmp_path / "torn.safetensors").write_bytes(model.read_bytes()[:-7])

    assert "torn.safetensors" in refused(command, tmp_path / "torn.safetensors", folder)


@pytest.mark.parametrize("command", ["predict", "evaluate"])
def test_a_missing_model_is_refused_by_its_name(refused, tmp_path, folder, command):
    assert "nowhere" in refused(command, tmp_path / "nowhere", folder)


def test_a_model_of_features_takes_no_pictures(refused, tmp_path, pictures):
    rng = np.random.default_rng(0)
    features = dcadl.PatchRidge().fit(rng.standard_normal((10, 6)), np.arange(10) % 2)
    features.save(tmp_path / "m")

    assert "not on pictures" in refused("predict", tmp_path / "m", pictures[0])


def test_two_forms_at_once_are_refused(refused, model, pictures):
    assert "not both" in refused("predict", model, pictures[0], "--json", "--csv")


def test_a_folder_and_a_pattern_mean_the_pictures_in_them(call, model, folder, pictures):
    by_name = call("predict", model, *pictures, "--json").stdout

    assert call("predict", model, folder, "--json").stdout == by_name
    assert call("predict", model, f"{folder}/*/*.png", "--json").stdout == by_name


@pytest.mark.parametrize("word", ["empty", "empty/*.png"])
def test_a_folder_or_pattern_without_pictures_is_refused(refused, tmp_path, model, word):
    (tmp_path / "empty").mkdir()

    assert "empty" in refused("predict", model, tmp_path / word)


def test_pictures_are_copied_into_a_folder_of_their_label_and_none_is_moved(call, tmp_path, model, pictures):
    found = json.loads(call("predict", model, *pictures, "--json").stdout)

    call("predict", model, *pictures, "--sort-into", tmp_path / "sorted")
    call("predict", model, *pictures, "--sort-into", tmp_path / "sorted")  # nothing is copied twice

    expected = sorted((row["label"], row["file"].rpartition("/")[2]) for row in found)
    assert sorted((p.parent.name, p.name) for p in (tmp_path / "sorted").rglob("*.png")) == expected
    assert all(p.is_file() for p in pictures)


def test_two_pictures_of_one_name_are_both_copied(call, tmp_path, model, pictures):
    for home, picture in zip("ab", pictures):
        (tmp_path / home).mkdir()
        (tmp_path / home / "same.png").write_bytes(picture.read_bytes())

    call("predict", model, tmp_path / "a", tmp_path / "b", "--sort-into", tmp_path / "sorted")

    copies = {p.read_bytes() for p in (tmp_path / "sorted").rglob("*.png")}
    assert copies == {p.read_bytes() for p in pictures[:2]}


def test_a_label_cannot_lead_out_of_the_folder(tmp_path, pictures):
    copy_into(tmp_path / "sorted", [(pictures[0], "../out"), (pictures[1], "..")])

    assert sorted(p.name for p in tmp_path.iterdir()) == ["sorted"]


def test_labels_that_would_share_a_folder_are_refused(tmp_path, pictures):
    with pytest.raises(ValueError, match=r"'a/b' and 'a_b' would share the folder 'a_b'"):
        copy_into(tmp_path / "sorted", [(pictures[0], "a/b"), (pictures[1], "a_b")])
    assert not (tmp_path / "sorted").exists()


@pytest.mark.parametrize("ending", [".csv", ".jsonl"])
def test_labels_are_written_to_a_file(call, tmp_path, model, pictures, ending):
    expected = json.loads(call("predict", model, *pictures, "--json").stdout)

    result = call("predict", model, *pictures, "-o", tmp_path / f"labels{ending}")

    text = (tmp_path / f"labels{ending}").read_text()
    rows = {".csv": lambda: list(csv.DictReader(text.splitlines()))}.get(
        ending, lambda: [json.loads(line) for line in text.splitlines()]
    )()
    assert result.stdout == ""
    assert [row["label"] for row in rows] == [row["label"] for row in expected]


def test_labels_are_never_written_over_a_picture_or_in_another_form(refused, tmp_path, model, pictures):
    assert "must end in .csv or .jsonl" in refused("predict", model, *pictures, "-o", pictures[0])


def test_probabilities_are_the_librarys(call, model, pictures, arrays):
    found = json.loads(call("predict", model, *pictures, "--json").stdout)

    expected = dcadl.load(model).predict_proba(arrays[0].astype(np.float32) / np.float32(255)).max(axis=1)
    np.testing.assert_allclose([row["probability"] for row in found], expected, atol=1e-4)
    assert "probability" in call("predict", model, pictures[0]).stdout


def test_what_is_less_probable_than_asked_for_is_unsure(call, tmp_path, model, pictures):
    plain = json.loads(call("predict", model, *pictures, "--json").stdout)
    least = sorted(row["probability"] for row in plain)[len(plain) // 2]
    words = ("--reject", least, "--json", "--sort-into", tmp_path / "sorted")

    found = json.loads(call("predict", model, *pictures, *words).stdout)

    sure = [row["probability"] >= least for row in plain]
    assert 0 < sum(sure) < len(sure)
    assert [row["label"] != "unsure" for row in found] == sure
    assert [row["leading"] for row in found] == [row["label"] for row in plain]
    assert len(list((tmp_path / "sorted" / "unsure").iterdir())) == sum(not s for s in sure)


def test_a_model_without_probabilities_cannot_reject(refused, call, tmp_path, folder, pictures):
    words = ("--method", "dpl", "--atoms", 4, "--param", "max_iter=2", "--no-probabilities")
    call("fit", folder, "-o", tmp_path / "m", *words)

    assert "has none" in refused("predict", tmp_path / "m", pictures[0], "--reject", 0.9)


def test_reject_must_be_a_probability(refused, model, pictures):
    assert "--reject must be" in refused("predict", model, pictures[0], "--reject", 90)


def test_a_class_called_unsure_is_not_mistaken_for_the_answer(refused, tmp_path, arrays, pictures):
    images, labels = arrays
    named = np.where(labels == "down", "unsure", labels)
    dcadl.PatchRidge(patch_shape=6).fit(images / 255, named).save(tmp_path / "m")

    assert "a class of" in refused("predict", tmp_path / "m", *pictures, "--reject", 0.5)


FORMULAS = {
    "=HYPERLINK(1)": "'=HYPERLINK(1)",
    "@x": "'@x",
    "+x": "'+x",
    "-cmd": "'-cmd",
    "-1": "-1",
    "+1e5": "+1e5",
    "a=b": "a=b",
}


@pytest.mark.parametrize("label", FORMULAS)
def test_no_label_in_a_csv_is_a_formula(label):
    row = {"file": "a.png", "label": label, "margin": -0.5, "runner_up": label}
    (found,) = csv.DictReader(io.StringIO(_as_csv([row])))
    assert found == {
        "file": "a.png",
        "label": FORMULAS[label],
        "margin": "-0.5",
        "runner_up": FORMULAS[label],
    }


def test_a_file_in_a_csv_is_no_formula_and_the_same_file(call, tmp_path, model, pictures, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copy(pictures[0], "=1+1.png")
    (row,) = csv.DictReader(io.StringIO(call("predict", model, "=1+1.png", "--csv").stdout))
    assert row["file"] == "./=1+1.png"
    assert Path(row["file"]).is_file()


WRITTEN = {
    "--csv": lambda result: os.fsdecode(result.stdout_bytes),
    "--output=a.csv": lambda result: os.fsdecode(Path("a.csv").read_bytes()),
    "--output=a.jsonl": lambda result: json.loads(Path("a.jsonl").read_bytes())["file"],
}


@pytest.mark.parametrize("form", WRITTEN)
def test_names_are_kept_to_the_byte(call, tmp_path, model, pictures, form, monkeypatch):
    """Control characters, and bytes that are no UTF-8: a program that reads them finds the file again."""
    monkeypatch.chdir(tmp_path)
    name = os.fsdecode(b"\x1b[31m\xff.png")
    shutil.copy(pictures[0], name)
    assert name in WRITTEN[form](call("predict", model, tmp_path, form))


def test_csv_on_a_terminal_has_no_power_over_it(monkeypatch):
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr("sys.stdout", terminal)
    _csv([{"file": "\x1b[31m.png"}])
    assert terminal.getvalue() == "file\n\\u001b[31m.png\n"


def test_an_output_that_cannot_be_written_is_said_before_any_work(refused, tmp_path, pictures):
    (tmp_path / "there.csv").mkdir()
    line = refused("predict", tmp_path / "no model", pictures[0], "-o", tmp_path / "there.csv")
    assert "there.csv" in line
