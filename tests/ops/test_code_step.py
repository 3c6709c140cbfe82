"""The codes' block: the closed form, the steps, and that neither raises the objective of any image."""

from __future__ import annotations

import numpy as np
import pytest

from dcadl.arrays import fetch
from dcadl.ops.code_step import FEW, MANY, STEPS, CodeSchedule, CodeStep, schedule_codes, smoothness

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
    L = float(smoothness(xp.asarray(W), lam2))
    move = CodeStep(xp.asarray(W), lam1, lam2, schedule, L, xp.asarray(U).dtype)
    return move(*(xp.asarray(a) for a in (U, A, Y)))


def test_without_sparsity_the_leap_solves_the_block(xp, rng):
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
        np.testing.assert_allclose(sum(fetch(term) for term in found.after), after, rtol=1e-10)
        np.testing.assert_allclose(fetch(found.error), Y - fetch(found.U).reshape(n, -1) @ W.T, atol=1e-12)
        U, before = fetch(found.U), after


def test_an_image_that_would_be_worse_off_keeps_its_codes(xp, rng):
    U, A, Y, W = block(rng, scale=3.0)
    settled = fetch(moved(np, U, A, Y, W, 1.0, 1.0, CodeSchedule(False, 2000, False)).U)  # the very minimum
    U[: n // 2] = settled[: n // 2]

    found = moved(xp, U, A, Y, W, 1.0, 1.0, CLOSED_FORM)

    np.testing.assert_array_equal(fetch(found.U)[: n // 2], settled[: n // 2])
    assert float(found.rejected) >= n // 2


def test_the_schedule_follows_the_images_that_refuse():
    assert schedule_codes(2.0, 0.0) == CLOSED_FORM
    assert schedule_codes(2.0, 0.2) == CodeSchedule(True, STEPS, True)
    assert schedule_codes(2.0, 0.9) == CodeSchedule(False, STEPS, True)
    assert not schedule_codes(1e6, 0.9).accelerate  # too many would be needed
