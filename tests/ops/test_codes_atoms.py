"""The atoms' block: optimality conditions in the ball, rows clipped, a bound of the largest eigenvalue."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcadl.arrays import fetch
from dcadl.ops.codes import ball_atoms, clip_rows, largest_eigenvalue


@pytest.mark.parametrize("C", [1, 2, 7, 40])
def test_the_largest_eigenvalue_is_bounded_from_above_and_tightly(xp, rng, C):
    A = rng.standard_normal((C, 60))
    M = A @ A.T
    bound = float(largest_eigenvalue(xp.asarray(M)))
    exact = np.linalg.eigvalsh(M)[-1]
    assert exact * (1 - 1e-12) <= bound <= exact * C ** (1 / 256) * (1 + 1e-9)


def test_the_largest_eigenvalue_of_nothing_is_nothing(xp):
    assert float(largest_eigenvalue(xp.zeros((3, 3), dtype=xp.float64))) == pytest.approx(0, abs=1e-300)


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
