"""Shrinkage and the views of U."""

from __future__ import annotations

import numpy as np
import pytest

from dcadl.arrays import fetch
from dcadl.ops import codes
from dcadl.ops.codes import as_codes, by_image, by_patch, soft_threshold, squared_norm


def test_soft_threshold_is_the_prox_of_the_absolute_value(xp, rng):
    x, a = rng.standard_normal(50), 0.7
    grid = np.linspace(-4, 4, 8001)
    brute = grid[np.argmin(0.5 * (grid[:, None] - x) ** 2 + a * np.abs(grid[:, None]), axis=0)]

    np.testing.assert_allclose(fetch(soft_threshold(xp.asarray(x), a)), brute, atol=1e-3)


def test_views_undo_each_other(xp, rng):
    U = xp.asarray(rng.random((2, 3, 4)))
    np.testing.assert_array_equal(fetch(as_codes(by_image(U), U.shape)), fetch(U))
    np.testing.assert_array_equal(fetch(as_codes(by_patch(U), U.shape)), fetch(U))


def test_features_of_an_image_are_ordered_patch_first_then_atom(xp):
    U = xp.reshape(xp.arange(24.0), (2, 3, 4))
    assert fetch(by_image(U))[1, 1 * 4 + 2] == fetch(U)[1, 1, 2]


def test_squared_norm_is_wide(xp, rng):
    x = rng.random((5, 6)).astype(np.float32)
    total = squared_norm(xp.asarray(x))
    assert total.dtype == xp.float64
    np.testing.assert_allclose(float(total), np.sum(x.astype(np.float64) ** 2), rtol=1e-6)


@pytest.mark.parametrize("n", [10, 40, 45])
def test_a_sum_over_rows_is_the_product_however_many_there_are(xp, rng, monkeypatch, n):
    monkeypatch.setattr(codes, "LONG", 20)
    monkeypatch.setattr(codes, "RUN", 8)
    A, B = rng.standard_normal((n, 3)), rng.standard_normal((n, 2))
    np.testing.assert_allclose(fetch(codes.sum_over_rows(xp.asarray(A), xp.asarray(B))), A.T @ B, atol=1e-12)


def test_a_long_sum_keeps_the_digits_of_float32(rng):
    A = (1 + rng.random((40_000, 1))).astype(np.float32)
    exact = np.float64((A.astype(np.float64) ** 2).sum())
    assert abs(float(codes.sum_over_rows(A, A)[0, 0]) / exact - 1) < 1e-7
