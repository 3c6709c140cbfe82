"""SADL: block descent that never rises, stationary where it stands still; ADMM against its transcription."""

from __future__ import annotations

import numpy as np
import pytest

from dcadl.arrays import fetch
from dcadl.ops.patches import unit_rows
from dcadl.solvers import sadl

WEIGHTS = sadl.Weights(0.01, 0.02, 1.5, 0.7, 0.05, 0.03)
SHAPES = {"many samples": (20, 8, 6), "many atoms": (9, 12, 15)}


def data(n, d):
    rng = np.random.default_rng(5)
    label = np.arange(n) % 3
    Y = np.eye(3)[label]
    return (
        unit_rows(rng.standard_normal((n, d)) + Y @ rng.standard_normal((3, d))),
        Y,
        np.repeat(Y, 2, axis=1),
    )


def descended(xp, n, d, r, passes):
    X, Y, H = data(n, d)
    problem = sadl.pose(xp.asarray(X), xp.asarray(Y), xp.asarray(H), WEIGHTS)
    Omega = unit_rows(np.random.default_rng(6).standard_normal((r, d)))
    state = sadl.start(problem, xp.asarray(Omega))
    for _ in range(passes):
        state = sadl.step(problem, state)
    return problem, state


@pytest.mark.parametrize(("n", "d", "r"), SHAPES.values(), ids=SHAPES)
def test_no_block_of_any_pass_raises_the_objective(xp, n, d, r):
    problem, state = descended(xp, n, d, r, 10)

    seen = np.array(state.trace)
    assert len(seen) == 40
    assert (np.diff(seen) <= 1e-9 * seen[:-1]).all()
    np.testing.assert_allclose(
        seen[-1], sadl.value(problem, state.Omega, state.U, state.Q, state.W), rtol=1e-12
    )


@pytest.mark.parametrize(("n", "d", "r"), SHAPES.values(), ids=SHAPES)
def test_after_many_passes_no_slope_is_left_in_the_structure_map(xp, n, d, r):
    problem, state = descended(xp, n, d, r, 400)
    U, Q, W, H, Y = (fetch(a) for a in (state.U, state.Q, state.W, problem.H, problem.Y))

    error = 1.5 * (U @ Q.T - H) + 0.7 * (U @ Q.T @ W.T - Y) @ W
    slope = error.T @ U + 0.05 * Q

    assert np.abs(slope).max() < 1e-3 * np.abs(H.T @ U).max()


def test_the_steps_on_the_codes_close_most_of_the_gap_to_the_best_ones(monkeypatch):
    """A sixth of it is left here; one step leaves two fifths."""
    problem, state = descended(np, *SHAPES["many samples"], 3)
    A, none = problem.X @ state.Omega.T, np.zeros_like(state.U)

    def value(U):
        return sadl.value(problem, state.Omega, U, state.Q, state.W)

    found = sadl._codes(problem, none, A, state.Q, state.W)
    monkeypatch.setattr(sadl, "CODE_STEPS", 2000)
    best = sadl._codes(problem, none, A, state.Q, state.W)

    assert value(found) - value(best) < 0.22 * (value(none) - value(best))


def test_atoms_stay_in_the_unit_ball(xp):
    _, state = descended(xp, 20, 8, 6, 10)

    assert np.linalg.norm(fetch(state.Omega), axis=1).max() <= 1 + 1e-12


@pytest.mark.parametrize(("n", "d", "r"), SHAPES.values(), ids=SHAPES)
def test_no_atoms_in_the_ball_fit_the_codes_better(xp, rng, n, d, r):
    problem, state = descended(xp, n, d, r, 2)
    U, X, Omega = (
        fetch(state.U),
        fetch(problem.X),
        fetch(problem.fit_atoms(4 * state.U)),
    )  # 4: the ball matters

    def cost(atoms):
        return 0.5 * np.sum((4 * U - X @ atoms.T) ** 2) + 0.01 * np.sum(atoms**2)

    assert np.linalg.norm(Omega, axis=1).max() == pytest.approx(1.0)
    for scale in (1e-1, 1e-2, 1e-3):
        other = Omega + scale * rng.standard_normal(Omega.shape)
        assert cost(other / np.maximum(np.linalg.norm(other, axis=1, keepdims=True), 1)) > cost(Omega)


def literal_admm(X, Y, H, Omega, Q, W, Y1, passes):
    """The authors' updates in columns, with explicit inverses and norms."""
    w, a = WEIGHTS, 5.5
    X, Y, H, Y1 = X.T, Y.T, H.T, Y1.T
    U, Y2 = np.zeros((len(Omega), X.shape[1])), np.zeros_like(Y)
    mu = 1.5e8 / np.linalg.norm(Y1, 2)
    eQ, eW, eWQ = (a * np.linalg.norm(A, 2) ** 2 for A in (Q, W, W @ Q))
    for _ in range(passes):
        e1, e2 = w.gamma1 * Y1 / mu + H - Q @ U, w.gamma2 * Y2 / mu + Y - W @ Q @ U
        V = U - ((U - Omega @ X) / mu - Q.T @ e1 - (W @ Q).T @ e2) / (eQ + eWQ)
        U = np.sign(V) * np.maximum(np.abs(V) - w.lam1 / (mu * (eQ + eWQ)), 0)
        e1, e2 = w.gamma1 * Y1 / mu + H - Q @ U, w.gamma2 * Y2 / mu + Y - W @ Q @ U
        Q = Q - (-e1 @ U.T - W.T @ e2 @ U.T + w.delta1 * Q) / (eQ + eW)
        e2 = w.gamma2 * Y2 / mu + Y - W @ Q @ U
        W = W - (-e2 @ (Q @ U).T + w.delta2 * W) / eQ
        Omega = U @ X.T @ np.linalg.inv(X @ X.T + w.lam4 * np.eye(len(X)))
        Y1, Y2 = Y1 + mu * (H - Q @ U), Y2 + mu * (Y - W @ Q @ U)
    residual = (np.linalg.norm(H - Q @ U) + np.linalg.norm(Y - W @ Q @ U)) / np.linalg.norm(Y)
    return Omega, Q, W, residual


def test_admm_equals_the_authors_updates_written_out(xp, rng):
    X, Y, H = data(20, 8)
    Omega, Q, W, Y1 = (rng.uniform(size=shape) for shape in ((6, 8), (6, 6), (3, 6), (20, 6)))
    problem = sadl.pose_admm(xp.asarray(X), xp.asarray(Y), xp.asarray(H), WEIGHTS)
    state = sadl.start_admm(problem, *(xp.asarray(a) for a in (Omega, Q, W, Y1)))
    for _ in range(5):
        state = sadl.admm_step(problem, state)

    expected = literal_admm(X, Y, H, Omega, Q, W, Y1, 5)

    for found, wanted in zip((state.Omega, state.Q, state.W), expected):
        np.testing.assert_allclose(fetch(found), wanted, rtol=1e-4, atol=1e-6)  # norms carry a margin of 1e-6
    assert state.trace[-1] == pytest.approx(expected[-1], rel=1e-4)
