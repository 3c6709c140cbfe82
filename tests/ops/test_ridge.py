"""Ridge regression: no slope left, the two forms agree, and every CG step descends."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from dcadl.arrays import fetch
from dcadl.ops.ridge import block_conjugate_gradient, kronecker_preconditioner, largest_eigenvalue, ridge


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


def test_every_block_cg_step_lowers_the_quadratic(xp, rng, system):
    M, B = system
    X0 = rng.standard_normal(B.shape)

    def value(steps):
        X = fetch(
            block_conjugate_gradient(
                lambda D: xp.asarray(M) @ D, xp.asarray(X0), xp.asarray(B - M @ X0), steps
            )
        )
        return 0.5 * np.sum(X * (M @ X)) - np.sum(B * X)

    values = [value(steps) for steps in range(8)]

    assert all(after < before for before, after in itertools.pairwise(values))


def test_block_cg_reaches_the_solution(xp, rng):
    """Of a system as one finds it; on a worse one the damping that keeps it steady slows the last digits."""
    A = rng.standard_normal((60, 30))
    M, B = A.T @ A + 0.1 * np.eye(30), rng.standard_normal((30, 3))
    X = block_conjugate_gradient(
        lambda D: xp.asarray(M) @ D, xp.zeros(B.shape, dtype=xp.float64), xp.asarray(B), 60
    )
    exact = np.linalg.solve(M, B)
    np.testing.assert_allclose(fetch(X), exact, atol=1e-6 * np.abs(exact).max())


def test_block_cg_stays_at_rest_at_the_solution(xp, system):
    M, B = system
    X = xp.asarray(np.linalg.solve(M, B))
    nothing = xp.zeros(B.shape, dtype=xp.float64)
    rested = block_conjugate_gradient(lambda D: xp.asarray(M) @ D, X, nothing, 3)
    np.testing.assert_array_equal(fetch(rested), fetch(X))


@pytest.mark.parametrize("C", [1, 2, 7, 40])
def test_the_largest_eigenvalue_is_bounded_from_above_and_tightly(xp, rng, C):
    A = rng.standard_normal((C, 60))
    M = A @ A.T
    bound = float(largest_eigenvalue(xp.asarray(M)))
    exact = np.linalg.eigvalsh(M)[-1]
    assert exact * (1 - 1e-12) <= bound <= exact * C ** (1 / 256) * (1 + 1e-9)


def test_the_largest_eigenvalue_of_nothing_is_nothing(xp):
    assert float(largest_eigenvalue(xp.zeros((3, 3), dtype=xp.float64))) == pytest.approx(0, abs=1e-300)


def test_codes_of_nothing_but_zeros_have_a_preconditioner_too(xp):
    zeros = xp.zeros((3, 3), dtype=xp.float64)
    found = kronecker_preconditioner(zeros, xp.zeros((4, 4), dtype=xp.float64), 0.5, 0.1)
    np.testing.assert_allclose(fetch(found.solve(xp.ones((12, 2), dtype=xp.float64))), 10, rtol=1e-6)
