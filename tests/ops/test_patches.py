"""Patches against a loop that cuts them out one by one; their contrast: lengths, means, and no NaN."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.signal import correlate2d

from dcadl.arrays import fetch
from dcadl.ops.codes import respond
from dcadl.ops.patches import (
    centred_rows,
    normalised_patches,
    patch_grid,
    patch_table,
    take_patches,
    unit_rows,
    value_fault,
)


@pytest.mark.parametrize(
    ("image", "patch", "stride", "p"),
    [((48, 42), 12, 6, 42), ((55, 40), 12, 6, 40), ((3000,), 1500, 1500, 2), ((8, 8), None, None, 1)],
    ids=["extended_yaleb", "ar", "features", "whole"],
)
def test_the_papers_grids_have_the_known_number_of_patches(image, patch, stride, p):
    assert patch_grid(image, patch, stride).p == p


@pytest.mark.parametrize("image", [(7, 9), (7, 9, 3)], ids=["grey", "colour"])
@pytest.mark.parametrize(("patch", "stride"), [((3, 4), (2, 3)), ((7, 9), 1), ((1, 1), 1)])
def test_patches_equal_those_cut_out_in_a_loop(xp, rng, image, patch, stride):
    images = rng.random((4, *image))
    grid = patch_grid(image, patch, stride)
    down, right = grid.stride
    expected = [
        [
            one[top : top + patch[0], left : left + patch[1]].reshape(-1)
            for top in range(0, image[0] - patch[0] + 1, down)
            for left in range(0, image[1] - patch[1] + 1, right)
        ]
        for one in images
    ]

    P = take_patches(xp.asarray(images.reshape(4, -1)), grid)

    np.testing.assert_array_equal(fetch(P), np.array(expected))


def test_patches_of_a_strided_view_are_right(rng):
    images = rng.random((8, 30))
    grid = patch_grid((5, 6), 2, 1)
    np.testing.assert_array_equal(
        take_patches(images[::2], grid), images[::2][:, patch_table(grid)].reshape(4, grid.p, grid.d)
    )


def test_responses_are_a_strided_correlation(rng):
    image, atom = rng.random((10, 9)), rng.random((4, 4))
    grid = patch_grid((10, 9), 4, 3)

    responses = respond(take_patches(image.reshape(1, -1), grid), atom.reshape(1, -1))

    np.testing.assert_allclose(responses[0, :, 0], correlate2d(image, atom, "valid")[::3, ::3].reshape(-1))


def test_signal_patches_run_along_the_signal(xp):
    P = take_patches(xp.asarray(np.arange(10.0).reshape(1, -1)), patch_grid((10,), 4, 3))
    np.testing.assert_array_equal(fetch(P)[0], [[0, 1, 2, 3], [3, 4, 5, 6], [6, 7, 8, 9]])


def test_stride_defaults_to_half_a_patch():
    assert patch_grid((48, 42), 12).stride == (6, 6)
    assert patch_grid((5, 5), 1).stride == (1, 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (((8, 8), 12), r"patch_shape must fit in image_shape; got \(12, 12\) in \(8, 8\)"),
        (((8, 8), 0), "patch_shape must be 2 integer"),
        (((8, 8), (2, 2, 2)), "patch_shape must be 2 integer"),
        (((8, 8), 2, -1), "stride must be 2 integer"),
        (((8, 8), 2.5), "patch_shape must be 2 integer"),
        (((8, 8), "large"), "patch_shape must be integers"),
        (((8, 8, 3, 2), 2), "image_shape must be 1 or 2 or 3 integer"),
    ],
)
def test_a_grid_that_cannot_be_laid_says_why(arguments, message):
    with pytest.raises(ValueError, match=message):
        patch_grid(*arguments)


def test_unit_rows_have_length_one_and_the_same_direction(xp, rng):
    P = rng.standard_normal((3, 4, 5))
    N = fetch(unit_rows(xp.asarray(P)))
    np.testing.assert_allclose(np.linalg.norm(N, axis=-1), 1)
    np.testing.assert_allclose(N * np.linalg.norm(P, axis=-1, keepdims=True), P)


@pytest.mark.parametrize("how", ["patch", "centred", "image", None])
def test_a_black_image_stays_black(xp, how):
    P = normalised_patches(xp.zeros((2, 16)), patch_grid((4, 4), 2, 1), how)
    np.testing.assert_array_equal(fetch(P), 0)


def test_centred_rows_have_no_mean_and_length_one(xp, rng):
    N = fetch(centred_rows(xp.asarray(rng.standard_normal((6, 9)))))
    np.testing.assert_allclose(N.mean(axis=-1), 0, atol=1e-15)
    np.testing.assert_allclose(np.linalg.norm(N, axis=-1), 1)


@pytest.mark.parametrize(("contrast", "length"), [(1e-5, 1e-3), (1e-3, 0.1), (5e-3, 0.5), (2e-2, 1.0)])
def test_below_one_per_cent_of_contrast_a_patch_is_not_blown_up(xp, rng, contrast, length):
    noise = rng.standard_normal((1, 900))
    noise -= noise.mean()
    noise *= 30 * contrast / np.linalg.norm(noise)  # a share of the patch's length, which is 30
    N = fetch(centred_rows(xp.asarray(1 + noise)))
    assert np.linalg.norm(N) == pytest.approx(length, rel=1e-3)


@pytest.mark.parametrize("how", ["patch", "centred", "image"])
def test_brightness_drops_out(xp, rng, how):
    X, grid = rng.random((3, 36)), patch_grid((6, 6), 3, 3)
    dark, bright = (fetch(normalised_patches(xp.asarray(X * f), grid, how)) for f in (1.0, 7.0))
    np.testing.assert_allclose(dark, bright)


def test_image_normalisation_spans_the_image_not_its_patches(xp, rng):
    P = fetch(normalised_patches(xp.asarray(rng.random((3, 36))), patch_grid((6, 6), 3, 3), "image"))
    np.testing.assert_allclose((P**2).sum(axis=(1, 2)), 1)


@pytest.mark.parametrize(("largest", "usable"), [(1e15, True), (1e16, False), (1e-14, True), (1e-16, False)])
def test_values_keep_away_from_the_ends_of_their_type(largest, usable):
    """Squares of them are added up by the thousand, and a thousandth of their length must still count."""
    X = np.full((2, 9), largest, np.float32)

    assert (value_fault(X) is None) is usable


@pytest.mark.parametrize(
    ("shape", "patch", "places"),
    [
        ((2, 9), (2, 2), (1, 8)),
        ((8, 8), (3, 3), (6, 6)),
        ((48, 42), (10, 10), (8, 7)),
        ((300, 400, 3), (32, 32), (11, 11)),
    ],
)
def test_patches_nobody_asked_for_are_a_quarter_of_the_side_and_few(shape, patch, places):
    grid = patch_grid(shape, "auto")
    assert grid.patch == patch
    assert grid.counts == places


def test_vectors_are_one_patch_where_nobody_asked_for_others():
    assert patch_grid((64,), "auto") == patch_grid((64,), None)


def test_any_other_word_is_no_patch():
    with pytest.raises(ValueError, match="patch_shape must be integers"):
        patch_grid((8, 8), "large")
