"""The descending solver: slopes, descent of every block, and chunks that do not matter."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from dcadl.arrays import fetch
from dcadl.ops.floors import STEP_DAMPING
from dcadl.ops.patches import unit_rows
from dcadl.ops.ridge import KroneckerPreconditioner, kronecker_preconditioner, ridge
from dcadl.solvers import descent
from dcadl.solvers.walk import Chunk, SerialWalk, threads

LAMS = (0.02, 0.5, 0.1, 0.1)


def chunks_of(xp, P, Y, size, weight=None):
    return [
        Chunk(
            partial(lambda a: a, xp.asarray(P[i : i + size])),
            xp.asarray(Y[i : i + size]),
            None if weight is None else xp.asarray(weight[i : i + size]),
        )
        for i in range(0, len(P), size)
    ]


def pose(xp, rng, n=24, p=3, d=6, m=5, C=3, size=24, weight=None, lams=LAMS, walk=None, split=False):
    P, Y = unit_rows(rng.standard_normal((n, p, d))), np.eye(C)[np.arange(n) % C]
    Omega = unit_rows(rng.standard_normal((m, d)))
    problem = descent.pose(chunks_of(xp, P, Y, size, weight), walk or SerialWalk(), lams, split)
    return problem, descent.start(problem, xp.asarray(Omega)), (P, Y)


def value(P, Y, Omega, U, W, lams, weight=None):
    """F written out, image by image."""
    lam1, lam2, lam3, lam4 = lams
    s = np.ones(len(P)) if weight is None else weight
    total = 0.5 * lam3 * np.sum(W**2) + 0.5 * lam4 * np.sum(Omega**2)
    for j in range(len(P)):
        total += s[j] * (
            0.5 * np.sum((P[j] @ Omega.T - U[j]) ** 2)
            + lam1 * np.sum(np.abs(U[j]))
            + 0.5 * lam2 * np.sum((Y[j] - W @ U[j].reshape(-1)) ** 2)
        )
    return total


def all_codes(state):
    return np.concatenate([fetch(U) for U in state.codes]) * fetch(state.scale)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_last_value_is_the_objective_written_out(xp, rng, weighted):
    weight = rng.random(24) if weighted else None
    problem, state, (P, Y) = pose(xp, rng, size=7, weight=weight)
    for _ in range(3):
        state = descent.step(problem, state)

    expected = value(P, Y, fetch(state.Omega), all_codes(state), fetch(state.W), LAMS, weight)

    assert state.trace[-1] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("exact", [True, False], ids=["exact classifier", "CG classifier"])
@pytest.mark.parametrize("lam1", [0.0, 0.02, 0.3], ids=["dense", "usual", "sparse"])
@pytest.mark.parametrize("lam2", [0.05, 0.5, 300.0], ids=["weak", "usual", "violent"])
def test_no_block_of_no_pass_raises_the_objective(xp, rng, monkeypatch, exact, lam1, lam2):
    monkeypatch.setattr(descent, "solved_exactly", lambda *shape: exact)
    problem, state, _ = pose(xp, rng, size=10, lams=(lam1, lam2, 0.1, 0.1))
    for _ in range(12):
        state = descent.step(problem, state)

    trace = np.array(state.trace)

    assert len(trace) == 36
    assert (np.diff(trace) <= 1e-9 * np.abs(trace[:-1])).all()
    assert trace[-1] < trace[0]


@pytest.mark.parametrize("weighted", [False, True])
def test_a_small_classifier_is_the_exact_ridge_of_its_codes(xp, rng, weighted):
    weight = rng.random(24) if weighted else None
    problem, state, (_, Y) = pose(xp, rng, size=9, weight=weight)
    state = descent.step(problem, state)

    before_scaling = np.concatenate([fetch(U) for U in state.codes]).reshape(24, -1)
    expected = ridge(before_scaling, Y, LAMS[2] / LAMS[1], weight).T

    np.testing.assert_allclose(fetch(state.W) * np.tile(fetch(state.scale), 3), expected, atol=1e-10)


@pytest.mark.parametrize("exact", [True, False], ids=["exact classifier", "CG classifier"])
@pytest.mark.parametrize("size", [1, 7, 23])
def test_chunks_change_nothing_but_rounding(rng, monkeypatch, exact, size):
    monkeypatch.setattr(descent, "solved_exactly", lambda *shape: exact)
    seed = rng.integers(1000)
    whole, first, _ = pose(np, np.random.default_rng(seed))
    cut, second, _ = pose(np, np.random.default_rng(seed), size=size)
    for _ in range(5):
        first, second = descent.step(whole, first), descent.step(cut, second)

    np.testing.assert_allclose(second.Omega, first.Omega, atol=1e-8)
    np.testing.assert_allclose(second.W, first.W, atol=1e-8)


@pytest.mark.bits
def test_threads_give_the_same_bits_as_one_after_the_other(rng):
    seed = rng.integers(1000)
    serial, first, _ = pose(np, np.random.default_rng(seed), size=5)
    with threads(5) as walk:
        threaded, second, _ = pose(np, np.random.default_rng(seed), size=5, walk=walk)
        for _ in range(4):
            first, second = descent.step(serial, first), descent.step(threaded, second)

    np.testing.assert_array_equal(second.Omega, first.Omega)
    np.testing.assert_array_equal(second.W, first.W)


def test_a_weight_counts_as_copies(rng):
    weight = np.array([2, 0, 1, 3] * 6).astype(float)
    P, Y = unit_rows(rng.standard_normal((24, 3, 6))), np.eye(3)[np.arange(24) % 3]
    Omega = unit_rows(rng.standard_normal((5, 6)))
    copies = np.repeat(np.arange(24), weight.astype(int))

    def learn(P, Y, weight):
        problem = descent.pose(chunks_of(np, P, Y, 24, weight), SerialWalk(), LAMS)
        state = descent.start(problem, Omega)
        for _ in range(4):
            state = descent.step(problem, state)
        return state

    weighted, copied = learn(P, Y, weight), learn(P[copies], Y[copies], None)

    np.testing.assert_allclose(weighted.Omega, copied.Omega, atol=1e-9)
    np.testing.assert_allclose(weighted.W, copied.W, atol=1e-9)


def test_float32_descends_too_and_lands_where_float64_does(rng):
    P, Y = unit_rows(rng.standard_normal((60, 4, 16))), np.eye(4)[np.arange(60) % 4]
    Omega = unit_rows(rng.standard_normal((6, 16)))

    def learn(dtype):
        problem = descent.pose(chunks_of(np, P.astype(dtype), Y.astype(dtype), 20), SerialWalk(), LAMS)
        state = descent.start(problem, Omega.astype(dtype))
        for _ in range(10):
            state = descent.step(problem, state)
        return np.array(state.trace), state

    (narrow, small), (wide, large) = learn(np.float32), learn(np.float64)

    assert (np.diff(narrow) <= 1e-6 * narrow[:-1]).all()
    np.testing.assert_allclose(narrow, wide, rtol=1e-5)
    np.testing.assert_allclose(small.Omega, large.Omega, atol=1e-4)


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


@pytest.mark.parametrize("lam1", [0.0, 0.02, 0.3], ids=["dense", "usual", "sparse"])
def test_split_codes_descend_like_signed_ones(xp, rng, lam1):
    lams = (lam1, 0.5, 0.1, 0.1)
    problem, state, (P, Y) = pose(xp, rng, size=10, lams=lams, split=True)
    for _ in range(12):
        state = descent.step(problem, state)

    trace, U = np.array(state.trace), all_codes(state)
    A = P @ fetch(state.Omega).T
    gaps = np.concatenate([np.maximum(A, 0), np.maximum(-A, 0)], axis=-1) - U
    errors = Y - U.reshape(24, -1) @ fetch(state.W).T
    ridges = 0.1 * np.sum(fetch(state.W) ** 2) + 0.1 * np.sum(fetch(state.Omega) ** 2)
    true = 0.5 * np.sum(gaps**2) + lam1 * np.sum(U) + 0.25 * np.sum(errors**2) + 0.5 * ridges
    assert (U >= 0).all()
    assert (np.diff(trace) <= 1e-9 * np.abs(trace[:-1])).all()
    assert true <= trace[-1] * (1 + 1e-9)  # after the atoms the trace has the bound that they minimise


def test_a_pass_from_ahead_that_would_rise_is_made_again_from_where_the_last_ended(rng):
    problem, state, _ = pose(np, rng)
    for _ in range(3):
        state = descent.step(problem, state)
    astray = state._replace(ahead=(-state.Omega, 50 * state.W))

    found = descent.step(problem, astray)

    assert found.trace[-3] <= state.trace[-1]
    plain = descent.step(problem, state._replace(momentum=1.0))
    np.testing.assert_array_equal(found.Omega, plain.Omega)


def test_scales_of_atoms_leave_the_scores_as_they_are(rng):
    problem, state, _ = pose(np, rng)
    state = descent.step(problem, state)
    before = np.concatenate(list(state.codes)).reshape(24, -1)
    W = state.W * np.tile(state.scale, 3)
    assert np.abs(state.scale - 1).max() > 0.01
    np.testing.assert_allclose(all_codes(state).reshape(24, -1) @ state.W.T, before @ W.T, atol=1e-12)


def test_a_model_whose_ridges_leave_nothing_of_it_dies_in_peace(rng, monkeypatch):
    """Atoms on their way to zero once came back at a scale of 1e28, and the objective rose a hundredfold."""
    monkeypatch.setattr(descent, "solved_exactly", lambda *shape: False)
    P, Y = (x.astype(np.float32) for x in (rng.random((28, 1, 16)), np.eye(4)[np.arange(28) % 4] - 0.25))
    problem = descent.pose(chunks_of(np, P, Y, 28), SerialWalk(), (0.08, 0.004, 23.0, 0.0))
    state = descent.start(problem, unit_rows(rng.standard_normal((25, 16))).astype(np.float32))
    for _ in range(30):
        state = descent.step(problem, state)

    trace = np.array(state.trace)
    assert (np.diff(trace) <= 1e-6 * trace[:-1]).all()
    assert not np.any(state.W)  # no code is left that a classifier could read


@pytest.mark.parametrize("split", [False, True], ids=["signed", "split"])
def test_images_that_weigh_nothing_keep_finite_codes_while_atoms_die(rng, monkeypatch, split):
    monkeypatch.setattr(descent, "solved_exactly", lambda *shape: False)
    weight = np.where(np.arange(63) % 9 == 0, 0.0, 10.0 ** rng.uniform(-2, 2, 63)).astype(np.float32)
    P, Y = unit_rows(rng.random((63, 9, 4))), np.eye(2)[np.arange(63) % 2] - 0.5
    chunks = chunks_of(np, P.astype(np.float32) / 3, Y.astype(np.float32), 63, weight)
    problem = descent.pose(chunks, SerialWalk(), (7e-3, 0.08, 2e-3, 12.0), split)
    state = descent.start(problem, unit_rows(rng.standard_normal((37, 4))).astype(np.float32))
    for _ in range(40):
        state = descent.step(problem, state)

    assert np.isfinite(state.trace).all()
    assert np.abs(all_codes(state)).max() < 10


@pytest.mark.parametrize("seed", range(24))
def test_odd_settings_descend_too(monkeypatch, seed):
    """λ over many decades, few images, blank ones, any weights, both precisions and kinds of codes."""
    rng = np.random.default_rng(seed)
    exact, split = (bool(rng.integers(2)) for _ in range(2))
    dtype, slack = [(np.float64, 1e-9), (np.float32, 2e-6)][rng.integers(2)]
    monkeypatch.setattr(descent, "solved_exactly", lambda *shape: exact)
    n, p, d, m, C = rng.integers((2, 1, 1, 1, 2), (60, 6, 20, 25, 8))
    lam1, lam2, lam3, lam4 = (float(10**x) for x in rng.uniform((-5, -3, -4, -5), (0.5, 2, 2, 2)))
    P = unit_rows(rng.standard_normal((n, p, d))) * (rng.random((n, 1, 1)) < 0.8)
    Y = np.eye(C)[rng.integers(0, C, n)] - 1 / C
    weight = [None, 10 ** rng.uniform(-2, 2, n) * (rng.random(n) < 0.8)][rng.integers(2)]
    chunks = chunks_of(np, P.astype(dtype), Y.astype(dtype), int(rng.integers(1, n + 1)), weight)
    problem = descent.pose(chunks, SerialWalk(), (lam1, lam2, lam3, lam4), split)
    state = descent.start(problem, unit_rows(rng.standard_normal((m, d))).astype(dtype))
    for _ in range(15):
        state = descent.step(problem, state)

    trace = np.array(state.trace)
    assert (np.diff(trace) <= slack * (trace[:-1] + 0.01 * trace[0])).all()
    assert np.linalg.norm(state.Omega, axis=1).max() <= 1 + 1e-5
