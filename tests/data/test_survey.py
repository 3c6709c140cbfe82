"""A first look at a folder: sizes as a viewer shows them, a working size, colour where there is some."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from dcadl.data.survey import LARGE_PIXELS, WORKING_PIXELS, survey_folder


def save(path, size, color=(90, 90, 90), **how):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, color).save(path, **how)


def test_small_pictures_of_one_size_stay_as_they_are(tmp_path):
    for label in "ab":
        save(tmp_path / label / "0.png", (100, 90))

    assert survey_folder(tmp_path).working_size == (90, 100)


@pytest.mark.parametrize("size", [(640, 480), (1600, 1200)])
def test_large_pictures_are_reduced_and_keep_their_proportions(tmp_path, size):
    for label in "ab":
        save(tmp_path / label / "0.png", size)

    height, width = survey_folder(tmp_path).working_size

    assert 0.9 * WORKING_PIXELS < height * width < LARGE_PIXELS
    assert width / height == pytest.approx(4 / 3, rel=0.02)


def test_pictures_of_many_sizes_get_the_size_of_the_usual_one(tmp_path):
    for i, side in enumerate((20, 30, 40)):
        save(tmp_path / "ab"[i % 2] / f"{i}.png", (side, side))

    assert survey_folder(tmp_path).working_size == (30, 30)


def test_a_turned_photograph_has_the_size_that_a_viewer_shows(tmp_path):
    turned = Image.Exif()
    turned[0x0112] = 6
    save(tmp_path / "a" / "0.jpg", (40, 20), exif=turned)
    save(tmp_path / "b" / "0.jpg", (40, 20))

    assert survey_folder(tmp_path).sizes.tolist() == [[40, 20], [20, 40]]


@pytest.mark.parametrize(("color", "expected"), [((200, 20, 20), True), ((90, 90, 90), False)])
def test_colour_is_seen_by_the_pixels_and_not_by_the_format(tmp_path, color, expected):
    for label in "ab":
        save(tmp_path / label / "0.png", (8, 8), color)

    assert survey_folder(tmp_path).color is expected


def test_unreadable_files_are_passed_by(tmp_path):
    for label in "ab":
        save(tmp_path / label / "0.png", (8, 8))
    (tmp_path / "a" / "torn.png").write_bytes(b"no picture")

    seen = survey_folder(tmp_path)

    assert len(seen.sizes) == 2
    np.testing.assert_array_equal(seen.target, [0, 1])
