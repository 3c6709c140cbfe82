"""Maps: the composed filter bank on raw pixels against patches normalised and whitened one by one."""

import numpy as np
import pytest

from dcadl.arrays import fetch
from dcadl.ops.maps import Front, inverse_contrast, positive_part, respond_maps, window_scales, windows
from dcadl.ops.patches import patch_grid, take_patches
from dcadl.ops.whiten import centring, signless_kmeans, usual_length, zca

GRIDS = pytest.mark.parametrize(
    "grid",
    [patch_grid((9, 8), 3, 1), patch_grid((9, 8, 3), (2, 3), 2), patch_grid((20,), 5, 1)],
    ids=["grey", "colour", "signal"],
)


@GRIDS
def test_windows_are_patches_with_places_last(xp, rng, grid):
    X = rng.standard_normal((4, np.prod(grid.image)))

    found = fetch(windows(xp.asarray(X), grid))

    np.testing.assert_array_equal(found, take_patches(X, grid).transpose(0, 2, 1))


@GRIDS
def test_one_filter_bank_on_raw_pixels_responds_as_atoms_to_whitened_patches(xp, rng, grid):
    X = rng.uniform(size=(5, np.prod(grid.image)))
    P = take_patches(X, grid).reshape(-1, grid.d)
    C = centring(grid.d)
    U = P @ C / np.linalg.norm(P @ C, axis=1, keepdims=True)
    S = U.T @ U / len(U)
    Z, Omega = zca(S), rng.standard_normal((4, grid.d))
    white = U @ Z / np.linalg.norm(U @ Z, axis=1, keepdims=True)

    front = Front(grid, xp.asarray(Z @ C), True, usual_length(Z, S))
    there = xp.asarray(X)
    cut = windows(there, grid)
    R = respond_maps(cut, window_scales(there, cut, front), xp.asarray(Omega @ Z @ C))

    expected = (white @ Omega.T).reshape(5, grid.p, 4).transpose(0, 2, 1)
    np.testing.assert_allclose(fetch(R), expected, atol=1e-10)


def test_a_flat_window_stays_small_however_bright(rng):
    grid = patch_grid((6, 6), 3, 1)
    flat = np.full((1, 36), 0.3, np.float32)
    C = centring(9).astype(np.float32)
    front = Front(grid, C, True, 1.0)

    cut = windows(flat, grid)
    R = respond_maps(cut, window_scales(flat, cut, front), C)

    assert np.abs(R).max() < 1e-3


def test_an_empty_window_has_no_scale():
    grid = patch_grid((4, 4), 2, 1)

    np.testing.assert_array_equal(inverse_contrast(np.zeros((1, 16), np.float32), grid), 0)


def test_contrast_survives_a_bright_background_in_float32(rng):
    grid = patch_grid((8, 8), 3, 1)
    X = (1 + 0.05 * rng.standard_normal((2, 64))).astype(np.float32)

    found = inverse_contrast(X, grid)

    P = take_patches(X.astype(np.float64), grid)
    lengths = np.linalg.norm(P - P.mean(axis=2, keepdims=True), axis=2)
    np.testing.assert_allclose(found, 1 / lengths, rtol=1e-5)


def test_split_codes_are_what_exceeds_the_threshold_on_either_side(xp):
    R, t = xp.asarray([[[-2.0, -0.5, 0.5, 3.0]]]), xp.asarray([1.0])

    np.testing.assert_array_equal(fetch(positive_part(R, t)), [[[0, 0, 0, 2]]])
    np.testing.assert_array_equal(fetch(positive_part(-R, t)), [[[1, 0, 0, 0]]])


def test_kmeans_without_signs_finds_directions_up_to_sign(rng):
    centres = np.linalg.qr(rng.standard_normal((6, 6)))[0][:3]
    U = centres[rng.integers(3, size=300)] * rng.choice([-1, 1], size=(300, 1))
    U = U + 0.05 * rng.standard_normal(U.shape)

    found = signless_kmeans(U, 3, np.random.RandomState(0))

    np.testing.assert_allclose(np.abs(found @ centres.T).max(axis=0), 1, atol=0.02)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1)
