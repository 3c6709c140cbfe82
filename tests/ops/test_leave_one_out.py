"""Leave-one-out: against leaving out one by one, against finite differences, dual against primal."""

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from dcadl.arrays import fetch
from dcadl.ops import leave_one_out
from dcadl.ops.leave_one_out import Rows, coefficients, gram, left_out, loss_and_gradient, uses_dual
from dcadl.ops.ridge import loss
from dcadl.solvers.walk import SerialWalk, even_slices, threads
from finite_differences import rise_of

SHAPES = pytest.mark.parametrize("shape", [(12, 30), (30, 12)], ids=["dual", "primal"])
LAM = 0.07


def make_rows(xp, F, Y, s):
    """Raw features, labels and weights as the formulas want them."""
    root = np.sqrt(s)[:, None]
    centred = [root * (A - np.average(A, axis=0, weights=s)) for A in (F, Y)]
    v = np.sqrt(s / s.sum())
    return Rows(*(xp.asarray(A) for A in (*centred, v)), float(s.sum()))


def problem(rng, shape):
    F = rng.standard_normal(shape) + 3
    Y = np.eye(3)[rng.integers(3, size=shape[0])]
    return F, Y, rng.uniform(0.5, 2, size=shape[0])


def one_by_one(F, Y, s, mu):
    """Residuals of each sample under ridge regression with a free intercept on all others."""
    found = []
    for i in range(len(F)):
        keep = np.arange(len(F)) != i
        f, y, w = F[keep], Y[keep], s[keep]
        f_mean, y_mean = np.average(f, axis=0, weights=w), np.average(y, axis=0, weights=w)
        A = (f - f_mean).T * w @ (f - f_mean) + mu * np.eye(F.shape[1])
        W = np.linalg.solve(A, (f - f_mean).T * w @ (y - y_mean))
        found.append(Y[i] - y_mean - (F[i] - f_mean) @ W)
    return np.array(found)


@SHAPES
def test_the_residuals_are_those_of_leaving_out_one_by_one(xp, rng, shape):
    F, Y, s = problem(rng, shape)
    rows = make_rows(xp, F, Y, s)

    e = left_out(rows, gram(rows), LAM).e

    mu = LAM * float(gram(rows).tau)
    np.testing.assert_allclose(fetch(e) / np.sqrt(s)[:, None], one_by_one(F, Y, s, mu), atol=1e-10)


@SHAPES
def test_the_gradient_is_that_of_finite_differences(xp, rng, shape):
    F, Y, s = problem(rng, shape)
    direction = rng.standard_normal(shape)
    root = np.sqrt(s)[:, None]

    def value(step):
        moved = make_rows(xp, F + step * direction, Y, s)
        return loss(left_out(moved, gram(moved), LAM).e, moved.total)

    _, dF = loss_and_gradient(make_rows(xp, F, Y, s), LAM)

    assert np.vdot(root * fetch(dF), direction) == pytest.approx(rise_of(value, 1e-4), rel=1e-8)


@SHAPES
def test_the_gradient_neither_shifts_nor_scales_the_features(xp, rng, shape):
    rows = make_rows(xp, *problem(rng, shape))

    _, dF = loss_and_gradient(rows, LAM)

    np.testing.assert_allclose(fetch(rows.v) @ fetch(dF), 0, atol=1e-12)
    assert np.vdot(fetch(rows.F), fetch(dF)) == pytest.approx(0, abs=1e-12)


def test_dual_and_primal_agree(rng):
    """A square problem takes the dual form; the same with a zero feature fewer or more the other."""
    F, Y, s = problem(rng, (20, 20))
    F[:, -1] = 0.0
    dual, primal = make_rows(np, F, Y, s), make_rows(np, F[:, :-1], Y, s)

    (L, dF), (primal_L, primal_dF) = loss_and_gradient(dual, LAM), loss_and_gradient(primal, LAM)

    assert uses_dual(dual)
    assert not uses_dual(primal)
    assert primal_L == pytest.approx(L, rel=1e-10)
    np.testing.assert_allclose(primal_dF, dF[:, :-1], rtol=1e-8, atol=1e-12)


@SHAPES
def test_blocks_of_samples_give_what_all_of_them_give(xp, rng, shape):
    rows = make_rows(xp, *problem(rng, shape))

    L, dF = loss_and_gradient(rows, LAM, even_slices(shape[0], 5), SerialWalk())

    whole_L, whole_dF = loss_and_gradient(rows, LAM)
    assert pytest.approx(whole_L, rel=1e-12) == L
    np.testing.assert_allclose(fetch(dF), fetch(whole_dF), atol=1e-12)


@SHAPES
def test_neither_tiles_nor_threads_make_a_difference(rng, monkeypatch, shape):
    rows = make_rows(np, *problem(rng, shape))
    whole_L, whole_dF = loss_and_gradient(rows, LAM)
    monkeypatch.setattr(leave_one_out, "TILE", 7)

    with threadpool_limits(2, user_api="blas"), threads(4) as walk:
        L, dF = loss_and_gradient(rows, LAM, even_slices(shape[0], 5), walk)

    assert pytest.approx(whole_L, rel=1e-12) == L
    np.testing.assert_allclose(dF, whole_dF, atol=1e-12)


@SHAPES
def test_the_coefficients_are_those_of_ridge_regression(xp, rng, shape):
    rows = make_rows(xp, *problem(rng, shape))
    shared = gram(rows)

    W = fetch(coefficients(rows, shared, left_out(rows, shared, LAM)))

    F, Y, mu = fetch(rows.F), fetch(rows.Y), LAM * float(shared.tau)
    np.testing.assert_allclose(F.T @ (F @ W - Y) + mu * W, 0, atol=1e-9)


def test_some_samples_can_be_judged_by_the_gram_matrix_of_all(rng):
    rows = make_rows(np, *problem(rng, (30, 12)))
    few = rows._replace(F=rows.F[5:9], Y=rows.Y[5:9], v=rows.v[5:9])

    all_e, few_e = (left_out(some, gram(rows), LAM).e for some in (rows, few))

    np.testing.assert_allclose(few_e, all_e[5:9], atol=1e-12)


def test_float32_does_not_hide_the_constant_direction(rng):
    """With few samples and a small λ, what rounding leaves of it would make every sample look predicted."""
    F, Y, s = problem(rng, (60, 900))
    F = F + 1000 * np.ones(900)  # far from the origin, so that float32 centres it badly
    wide = make_rows(np, F, Y, s)
    short = Rows(*(a.astype(np.float32) for a in wide[:3]), wide.total)
    lam = 1e-5

    losses = [loss(left_out(rows, gram(rows), lam).e, rows.total) for rows in (wide, short)]

    assert losses[1] == pytest.approx(losses[0], rel=1e-3)
