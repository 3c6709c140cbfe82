"""The descending solver: slopes, descent of every block, and chunks that do not matter."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from dcadl.arrays import fetch
from dcadl.ops.closed_form import ridge
from dcadl.ops.patches import unit_rows
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
