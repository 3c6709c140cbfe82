"""Contrast normalisation: lengths, means, and what must not turn into NaN."""

from __future__ import annotations

import numpy as np
import pytest

from dcadl.arrays import fetch
from dcadl.ops.normalise import CONTRAST_FLOOR, centred_rows, normalised_patches, unit_rows
from dcadl.ops.patches import patch_grid


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


def test_an_almost_flat_patch_is_not_blown_up(xp, rng):
    noise = 1e-3 * CONTRAST_FLOOR * rng.standard_normal((1, 9))
    N = fetch(centred_rows(xp.asarray(1 + noise)))
    assert np.linalg.norm(N) < 0.01


@pytest.mark.parametrize("how", ["patch", "centred", "image"])
def test_brightness_drops_out(xp, rng, how):
    X, grid = rng.random((3, 36)), patch_grid((6, 6), 3, 3)
    dark, bright = (fetch(normalised_patches(xp.asarray(X * f), grid, how)) for f in (1.0, 7.0))
    np.testing.assert_allclose(dark, bright)


def test_image_normalisation_spans_the_image_not_its_patches(xp, rng):
    P = fetch(normalised_patches(xp.asarray(rng.random((3, 36))), patch_grid((6, 6), 3, 3), "image"))
    np.testing.assert_allclose((P**2).sum(axis=(1, 2)), 1)
