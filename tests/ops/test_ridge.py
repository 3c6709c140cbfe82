"""Ridge regression: no slope left, the two forms agree, CG steps descend; contrasts."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from dcadl.arrays import fetch
from dcadl.ops.closed_form import ridge
from dcadl.ops.ridge import (
    ConjugateGradient,
    from_contrasts,
    kronecker_preconditioner,
    search_lam,
    to_contrasts,
)


@pytest.mark.parametrize("shape", [(9, 4), (4, 9)], ids=["tall", "wide"])
@pytest.mark.parametrize("weighted", [False, True])
def test_ridge_leaves_no_slope(xp, rng, shape, weighted):
    A, T = rng.standard_normal(shape), rng.standard_normal((shape[0], 2))
    s = rng.random(shape[0]) if weighted else np.ones(shape[0])

    B = fetch(ridge(xp.asarray(A), xp.asarray(T), 0.3, xp.asarray(s)))

    np.testing.assert_allclose(A.T @ (s[:, None] * (A @ B - T)) + 0.3 * B, 0, atol=1e-12)


def test_primal_equals_dual(xp, rng):
    A, T = rng.standard_normal((6, 6)), rng.standard_normal((6, 3))
    padded = np.hstack([A, np.zeros((6, 1))])  # one idle feature turns the system dual

    primal, dual = (fetch(ridge(xp.asarray(M), xp.asarray(T), 0.2)) for M in (A, padded))

    np.testing.assert_allclose(primal, dual[:-1], atol=1e-12)


def test_float32_comes_back_as_float32_with_float64_accuracy(xp, rng):
    A, T = rng.standard_normal((30, 5)).astype(np.float32), rng.standard_normal((30, 2)).astype(np.float32)
    B = fetch(ridge(xp.asarray(A), xp.asarray(T), 1e-3))
    exact = fetch(ridge(xp.asarray(A.astype(np.float64)), xp.asarray(T.astype(np.float64)), 1e-3))
    assert B.dtype == np.float32
    np.testing.assert_allclose(B, exact, rtol=1e-6, atol=1e-7)


@pytest.fixture
def system(rng):
    """A badly conditioned system with two dependent right-hand sides."""
    Q, _ = np.linalg.qr(rng.standard_normal((30, 30)))
    M = Q @ np.diag(np.geomspace(1e-2, 1e4, 30)) @ Q.T
    B = rng.standard_normal((30, 3))
    return M, np.hstack([B, B[:, :1]])


def stepped(M, X, residual, steps):
    """Conjugate gradients from X on, so many steps."""
    solution = ConjugateGradient(X, residual)
    for _ in range(steps):
        D = solution.directions()
        solution.move(D, M @ D)
    return solution


def test_every_block_cg_step_lowers_the_quadratic(xp, rng, system):
    M, B = system
    X0 = rng.standard_normal(B.shape)

    def value(steps):
        X = fetch(stepped(xp.asarray(M), xp.asarray(X0), xp.asarray(B - M @ X0), steps).X)
        return 0.5 * np.sum(X * (M @ X)) - np.sum(B * X)

    values = [value(steps) for steps in range(8)]

    assert all(after < before for before, after in itertools.pairwise(values))


def test_block_cg_reaches_the_solution_and_knows_its_residual(xp, rng):
    """Of a system as one finds it; on a worse one the damping that keeps it steady slows the last digits."""
    A = rng.standard_normal((60, 30))
    M, B = A.T @ A + 0.1 * np.eye(30), rng.standard_normal((30, 3))
    found = stepped(xp.asarray(M), xp.zeros(B.shape, dtype=xp.float64), xp.asarray(B), 60)
    exact, X = np.linalg.solve(M, B), fetch(found.X)
    np.testing.assert_allclose(X, exact, atol=1e-6 * np.abs(exact).max())
    np.testing.assert_allclose(fetch(found.residual), B - M @ X, atol=1e-9)


def test_block_cg_needs_fewer_steps_than_columns_of_the_system(xp, rng):
    A, B = rng.standard_normal((40, 30)), rng.standard_normal((30, 2))
    M = A.T @ A + np.eye(30)
    X = fetch(stepped(xp.asarray(M), xp.zeros((30, 2), dtype=xp.float64), xp.asarray(B), 29).X)
    assert np.linalg.norm(B - M @ X) <= 1e-3


def test_block_cg_stays_at_rest_at_the_solution(xp, system):
    M, B = system
    X = xp.asarray(np.linalg.solve(M, B))
    rested = stepped(xp.asarray(M), X, xp.zeros(B.shape, dtype=xp.float64), 3).X
    np.testing.assert_array_equal(fetch(rested), fetch(X))


def test_codes_of_nothing_but_zeros_have_a_preconditioner_too(xp):
    zeros = xp.zeros((3, 3), dtype=xp.float64)
    found = kronecker_preconditioner(zeros, xp.zeros((4, 4), dtype=xp.float64), 0.5, 0.1)
    np.testing.assert_allclose(fetch(found.solve(xp.ones((12, 2), dtype=xp.float64))), 10, rtol=1e-6)


@pytest.mark.parametrize("C", [2, 3, 38])
def test_centred_labels_come_back_and_keep_their_lengths(rng, C):
    labels = rng.standard_normal((20, C))
    labels -= labels.mean(axis=1, keepdims=True)

    short = to_contrasts(labels)

    assert short.shape == (20, C - 1)
    np.testing.assert_allclose(from_contrasts(short), labels, atol=1e-12)
    np.testing.assert_allclose(short @ short.T, labels @ labels.T, atol=1e-12)


def test_they_keep_the_precision_and_sum_to_zero(rng):
    scores = from_contrasts(rng.standard_normal((5, 9)).astype(np.float32))
    assert scores.dtype == np.float32
    np.testing.assert_allclose(scores.sum(axis=1), 0, atol=1e-6)


@pytest.mark.parametrize("least", [-4.5, -1.0, 1.5])
@pytest.mark.parametrize("begin", [None, 10**-1.5])
def test_a_search_ends_at_the_least_error_and_looks_nowhere_twice(least, begin):
    looks, rounds = [], []

    def error(lam):
        looks.append(lam)
        return (np.log10(lam) - least) ** 2

    def each(function, values):
        rounds.append(len(values))
        return map(function, values)

    found = search_lam(error, begin, each)

    assert np.log10(found) == pytest.approx(least)
    assert len(looks) == len(set(looks))
    assert rounds[0] == 3  # where it begins, and both sides at once


def test_a_search_ends_where_the_error_is_no_number():
    assert search_lam(lambda lam: np.nan, 0.1) == pytest.approx(0.1)
