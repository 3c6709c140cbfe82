"""DPL's solver against its objective written out, explicit inverses, and residuals one by one."""

import numpy as np
import pytest

from dcadl.arrays import fetch
from dcadl.ops.patches import unit_rows
from dcadl.solvers import dpl

TAU, LAM, GAMMA = 0.3, 0.05, 0.01
SIZES = {"wide": ((5, 7, 4), 30), "tall": ((9, 12, 8), 6), "mixed": ((3, 20, 5), 10)}


@pytest.fixture(params=SIZES)
def case(request, xp, rng):
    """Classes of unequal size, fewer samples than values, more, and both; with a first pair."""
    sizes, d = SIZES[request.param]
    parts = [unit_rows(rng.standard_normal((n, d))) for n in sizes]
    D, P = (unit_rows(rng.standard_normal((len(sizes), 4, d))) for _ in range(2))
    problem = dpl.pose([xp.asarray(X) for X in parts], TAU, LAM, GAMMA)
    return parts, problem, dpl.start(problem, xp.asarray(D), xp.asarray(P)), (D, P)


def explicit_projection(parts, k, A):
    """τA_kX_kᵀ(τX_kX_kᵀ + λX̄_kX̄_kᵀ + γI)⁻¹ with samples as rows and the inverse formed."""
    own, others = parts[k], np.concatenate([X for i, X in enumerate(parts) if i != k])
    M = TAU * own.T @ own + LAM * others.T @ others + GAMMA * np.eye(own.shape[1])
    return TAU * A @ own @ np.linalg.inv(M)


def explicit_objective(parts, D, P, A):
    total = 0.0
    for k, X in enumerate(parts):
        others = np.concatenate([X for i, X in enumerate(parts) if i != k])
        total += np.sum((X - A[k].T @ D[k]) ** 2) + TAU * np.sum((X @ P[k].T - A[k].T) ** 2)
        total += LAM * np.sum((others @ P[k].T) ** 2) + GAMMA * np.sum(P[k] ** 2)
    return total


def best_codes(parts, D, P):
    gram = [d @ d.T + TAU * np.eye(len(d)) for d in D]
    return [np.linalg.solve(g, (TAU * p + d) @ X.T) for g, d, p, X in zip(gram, D, P, parts)]


def run(problem, state, passes):
    for _ in range(passes):
        state = dpl.step(problem, state)
    return state


def test_first_projections_are_those_of_the_explicit_inverse(case):
    parts, problem, state, (D, P) = case

    _, found = dpl.pairs(problem, dpl.step(problem, state))

    A = best_codes(parts, D, P)
    expected = [explicit_projection(parts, k, A[k]) for k in range(len(parts))]
    np.testing.assert_allclose(fetch(found), np.stack(expected), atol=1e-10)


def test_reported_objective_is_the_objective_written_out(case):
    parts, problem, state, _ = case

    state = run(problem, state, 3)

    D, P = (fetch(a) for a in dpl.pairs(problem, state))
    assert state.trace[-1] == pytest.approx(
        explicit_objective(parts, D, P, best_codes(parts, D, P)), rel=1e-9
    )


def test_no_block_raises_the_objective(case):
    _, problem, state, _ = case

    seen = np.array(dpl.objective(problem, run(problem, state, 8)))

    assert np.all(np.diff(seen) <= 1e-9 * seen[:-1])
    assert seen[-1] < seen[0]


def test_every_atom_lies_in_the_unit_ball(case):
    _, problem, state, _ = case

    D, _ = dpl.pairs(problem, run(problem, state, 5))

    assert np.linalg.norm(fetch(D), axis=2).max() <= 1 + 1e-12


def test_many_sweeps_reach_the_constrained_minimum(rng, monkeypatch):
    """Projected gradient steps cannot lower what the sweeps have reached."""
    monkeypatch.setattr(dpl, "SWEEPS", 500)
    root = rng.standard_normal((2, 6, 4))
    G, B = np.swapaxes(root, 1, 2) @ root, 5 * rng.standard_normal((2, 4, 9))

    D = dpl._ball_atoms(G, B, np.zeros_like(B))

    moved = D - 0.01 * (G @ D - B)
    moved /= np.maximum(1, np.linalg.norm(moved, axis=2, keepdims=True))
    np.testing.assert_allclose(D, moved, atol=1e-8)


def test_the_sweeps_of_a_pass_leave_next_to_nothing_to_the_next_ones(rng):
    """Less than a millionth of what they lowered; a single sweep leaves some hundredths."""
    A = rng.standard_normal((2, 40, 6))
    G, B = np.swapaxes(A, 1, 2) @ A, 3 * np.swapaxes(A, 1, 2) @ rng.standard_normal((2, 40, 5))

    def value(D):
        return 0.5 * np.sum(D * (G @ D)) - np.sum(D * B)

    once = dpl._ball_atoms(G, B, np.zeros_like(B))
    twice = dpl._ball_atoms(G, B, once)

    assert 0 <= value(once) - value(twice) < 1e-5 * -value(twice)


def test_scores_are_negative_squared_residuals(xp, rng):
    X, D, P = rng.standard_normal((6, 9)), rng.standard_normal((3, 4, 9)), rng.standard_normal((3, 4, 9))

    found = fetch(dpl.scores(xp.asarray(X), xp.asarray(D), xp.asarray(P)))

    residual = X[:, None] - np.einsum("kmd,kme,ne->nkd", D, P, X)
    np.testing.assert_allclose(found, -np.sum(residual**2, axis=2), rtol=1e-10)
