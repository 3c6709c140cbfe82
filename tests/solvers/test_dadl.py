"""DADL: a pass against loops with explicit inverses, and an objective that never rises."""

from __future__ import annotations

import numpy as np
import pytest

from dcadl.arrays import fetch
from dcadl.ops.patches import unit_rows
from dcadl.ops.targets import hybrid_codes
from dcadl.solvers import dadl

WEIGHTS = dadl.Weights(2.0, 0.3, 0.1, 0.8)  # σ so narrow that the slopes matter


def posed(xp, n, d, inner=3, weights=WEIGHTS):
    rng = np.random.default_rng(3)
    label = np.arange(n) % 3
    Y = unit_rows(rng.standard_normal((n, d)) + 2 * rng.standard_normal((3, d))[label])
    targets = hybrid_codes(3, d)
    H = unit_rows(targets.codes)[label]
    options = dadl.Options(targets.sparsity, 4, inner)
    return dadl.pose(xp.asarray(Y), xp.asarray(H), xp.asarray(label), weights, options)


def run(problem, passes):
    state = dadl.start(problem)
    for _ in range(passes):
        state = dadl.step(problem, state)
    return state


def literal(problem, passes):
    """The authors' loop in columns, with explicit inverses and diagonal matrices."""
    Y, H, W = (fetch(a).T for a in (problem.Y, problem.H, problem.W))
    lam1, lam2, lam3, sigma = problem.weights
    n = Y.shape[1]
    X, p, q, R = H, np.ones(n), np.ones(n), np.ones((n, n))
    for _ in range(passes):
        V = W * R
        L = np.diag(V.sum(axis=1)) - V
        for _ in range(problem.inner):
            P = np.diag(p)
            Omega = X @ P @ Y.T @ np.linalg.inv(Y @ (P + lam2 * L) @ Y.T + lam3 * np.eye(len(Y)))
            t = lam1 * q / p
            X = (Omega @ Y + t * H) / (1 + t)
            for i in range(n):
                X[np.argsort(-np.abs(X[:, i]))[problem.sparsity :], i] = 0
        A = Omega @ Y
        p = np.exp(-np.sum((X - A) ** 2, axis=0) / sigma**2)
        q = np.exp(-np.sum((X - H) ** 2, axis=0) / sigma**2)
        R = np.exp(-np.sum((A[:, :, None] - A[:, None, :]) ** 2, axis=0) / sigma**2)
    J = (
        np.sum(1 - p)
        + lam1 * np.sum(1 - q)
        + lam2 / 2 * np.sum(W * (1 - R))
        + lam3 / sigma**2 * np.sum(Omega**2)
    )
    return Omega, X.T, J


@pytest.mark.parametrize(("n", "d"), [(15, 8), (12, 30)], ids=["many samples", "many values"])
def test_passes_equal_the_literal_loop(xp, n, d):
    problem = posed(xp, n, d)

    state = run(problem, 3)

    Omega, X, J = literal(problem, 3)
    np.testing.assert_allclose(fetch(state.Omega), Omega, atol=1e-9)
    np.testing.assert_allclose(fetch(state.X), X, atol=1e-9)
    np.testing.assert_allclose(state.trace[-1], J)


@pytest.mark.parametrize(("n", "d"), [(15, 8), (12, 30)], ids=["many samples", "many values"])
@pytest.mark.parametrize("sigma", [0.3, 0.8, 10.0])
def test_no_pass_raises_the_objective(xp, n, d, sigma):
    seen = np.array(run(posed(xp, n, d, weights=WEIGHTS._replace(sigma=sigma)), 8).trace)

    assert (np.diff(seen) <= 1e-9 * seen[:-1]).all()


def test_codes_have_no_more_entries_than_their_targets(xp):
    problem = posed(xp, 12, 30)

    assert (np.count_nonzero(fetch(run(problem, 2).X), axis=1) <= problem.sparsity).all()
