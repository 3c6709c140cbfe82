"""Ridge regression: no slope left, the two forms agree, CG steps descend; atoms in the ball; contrasts."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcadl.arrays import fetch
from dcadl.ops.ridge import (
    ball_atoms,
    block_conjugate_gradient,
    clip_rows,
    from_contrasts,
    kronecker_preconditioner,
    largest_eigenvalue,
    ridge,
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


def test_every_block_cg_step_lowers_the_quadratic(xp, rng, system):
    M, B = system
    X0 = rng.standard_normal(B.shape)

    def value(steps):
        X = fetch(
            block_conjugate_gradient(
                lambda D: xp.asarray(M) @ D, xp.asarray(X0), xp.asarray(B - M @ X0), steps
            )[0]
        )
        return 0.5 * np.sum(X * (M @ X)) - np.sum(B * X)

    values = [value(steps) for steps in range(8)]

    assert all(after < before for before, after in itertools.pairwise(values))


def test_block_cg_reaches_the_solution(xp, rng):
    """Of a system as one finds it; on a worse one the damping that keeps it steady slows the last digits."""
    A = rng.standard_normal((60, 30))
    M, B = A.T @ A + 0.1 * np.eye(30), rng.standard_normal((30, 3))
    X, left = block_conjugate_gradient(
        lambda D: xp.asarray(M) @ D, xp.zeros(B.shape, dtype=xp.float64), xp.asarray(B), 60
    )
    exact = np.linalg.solve(M, B)
    np.testing.assert_allclose(fetch(X), exact, atol=1e-6 * np.abs(exact).max())
    np.testing.assert_allclose(fetch(left), B - M @ fetch(X), atol=1e-9)


def test_block_cg_stays_at_rest_at_the_solution(xp, system):
    M, B = system
    X = xp.asarray(np.linalg.solve(M, B))
    nothing = xp.zeros(B.shape, dtype=xp.float64)
    rested, _ = block_conjugate_gradient(lambda D: xp.asarray(M) @ D, X, nothing, 3)
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


def pose(rng, m=5, d=7, scale=1.0):
    P = rng.standard_normal((40, d)) * np.geomspace(1, 0.05, d)
    return P.T @ P, scale * rng.standard_normal((m, d))


def check_optimal(Omega, G, B, lam4):
    """KKT: slope + μω = 0 with μ ≥ 0, ‖ω‖ ≤ 1, and μ(1 − ‖ω‖) = 0."""
    norms = np.linalg.norm(Omega, axis=1)
    slope = Omega @ G + lam4 * Omega - B
    mu = -np.sum(slope * Omega, axis=1) / np.maximum(norms**2, 1e-300)
    scale = np.linalg.norm(B, axis=1) + 1e-5 * np.linalg.norm(G)  # a slope carries the rounding of ωG
    assert (norms <= 1 + 1e-12).all()
    assert (mu >= -1e-8 * scale).all()
    np.testing.assert_allclose(np.linalg.norm(slope + mu[:, None] * Omega, axis=1) / scale, 0, atol=1e-8)
    np.testing.assert_allclose(mu * (1 - norms) / scale, 0, atol=1e-8)


@pytest.mark.parametrize("scale", [0.1, 10.0, 1e4], ids=["inside", "some outside", "far outside"])
@pytest.mark.parametrize("lam4", [0.1, 1e-6])
def test_atoms_satisfy_the_optimality_conditions(xp, rng, scale, lam4):
    G, B = pose(rng, scale=scale)
    check_optimal(fetch(ball_atoms(xp.asarray(G), lam4)(xp.asarray(B))), G, B, lam4)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), spread=st.floats(0, 12), scale=st.floats(-6, 6), lam4=st.floats(-6, 1))
def test_atoms_are_optimal_for_any_spectrum(seed, spread, scale, lam4):
    rng = np.random.default_rng(seed)
    Q, _ = np.linalg.qr(rng.standard_normal((6, 6)))
    G = Q @ np.diag(np.logspace(0, spread, 6)) @ Q.T
    G = (G + G.T) / 2
    B = 10.0 ** (scale + spread / 2) * rng.standard_normal((4, 6))
    check_optimal(ball_atoms(G, 10.0**lam4)(B), G, B, 10.0**lam4)


def test_atoms_agree_with_projected_gradient(rng):
    G, B = pose(rng, scale=10.0)
    Omega = clip_rows(rng.standard_normal(B.shape))
    length = 1 / (np.linalg.eigvalsh(G)[-1] + 0.1)
    for _ in range(20000):
        Omega = clip_rows(Omega - length * (Omega @ G + 0.1 * Omega - B))

    np.testing.assert_allclose(ball_atoms(G, 0.1)(B), Omega, atol=1e-8)


def test_without_a_ridge_and_with_empty_directions_atoms_stay_finite(xp):
    G, B = np.diag([4.0, 1.0, 0.0]), np.array([[8.0, 1.0, 0.0], [0.1, 0.1, 0.0]])
    Omega = fetch(ball_atoms(xp.asarray(G), 0.0)(xp.asarray(B)))
    assert np.isfinite(Omega).all()
    assert (np.linalg.norm(Omega, axis=1) <= 1 + 1e-12).all()
    np.testing.assert_allclose(Omega[1, :2], [0.025, 0.1], atol=1e-6)


def test_clip_rows_shortens_only_long_rows(xp):
    rows = fetch(clip_rows(xp.asarray([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]])))
    np.testing.assert_allclose(rows, [[0.6, 0.8], [0.3, 0.4], [0.0, 0.0]])


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


def test_conjugate_gradients_end_where_the_residual_is_short_enough(xp, rng):
    A, B = rng.standard_normal((40, 30)), rng.standard_normal((30, 2))
    M = xp.asarray(A.T @ A + np.eye(30))
    calls = []

    def product(D):
        calls.append(D)
        return M @ D

    start = xp.zeros((30, 2), dtype=xp.float64)
    found, _ = block_conjugate_gradient(product, start, xp.asarray(B), 100, until=1e-3)

    assert np.linalg.norm(B - fetch(M) @ fetch(found)) <= 1.01e-3
    assert len(calls) < 40
