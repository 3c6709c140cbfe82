"""The classifier of the descending solver, line 10: steps towards it, and what rounding does to them."""

from __future__ import annotations

import numpy as np
import pytest

from dcadl.arrays import fetch
from dcadl.ops.floors import STEP_DAMPING
from dcadl.ops.patches import unit_rows
from dcadl.ops.ridge import KroneckerPreconditioner, kronecker_preconditioner
from dcadl.solvers import descent
from dcadl.solvers.walk import SerialWalk

from .test_descent import LAMS, chunks_of


@pytest.mark.parametrize("weighted", [False, True])
def test_the_preconditioner_inverts_codes_that_are_a_product_of_patches_and_atoms(xp, rng, weighted):
    """Over all pairs of these patch and atom patterns, ŨŨᵀ is S⊗T / tr S exactly."""
    p, m, C = 3, 4, 3
    over_patches, over_atoms = rng.standard_normal((5, p)), rng.standard_normal((6, m))
    U = np.einsum("ak,bi->abki", over_patches, over_atoms).reshape(30, p, m)
    weight = np.full(30, 2.0) if weighted else None
    R = rng.standard_normal((p * m, C))
    chunks = chunks_of(xp, np.zeros((30, p, m)), np.zeros((30, C)), 30, weight)

    _, (S, T) = SerialWalk()(descent._marginals, chunks, [xp.asarray(U)])
    found = kronecker_preconditioner(S, T, LAMS[1], LAMS[2])

    rows = U.reshape(30, -1) * (np.sqrt(2) if weighted else 1)
    exact = np.linalg.solve(LAMS[1] * rows.T @ rows + LAMS[2] * np.eye(p * m), R)
    np.testing.assert_allclose(fetch(found.solve(xp.asarray(R))), exact, rtol=1e-2)


def test_a_classifier_step_lowers_the_ridge_objective_under_any_preconditioner(xp, rng):
    n, p, m, C = 40, 3, 4, 3
    U, Y = rng.standard_normal((n, p, m)), np.eye(C)[np.arange(n) % C]
    rows, W = U.reshape(n, -1), rng.standard_normal((C, p * m))
    turn = np.linalg.qr(rng.standard_normal((p, p)))[0]
    odd = KroneckerPreconditioner(
        xp.asarray(turn), xp.asarray(np.eye(m)), xp.asarray(rng.uniform(0.01, 9, (p, m)))
    )
    problem = descent.Problem(chunks_of(xp, U, Y, n), SerialWalk(), *LAMS, False, None, None)

    def value(W):
        return 0.5 * LAMS[1] * ((Y - rows @ W.T) ** 2).sum() + 0.5 * LAMS[2] * (W**2).sum()

    residual = LAMS[1] * rows.T @ (Y - rows @ W.T) - LAMS[2] * W.T
    found = descent._fit_classifier(
        problem, [xp.asarray(U)], xp.asarray(W), xp.asarray(residual), odd, 1, STEP_DAMPING
    )[0]

    assert value(fetch(found)) < value(W)


def test_the_first_classifier_is_most_of_the_way_to_the_best(monkeypatch):
    monkeypatch.setattr(descent, "solved_exactly", lambda *shape: False)
    (_, state), Y = faces_like(np.random.default_rng(0), np.float64), LABELS
    rows = np.concatenate(state.codes).reshape(len(Y), -1)

    def value(W):
        return 0.5 * LAMS[1] * ((Y - rows @ W.T) ** 2).sum() + 0.5 * LAMS[2] * (W**2).sum()

    gram = LAMS[1] * rows.T @ rows + LAMS[2] * np.eye(rows.shape[1])
    best = value(np.linalg.solve(gram, LAMS[1] * rows.T @ Y).T)
    assert value(state.W) - best < 0.1 * (value(0 * state.W) - best)


def test_a_system_is_solved_only_where_that_costs_no_more_than_a_step():
    """Its matrix takes p·m products an image for each of p·m features, a step two for each of C classes."""
    assert descent.solved_exactly(512, 10)
    assert descent.solved_exactly(800, 200)
    assert not descent.solved_exactly(1000, 10)
    assert not descent.solved_exactly(2000, 200)


def test_the_first_classifier_does_not_amplify_rounding(monkeypatch):
    monkeypatch.setattr(descent, "solved_exactly", lambda *shape: False)
    (_, small), (_, large) = (faces_like(np.random.default_rng(0), t) for t in (np.float32, np.float64))
    # 1 to 2e-5 here; with a damping of 1e-6 it is 2 to 5e-4
    assert np.linalg.norm(small.W - large.W) < 6e-5 * np.linalg.norm(large.W)


def test_what_atoms_leave_of_codes_that_they_give_exactly_is_rounding_and_not_less(rng):
    """It is a difference of sums over all patches: where it ought to be zero it may be negative."""
    P = unit_rows(rng.standard_normal((200, 4, 6))).astype(np.float32)
    before, after = (0.5 * unit_rows(rng.standard_normal((9, 6))).astype(np.float32) for _ in range(2))
    problem = descent.pose(
        chunks_of(np, P, np.eye(2)[np.arange(200) % 2], 200), SerialWalk(), (0.0, 0.5, 0.1, 0.0)
    )
    gap = (P @ (after - before).T).reshape(-1, 9)
    fit = (gap.astype(np.float64) ** 2).sum(axis=0)

    Omega, left = descent._fit_atoms(problem, before, gap.T @ P.reshape(-1, 6), fit)

    np.testing.assert_allclose(Omega, after, atol=1e-5)
    rounding = left / (np.finfo(np.float32).eps * fit)
    assert (rounding > 30).all()
    assert (rounding < 100).all()


def test_a_preconditioner_without_a_ridge_is_bounded(xp, rng):
    """Codes that leave directions empty, and λ3 = 0: nothing grows beyond a million times the others."""
    A = rng.standard_normal((5, 3))
    S, T = A @ A.T, np.diag([1.0, 0.5, 0.0])

    inverse = fetch(kronecker_preconditioner(xp.asarray(S), xp.asarray(T), 0.2, 0.0).inverse)

    assert inverse.max() <= 1.01e6 / (0.2 * np.trace(S))


def test_without_a_ridge_the_classifier_is_least_squares(rng):
    """Of codes whose directions differ a thousandfold in size: no damping shows in six digits."""
    scale = np.geomspace(1, 1e-3, 6)
    U, Y = rng.standard_normal((200, 1, 6)) * scale, rng.standard_normal((200, 3))
    problem = descent.Problem(chunks_of(np, U, Y, 200), SerialWalk(), 0.0, 0.5, 0.0, 0.1, False, None, None)
    target = 0.5 * U.reshape(200, -1).T @ Y

    W, _ = descent._fit_classifier(problem, [U], np.zeros((3, 6)), target, None, 1, 0.0)

    exact = np.linalg.lstsq(U.reshape(200, -1), Y, rcond=None)[0].T
    np.testing.assert_allclose(W * scale, exact * scale, atol=1e-6 * np.abs(exact * scale).max())


def test_without_a_ridge_a_classifier_of_dependent_codes_stays_small(rng):
    U = rng.standard_normal((50, 1, 3)) @ rng.standard_normal((3, 8))
    Y = rng.standard_normal((50, 2))
    problem = descent.Problem(chunks_of(np, U, Y, 50), SerialWalk(), 0.0, 1.0, 0.0, 0.1, False, None, None)

    target = U.reshape(50, -1).T @ Y
    W, _ = descent._fit_classifier(problem, [U], np.zeros((2, 8)), target, None, 1, 0.0)

    least = np.linalg.lstsq(U.reshape(50, -1), Y, rcond=1e-10)[0].T
    assert np.linalg.norm(W) < 2 * np.linalg.norm(least)


LABELS = np.eye(6)[np.arange(120) % 6] - 1 / 6


def faces_like(rng, dtype):
    """More atoms than a patch has values, so that codes nearly depend on each other."""
    P = unit_rows(rng.standard_normal((120, 4, 1, 8)).cumsum(axis=-1)[:, :, 0] + 3)
    Omega = unit_rows(rng.standard_normal((20, 8)))
    problem = descent.pose(chunks_of(np, P.astype(dtype), LABELS.astype(dtype), 60), SerialWalk(), LAMS)
    return problem, descent.start(problem, Omega.astype(dtype))


def steps_on_faces_like_codes(rng, dtype, passes):
    problem, state = faces_like(rng, dtype)
    for _ in range(passes):
        state = descent.step(problem, state)
    return state, state.trace


def test_steps_of_the_classifier_do_not_amplify_rounding(monkeypatch):
    monkeypatch.setattr(descent, "solved_exactly", lambda *shape: False)
    (small, _), (large, _) = (
        steps_on_faces_like_codes(np.random.default_rng(0), dtype, 20) for dtype in (np.float32, np.float64)
    )
    # 1 to 2e-3 here; with a damping of 1e-6 it is 1 to 2e-2
    assert np.linalg.norm(small.W - large.W) < 4e-3 * np.linalg.norm(large.W)


def test_steps_of_the_classifier_lower_the_objective_nearly_as_solutions_do(monkeypatch):
    _, exact = steps_on_faces_like_codes(np.random.default_rng(0), np.float64, 20)
    monkeypatch.setattr(descent, "solved_exactly", lambda *shape: False)
    _, stepped = steps_on_faces_like_codes(np.random.default_rng(0), np.float64, 20)
    assert stepped[-1] < 1.05 * exact[-1]
