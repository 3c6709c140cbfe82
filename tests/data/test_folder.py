"""Folders with one sub-folder per class."""

import os
import shutil
import subprocess
import sys
import unicodedata
from pathlib import Path

import numpy as np
import pytest

from dcadl.atomic import temporary_beside
from dcadl.data import image_folder
from dcadl.data.folder import list_folder, survey


def test_classes_are_sub_folders_in_alphabetical_order(pets):
    bunch = image_folder(pets)
    assert list(bunch.target_names) == ["cat", "dog"]
    np.testing.assert_array_equal(bunch.target, [0, 0, 0, 1, 1, 1])
    assert bunch.images.shape == (6, 12, 10)
    np.testing.assert_array_equal(bunch.data, bunch.images.reshape(6, -1))
    assert [os.path.basename(name) for name in bunch.filenames] == ["0.png", "1.png", "2.png"] * 2


def test_workers_do_not_change_the_result(pets):
    np.testing.assert_array_equal(image_folder(pets, n_jobs=1).data, image_folder(pets, n_jobs=4).data)


def test_pictures_deeper_down_belong_to_their_class(pets, draw):
    draw(pets / "cat" / "siamese" / "x.png")
    assert np.bincount(image_folder(pets).target).tolist() == [4, 3]


def test_files_that_are_no_pictures_are_passed_over_and_listed(pets):
    (pets / "cat" / "Thumbs.db").write_bytes(b"x")
    (pets / "cat" / ".hidden.png").write_bytes(b"x")
    bunch = image_folder(pets)
    assert len(bunch.target) == 6
    assert [os.path.basename(name) for name in bunch.ignored] == ["Thumbs.db"]


def test_every_unreadable_file_is_named(pets):
    (pets / "cat" / "bad1.png").write_text("x")
    (pets / "dog" / "bad2.png").write_text("x")
    with pytest.raises(ValueError, match=r"(?s)2 files.*bad1\.png.*bad2\.png.*on_error=.skip. leaves"):
        image_folder(pets)


def test_unreadable_files_can_be_skipped(pets):
    (pets / "cat" / "bad1.png").write_text("x")
    bunch = image_folder(pets, on_error="skip")
    assert len(bunch.target) == 6
    assert "bad1.png" in bunch.skipped[0]


def test_a_folder_of_unreadable_files_only_is_refused_even_when_skipping(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x.png").write_text("x")
    with pytest.raises(ValueError, match=r"x\.png"):
        image_folder(tmp_path, on_error="skip")


def test_a_class_of_unreadable_files_only_is_left_out_with_a_warning(pets):
    for file in (pets / "cat").iterdir():
        file.write_text("x")
    with pytest.warns(UserWarning, match="readable picture: cat"):
        bunch = image_folder(pets, on_error="skip")
    assert list(bunch.target_names) == ["dog"]
    assert bunch.target.tolist() == [0, 0, 0]


def test_an_empty_class_folder_is_refused_by_name(pets):
    (pets / "emu").mkdir()
    with pytest.raises(ValueError, match=r"without a picture.*emu"):
        image_folder(pets)


def test_an_empty_class_folder_can_be_left_out_with_a_warning(pets):
    (pets / "emu").mkdir()
    with pytest.warns(UserWarning, match="emu"):
        bunch = image_folder(pets, on_error="skip")
    assert list(bunch.target_names) == ["cat", "dog"]


@pytest.mark.parametrize("twin", ["Cat", "cat ", "CAT"])
def test_two_folders_of_one_name_are_refused(pets, draw, twin):
    draw(pets / twin / "x.png")
    with pytest.raises(ValueError, match="two folders name one class"):
        image_folder(pets)


def test_one_name_in_two_encodings_is_refused(tmp_path, draw):
    for form in ("NFC", "NFD"):
        draw(tmp_path / unicodedata.normalize(form, "pinguïn") / "x.png")
    with pytest.raises(ValueError, match="two folders name one class"):
        list_folder(tmp_path)


def test_a_folder_without_sub_folders_says_what_is_expected(tmp_path, draw):
    draw(tmp_path / "x.png")
    with pytest.raises(ValueError, match="one sub-folder per class"):
        image_folder(tmp_path)


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        image_folder(tmp_path / "nowhere")


def test_differing_sizes_need_a_size(pets, draw):
    draw(pets / "dog" / "tall.png", (20, 10))
    with pytest.raises(ValueError, match=r"tall\.png is 20×10"):
        image_folder(pets)
    assert image_folder(pets, size=(5, 4), color=True).images.shape == (7, 5, 4, 3)


def test_an_unknown_answer_to_errors_is_refused(pets):
    with pytest.raises(ValueError, match="on_error"):
        image_folder(pets, on_error="ignore")


def test_what_a_killed_run_left_beside_a_memmap_is_removed(pets, tmp_path):
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    left = str(temporary_beside(tmp_path / "pixels.npy")).replace(f"-{os.getpid()}-", f"-{process.pid}-")
    Path(left).write_bytes(b"half of it")

    image_folder(pets, memmap=tmp_path / "pixels.npy")

    assert [path.name for path in tmp_path.glob(".*")] == []


def test_a_memory_mapped_folder_equals_one_in_memory(pets, tmp_path):
    mapped = image_folder(pets, memmap=tmp_path / "pixels.npy")
    assert isinstance(mapped.images, np.memmap)
    np.testing.assert_array_equal(mapped.images, image_folder(pets).images)
    np.testing.assert_array_equal(np.load(tmp_path / "pixels.npy"), mapped.images)


def test_a_memory_map_has_no_rows_for_skipped_files(pets, tmp_path):
    (pets / "cat" / "0.png").write_text("x")
    mapped = image_folder(pets, memmap=tmp_path / "pixels.npy", on_error="skip")
    np.testing.assert_array_equal(mapped.images, image_folder(pets, on_error="skip").images)
    assert mapped.images.shape[0] == 5


def test_a_failed_memory_map_leaves_nothing_behind(pets, tmp_path):
    (pets / "dog" / "2.png").write_text("x")
    (tmp_path / "out").mkdir()
    with pytest.raises(ValueError, match=r"2\.png"):
        image_folder(pets, memmap=tmp_path / "out" / "pixels.npy")
    assert list((tmp_path / "out").iterdir()) == []


def test_a_memory_map_never_overwrites(pets, tmp_path):
    (tmp_path / "pixels.npy").write_bytes(b"precious")
    with pytest.raises(ValueError, match="new file"):
        image_folder(pets, memmap=tmp_path / "pixels.npy")
    assert (tmp_path / "pixels.npy").read_bytes() == b"precious"


def test_the_progress_bar_counts_files_on_stderr(pets, capsys):
    image_folder(pets, progress=True)
    assert "6/6" in capsys.readouterr().err


def test_a_survey_reports_sizes_and_faults(pets, draw):
    draw(pets / "dog" / "tall.png", (20, 10))
    (pets / "cat" / "bad.png").write_text("x")
    shapes, bad = survey(list_folder(pets))
    assert sorted(set(shapes)) == [(12, 10), (20, 10)]
    assert len(bad) == 1


def test_one_folder_around_the_classes_is_passed_through(pets):
    wrapped = image_folder(pets.parent)
    assert list(wrapped.target_names) == ["cat", "dog"]
    np.testing.assert_array_equal(wrapped.data, image_folder(pets).data)


def test_a_single_class_is_no_wrapping(pets):
    shutil.rmtree(pets / "dog")
    assert list(image_folder(pets).target_names) == ["cat"]
    assert list(image_folder(pets.parent).target_names) == ["cat"]


@pytest.mark.parametrize("name", ["__MACOSX", "__pycache__", ".git"])
def test_folders_of_other_programs_are_no_classes(pets, name):
    (pets / name).mkdir()
    (pets / name / "._0.png").write_bytes(b"x")
    bunch = image_folder(pets)
    assert list(bunch.target_names) == ["cat", "dog"]
    assert bunch.loose == []


def test_pictures_in_hidden_folders_of_a_class_are_not_read(pets, draw):
    draw(pets / "cat" / ".thumbnails" / "0.png", (3, 3))
    assert len(image_folder(pets).target) == 6


def test_a_class_folder_may_be_a_link(pets, tmp_path):
    (pets / "dog").rename(tmp_path / "elsewhere")
    (pets / "dog").symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    assert np.bincount(image_folder(pets).target).tolist() == [3, 3]


def test_pictures_outside_the_class_folders_are_listed(pets, draw):
    for place in (pets, pets.parent, pets / "__old"):
        draw(place / "x.png")
    (pets / "notes.txt").write_text("x")
    loose = image_folder(pets.parent).loose
    assert sorted(loose) == sorted(str(place / "x.png") for place in (pets, pets.parent, pets / "__old"))


def test_a_class_without_a_picture_says_what_it_holds(pets):
    (pets / "emu").mkdir()
    for i in range(2):
        (pets / "emu" / f"{i}.HEIC").write_bytes(b"x")
    with pytest.raises(ValueError, match=r"emu \(it holds \.heic: 2\)"):
        image_folder(pets)


def test_a_training_and_a_test_folder_are_parts_of_one_set(pets, tmp_path):
    whole = image_folder(pets, size=8)
    for part in ("train", "val"):
        shutil.copytree(pets, tmp_path / "split" / part)

    found = image_folder(tmp_path / "split", size=8)

    np.testing.assert_array_equal(found.target_names, whole.target_names)
    np.testing.assert_array_equal(found.train, ["train" in Path(file).parts for file in found.filenames])
    np.testing.assert_array_equal(found.images[found.train], whole.images)
    np.testing.assert_array_equal(found.target[~found.train], whole.target)


def test_classes_called_train_and_test_stay_classes(tmp_path, draw):
    for name in ("train", "test"):
        draw(tmp_path / "data" / name / "1.png")

    assert list(image_folder(tmp_path / "data").target_names) == ["test", "train"]


def test_a_class_that_is_only_tested_is_refused(pets, tmp_path, draw):
    shutil.copytree(pets, tmp_path / "split" / "train")
    shutil.copytree(pets, tmp_path / "split" / "test")
    draw(tmp_path / "split" / "test" / "yak" / "1.png")

    with pytest.raises(ValueError, match="without a picture to train on: yak"):
        image_folder(tmp_path / "split", size=8)
