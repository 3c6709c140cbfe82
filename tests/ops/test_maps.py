"""Maps: the composed filter bank on raw pixels against patches normalised and whitened one by one."""

import numpy as np
import pytest

from dcadl.arrays import fetch
from dcadl.ops.maps import (
    WindowTransform,
    by_row,
    inverse_contrast,
    respond,
    responses_by_row,
    scaled_windows,
    split_averages,
    split_averages_back,
    strips,
    window_scales,
    windows,
)
from dcadl.ops.patches import patch_grid, take_patches
from dcadl.ops.pool import Pyramid, pool_bands
from dcadl.ops.whiten import centring, signless_kmeans, typical_length, zca
from finite_differences import rise_of

GRIDS = pytest.mark.parametrize(
    "grid",
    [patch_grid((9, 8), 3, 1), patch_grid((9, 8, 3), (2, 3), 2), patch_grid((20,), 5, 1)],
    ids=["grey", "colour", "signal"],
)


def as_maps(P, grid):
    """(b, p, k) → (rows, k, b, columns)."""
    return P.reshape(len(P), *grid.counts, -1).transpose(1, 3, 0, 2)


@GRIDS
def test_windows_are_patches_with_images_between_rows_and_columns(xp, rng, grid):
    X = rng.standard_normal((4, np.prod(grid.image)))

    found = fetch(windows(xp.asarray(X), grid))

    np.testing.assert_array_equal(found, as_maps(take_patches(X, grid), grid))


@GRIDS
def test_one_filter_bank_on_raw_pixels_responds_as_atoms_to_whitened_patches(xp, rng, grid):
    X = rng.uniform(size=(5, np.prod(grid.image)))
    P = take_patches(X, grid).reshape(-1, grid.d)
    C = centring(grid.d)
    U = P @ C / np.linalg.norm(P @ C, axis=1, keepdims=True)
    S = U.T @ U / len(U)
    Z, Omega = zca(S), rng.standard_normal((4, grid.d))
    white = U @ Z / np.linalg.norm(U @ Z, axis=1, keepdims=True)

    transform = WindowTransform(grid, xp.asarray(Z @ C), True, typical_length(Z, S))
    R = respond(xp.asarray(Omega @ Z @ C), scaled_windows(xp.asarray(X), transform))

    expected = as_maps((white @ Omega.T).reshape(5, grid.p, 4), grid)
    np.testing.assert_allclose(fetch(R), expected, atol=1e-10)


@GRIDS
@pytest.mark.parametrize("k", [1, 2])
def test_responses_row_by_row_are_those_of_windows_that_were_cut(xp, rng, grid, k):
    """Of a bank with one scale, or of two banks, the second at twice the scale."""
    X, Phi = xp.asarray(rng.uniform(size=(4, np.prod(grid.image)))), rng.standard_normal((20, grid.d))
    transform = WindowTransform(grid, xp.asarray(np.eye(grid.d)), True, 0.1)
    S = strips(X, grid)
    scale = window_scales(X, S, transform)

    parts = xp.stack([scale, 2 * scale][:k], axis=1)
    rows = responses_by_row(xp.asarray(Phi), S, parts, grid)

    gain = np.repeat([1, k], 10)[:, None]
    expected = fetch(respond(xp.asarray(gain * Phi), scaled_windows(X, transform)))
    for found, one in zip(rows, expected, strict=True):
        np.testing.assert_allclose(fetch(found), one, atol=1e-12)


def test_a_flat_window_stays_small_however_bright(rng):
    grid = patch_grid((6, 6), 3, 1)
    flat = np.full((1, 36), 0.3, np.float32)
    C = centring(9).astype(np.float32)
    transform = WindowTransform(grid, C, True, 1.0)

    R = respond(C, scaled_windows(flat, transform))

    assert np.abs(R).max() < 1e-3


@pytest.mark.parametrize(("share", "length"), [(0.05, 1.0), (0.005, 0.5)], ids=["faint", "as good as flat"])
def test_windows_that_whitening_hardly_leaves_anything_of(rng, share, length):
    """At five per cent of the usual length they still count in full, at half a per cent by half."""
    grid = patch_grid((3, 3), 3, 1)
    x = rng.standard_normal(9)
    Q = share * np.linalg.qr(rng.standard_normal((9, 9)))[0] @ centring(9)

    scale = scaled_windows(x[None], WindowTransform(grid, Q, True, 1.0)).ravel() @ x / (x @ x)

    assert scale * np.linalg.norm(Q @ x) == pytest.approx(length)


def test_whitening_spares_directions_that_hardly_vary(rng):
    """Eigenvalues g become g / (g + a tenth of their mean)."""
    g, V = np.array([4.0, 1.0, 0.5, 0.0]), np.linalg.qr(rng.standard_normal((4, 4)))[0]
    S = V * g @ V.T
    Z = zca(S)

    np.testing.assert_allclose(V.T @ Z @ S @ Z @ V, np.diag(g / (g + 0.1 * g.mean())), atol=1e-12)


def test_an_empty_window_has_no_scale():
    grid = patch_grid((4, 4), 2, 1)

    np.testing.assert_array_equal(inverse_contrast(np.zeros((1, 16), np.float32), grid), 0)


def test_contrast_survives_a_bright_background_in_float32(rng):
    grid = patch_grid((8, 8), 3, 1)
    X = (1 + 0.05 * rng.standard_normal((2, 64))).astype(np.float32)

    found = inverse_contrast(X, grid)

    P = take_patches(X.astype(np.float64), grid)
    lengths = np.linalg.norm(P - P.mean(axis=2, keepdims=True), axis=2)
    np.testing.assert_allclose(found, as_maps(1 / lengths[..., None], grid)[:, 0], rtol=1e-3)


PYRAMID = Pyramid((2, 4), (1, 2))


def test_split_averages_are_of_what_exceeds_the_threshold_on_either_side(xp, rng):
    R, t = rng.standard_normal((2, 2, 3, 4)), np.array([0.3, 0.8])

    found = fetch(split_averages(by_row(xp.asarray(R)), xp.asarray(t), PYRAMID))

    halves = [np.maximum(sign * R - t[:, None, None], 0) for sign in (1, -1)]
    sums = [[half[rows].sum(axis=0) for rows in PYRAMID.row_slices()] for half in halves]
    expected = np.stack([pool_bands(half, PYRAMID) for half in sums], axis=1)
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_the_way_back_from_split_averages_is_that_of_finite_differences(xp, rng):
    R, t = rng.standard_normal((2, 2, 3, 4)), np.array([0.3, 0.8])
    slope, dR, dt = rng.standard_normal((3, 2, 2, 5)), rng.standard_normal(R.shape), rng.standard_normal(2)

    def value(step):
        return np.vdot(slope, split_averages(by_row(R + step * dR), t + step * dt, PYRAMID))

    back_R, back_t = split_averages_back(xp.asarray(slope), xp.asarray(R), xp.asarray(t), PYRAMID)

    slopes = np.vdot(fetch(back_R), dR) + fetch(back_t) @ dt
    assert slopes == pytest.approx(rise_of(value, 1e-5), rel=1e-8)


def test_kmeans_without_signs_finds_directions_up_to_sign(rng):
    centres = np.linalg.qr(rng.standard_normal((6, 6)))[0][:3]
    U = centres[rng.integers(3, size=300)] * rng.choice([-1, 1], size=(300, 1))
    U = U + 0.05 * rng.standard_normal(U.shape)

    found = signless_kmeans(U, 3, np.random.RandomState(0))

    np.testing.assert_allclose(np.abs(found @ centres.T).max(axis=0), 1, atol=0.02)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1)


def test_kmeans_leaves_no_two_directions_equal_that_begin_equal():
    """All begin at copies of one row: were they to share its rows, they would stay equal."""
    U = np.repeat(np.eye(4), [97, 1, 1, 1], axis=0)

    found = signless_kmeans(U, 4, np.random.RandomState(0))

    np.testing.assert_allclose(np.sort(np.abs(found), axis=0)[-1], 1.0)
    np.testing.assert_allclose(np.abs(found).sum(axis=0), 1.0)
