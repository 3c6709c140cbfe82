"""Images read a chunk at a time: their values, and the pages that are dropped."""

from __future__ import annotations

import numpy as np
import pytest

from dcadl.estimators.validation import on_disk, open_npy
from dcadl.ops.ridge import from_contrasts
from dcadl.solvers.sources import Labels, StoredImages


@pytest.fixture
def images(rng):
    return rng.random((40, 6, 5))


@pytest.mark.parametrize("mode", ["r", "r+", "c"])
def test_rows_are_the_images_and_survive_a_second_reading(tmp_path, images, mode):
    np.save(tmp_path / "x.npy", images)
    source = StoredImages(np.load(tmp_path / "x.npy", mmap_mode=mode), np.dtype(np.float64))
    for _ in range(2):
        np.testing.assert_array_equal(source.rows(slice(7, 19)), images[7:19].reshape(12, 30))


def test_what_was_written_to_a_private_map_is_not_let_go(tmp_path, images):
    np.save(tmp_path / "x.npy", images)
    private = np.load(tmp_path / "x.npy", mmap_mode="c")
    private[3] = 0.5
    source = StoredImages(private, np.dtype(np.float64))
    source.rows(slice(0, 10))
    assert (source.rows(slice(3, 4)) == 0.5).all()


def resident_file_pages():
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("RssFile"))


def test_pages_that_were_read_do_not_stay_in_memory(tmp_path):
    np.save(tmp_path / "x.npy", np.ones((4000, 64, 64), np.float32))  # 64 MB
    source = StoredImages(np.load(tmp_path / "x.npy", mmap_mode="r"), np.dtype(np.float32))
    before = resident_file_pages()
    for start in range(0, 4000, 100):
        source.rows(slice(start, start + 100))
    assert resident_file_pages() - before < 8_000  # kB


def test_labels_are_one_hot_less_the_intercept():
    labels = Labels(np.array([2, 0, 1]), np.array([0.5, 0.25, 0.25]), None)
    expected = [[-0.5, -0.25, 0.75], [0.5, -0.25, -0.25]]
    np.testing.assert_allclose(from_contrasts(labels.rows(slice(0, 2))), expected)


def test_arrays_in_memory_and_maps_of_words_are_not_left_on_disk(tmp_path, images):
    np.save(tmp_path / "x.npy", np.array(["a", "b"]))
    assert not on_disk(images)
    assert not on_disk(np.load(tmp_path / "x.npy", mmap_mode="r"))


def test_what_is_no_path_is_left_as_it_is(images):
    assert open_npy(images) is images
