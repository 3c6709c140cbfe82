"""Coordinates of rows in the space that they span."""

from __future__ import annotations

import numpy as np
import pytest

from dcadl.ops.span import span_of


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_coordinates_keep_every_length_and_angle(rng, dtype):
    rows = rng.standard_normal((12, 50)).astype(dtype)
    Z, Q = span_of(rows)
    assert Z.shape == (12, 12)
    assert Z.dtype == Q.dtype == dtype
    np.testing.assert_allclose(Z @ Q.T, rows, atol=1e-5)
    np.testing.assert_allclose(Q.T @ Q, np.eye(12), atol=1e-5)


def test_rows_that_depend_on_each_other_span_less(rng):
    rows = rng.standard_normal((12, 4)) @ rng.standard_normal((4, 50))
    Z, Q = span_of(rows)
    assert Z.shape == (12, 4)
    np.testing.assert_allclose(Z @ Q.T, rows, atol=1e-9)


def test_a_direction_a_thousand_times_fainter_than_the_others_counts(rng):
    faint = np.geomspace(1, 1e-3, 12)[:, None] * np.linalg.qr(rng.standard_normal((50, 12)))[0].T
    Z, Q = span_of(faint)
    assert Z.shape == (12, 12)
    np.testing.assert_allclose(Z @ Q.T, faint, atol=1e-9)


def test_rows_of_zeros_have_coordinates_of_zero():
    Z, Q = span_of(np.zeros((3, 8)))
    assert np.isfinite(Q).all()
    np.testing.assert_array_equal(Z, 0)
