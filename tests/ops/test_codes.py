"""Shrinkage, the views of U; the codes' block: the closed form, the steps, and that neither raises F."""

from __future__ import annotations

import numpy as np
import pytest

from dcadl.arrays import fetch
from dcadl.ops import codes
from dcadl.ops.codes import (
    FEW,
    MANY,
    STEPS,
    CodeSchedule,
    CodeStep,
    as_codes,
    by_image,
    by_patch,
    schedule_codes,
    smoothness,
    soft_threshold,
    squared_norm,
)


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


CLOSED_FORM = CodeSchedule(True, 0, False)
n, p, m, C = 12, 3, 4, 3


def block(rng, scale=0.3):
    A, U = rng.standard_normal((2, n, p, m))
    return U, A, np.eye(C)[np.arange(n) % C], scale * rng.standard_normal((C, p * m))


def values(U, A, Y, W, lam1, lam2):
    """The objective of each image, written out."""
    U = fetch(U)
    gaps, errors = (U - A).reshape(n, -1), Y - U.reshape(n, -1) @ W.T
    return 0.5 * (gaps**2).sum(1) + lam1 * np.abs(U).sum((1, 2)) + 0.5 * lam2 * (errors**2).sum(1)


def moved(xp, U, A, Y, W, lam1, lam2, schedule):
    move = CodeStep(xp.asarray(W), lam1, lam2, schedule, xp.asarray(U).dtype)
    return move(*(xp.asarray(a) for a in (U, A, Y)))


def test_without_sparsity_the_closed_form_solves_the_block(xp, rng):
    U, A, Y, W = block(rng)
    exact = np.linalg.solve(np.eye(p * m) + 0.5 * W.T @ W, (A.reshape(n, -1) + 0.5 * Y @ W).T).T

    found = moved(xp, U, A, Y, W, 0.0, 0.5, CLOSED_FORM)

    np.testing.assert_allclose(fetch(found.U).reshape(n, -1), exact, atol=1e-12)
    assert float(found.rejected) == 0


def test_many_steps_reach_a_point_with_no_way_down(rng):
    """With sparsity there is no closed solution; finite differences find no slope at the end."""
    U, A, Y, W = block(rng)
    lam1 = 1e-9  # so little that the objective is smooth at any code we meet
    schedule = CodeSchedule(False, 400, True)

    found = moved(np, U, A, Y, W, lam1, 0.5, schedule).U

    direction, h = rng.standard_normal(U.shape), 1e-5
    up, down = (values(found + s * h * direction, A, Y, W, lam1, 0.5).sum() for s in (1, -1))
    assert abs(up - down) / (2 * h) < 1e-6


@pytest.mark.parametrize("lam1", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("lam2", [0.1, 5.0, 500.0])
@pytest.mark.parametrize("rejected", [0.0, (FEW + MANY) / 2, 1.0], ids=["closed form", "both", "steps"])
def test_no_image_is_worse_off(xp, rng, lam1, lam2, rejected):
    U, A, Y, W = block(rng)
    schedule = schedule_codes(float(smoothness(W, lam2)), rejected)
    before = values(U, A, Y, W, lam1, lam2)

    for _ in range(4):
        found = moved(xp, U, A, Y, W, lam1, lam2, schedule)
        after = values(found.U, A, Y, W, lam1, lam2)
        assert (after <= before * (1 + 1e-12)).all()
        np.testing.assert_allclose(fetch(found.error), Y - fetch(found.U).reshape(n, -1) @ W.T, atol=1e-12)
        U, before = fetch(found.U), after


def test_an_image_that_would_be_worse_off_stays_where_there_is_no_way_down(xp, rng):
    U, A, Y, W = block(rng, scale=3.0)
    settled = fetch(moved(np, U, A, Y, W, 1.0, 1.0, CodeSchedule(False, 2000, False)).U)  # the very minimum
    U[: n // 2] = settled[: n // 2]

    found = moved(xp, U, A, Y, W, 1.0, 1.0, CLOSED_FORM)

    np.testing.assert_allclose(fetch(found.U)[: n // 2], settled[: n // 2], atol=1e-6)
    assert float(found.rejected) >= n // 2


def test_steps_are_hardly_shorter_than_the_curvature_allows(xp, rng):
    W = rng.standard_normal((C, p * m))
    curvature = 1 + 0.5 * np.linalg.norm(W, 2) ** 2

    assert 1 < float(smoothness(xp.asarray(W), 0.5)) / curvature < C ** (1 / 256) + 1e-5


def test_an_image_that_rejects_the_closed_form_does_not_lose_the_pass(xp, rng):
    """On Scene15 every image rejects in the second pass."""
    U, A, Y, W = block(rng, scale=3.0)
    near = fetch(moved(np, U, A, Y, W, 1.0, 1.0, CodeSchedule(False, 200, False)).U)  # below the closed form
    before = values(near, A, Y, W, 1.0, 1.0)

    found = moved(xp, near, A, Y, W, 1.0, 1.0, CLOSED_FORM)

    assert float(found.rejected) > n // 2
    assert (values(found.U, A, Y, W, 1.0, 1.0) < before).sum() > n // 2


def test_the_steps_of_a_pass_leave_little_of_the_gap_to_the_best_codes(xp, rng):
    """Less than two thousandths here; one step leaves an eighth."""
    U, A, Y, W = block(rng)
    best = values(moved(np, U, A, Y, W, 0.1, 0.5, CodeSchedule(False, 400, True)).U, A, Y, W, 0.1, 0.5)
    schedule = schedule_codes(float(smoothness(W, 0.5)), 1.0)

    left = values(moved(xp, U, A, Y, W, 0.1, 0.5, schedule).U, A, Y, W, 0.1, 0.5) - best

    assert left.sum() < 0.005 * (values(U, A, Y, W, 0.1, 0.5) - best).sum()


def test_the_schedule_follows_the_images_that_refuse():
    assert schedule_codes(2.0, 0.0) == CLOSED_FORM
    assert schedule_codes(2.0, 0.2) == CodeSchedule(True, STEPS, True)
    assert schedule_codes(2.0, 0.9) == CodeSchedule(False, STEPS, True)
    assert not schedule_codes(1e6, 0.9).accelerate  # too many would be needed


def test_codes_that_rounding_alone_would_raise_are_not_rejected(rng):
    """In single precision, codes that are at the closed form already, however they got there, stay."""
    U, A, Y, W = (a.astype(np.float32) for a in block(rng))
    for seed in range(20):
        A = np.random.default_rng(seed).standard_normal(A.shape).astype(np.float32)
        exact = moved(np, *(a.astype(np.float64) for a in (U, A, Y, W)), 0.0, 0.5, CLOSED_FORM).U
        there = exact.astype(np.float32)
        assert float(moved(np, there, A, Y, W.astype(np.float64), 0.0, 0.5, CLOSED_FORM).rejected) == 0


def test_codes_that_would_raise_the_objective_beyond_rounding_are_rejected(rng):
    """The very minimum with sparsity: the shrunken closed form lies higher, by a millionth or more."""
    U, A, Y, W = block(rng, scale=1.0)
    lowest = moved(np, U, A, Y, W, 1e-3, 1.0, CodeSchedule(False, 5000, False)).U
    closed = CodeStep(W, 1e-3, 1.0, CLOSED_FORM, np.float64).closed_form(A, Y).reshape(U.shape)
    above = values(closed, A, Y, W, 1e-3, 1.0) / values(lowest, A, Y, W, 1e-3, 1.0) - 1
    assert (above < 1e-3).all()

    found = moved(np, lowest, A, Y, W, 1e-3, 1.0, CLOSED_FORM)

    assert float(found.rejected) == (above > 1e-12).sum() > 0
