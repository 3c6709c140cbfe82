"""The ridge classifier on codes: every way leads to the same W, and its λ is the one of leave-one-out."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from dcadl.arrays import fetch
from dcadl.ops.closed_form import ridge
from dcadl.ops.patches import unit_rows
from dcadl.solvers import code_ridge as module
from dcadl.solvers import descent, ridge_steps
from dcadl.solvers.code_ridge import code_ridge, leave_one_out_error
from dcadl.solvers.walk import Chunk, SerialWalk

WAYS = {  # images side by side, features that may be squared
    "all images": (100, 100),
    "summed up": (10, 100),
    "conjugate gradients": (10, 5),
    "conjugate gradients, few judges": (5, 5),
}


@pytest.fixture(params=WAYS)
def way(request, monkeypatch):
    """Limits under which sixty images of twelve features take one of the ways."""
    few, largest = WAYS[request.param]
    monkeypatch.setattr(module, "FEW_IMAGES", few)
    monkeypatch.setattr(module, "JUDGES", 2 * few)
    return largest


def images(rng, n=60, p=3, m=4, C=3):
    """Codes that tell a little of the class, labels of zero mean and weights, one of them zero."""
    numbers = np.arange(n) % C
    U = rng.standard_normal((n, p, m)) + 0.5 * rng.standard_normal((C, p, m))[numbers]
    return U, np.eye(C)[numbers] - 1 / C, np.append(0.0, 0.5 + rng.random(n - 1))


def chunks_of(xp, U, Y, weight=None, size=13):
    def cut(A, i):
        return None if A is None else xp.asarray(A[i : i + size])

    return [Chunk(partial(cut, U, i), cut(Y, i), cut(weight, i)) for i in range(0, len(U), size)]


def fit(xp, U, Y, weight=None, lam=None, largest=100, code=lambda P: P):
    chunks = chunks_of(xp, U, Y, weight)
    return code_ridge(chunks, SerialWalk(), code, U.shape[1] * U.shape[2], lam, largest)


def relative_residual(F, Y, W, lam, weight=None):
    s = np.ones((len(F), 1)) if weight is None else weight[:, None]
    target = F.T @ (s * Y)
    return np.linalg.norm(target - F.T @ (s * (F @ W.T)) - lam * W.T) / np.linalg.norm(target)


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_no_way_leaves_a_residual(xp, rng, way, weighted):
    U, Y, weight = images(rng)
    s = weight if weighted else None

    found = fit(xp, U, Y, s, lam=0.3, largest=way)

    assert relative_residual(U.reshape(60, -1), Y, fetch(found.W), 0.3, s) < 1e-6


def test_float32_codes_leave_none_either(rng, way):
    U, Y, _ = images(rng)
    U = (U + 3).astype(np.float32)  # far from zero mean, where float32 sums would lose the digits

    found = fit(np, U, Y.astype(np.float32), lam=1e-3, largest=way)

    F = U.reshape(60, -1).astype(np.float64)
    assert relative_residual(F, Y.astype(np.float32), found.W, 1e-3) < 1e-6


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_judged_images_are_scored_by_the_classifier_without_them(xp, rng, weighted):
    U, Y, weight = images(rng)
    weight = weight if weighted else np.ones(60)

    found = fit(xp, U, Y, weight, lam=0.3)

    F = U.reshape(60, -1)
    used = np.flatnonzero(weight)
    for i, left_out in zip(used, found.left_out, strict=True):
        others = np.arange(60) != i
        W = ridge(F[others], Y[others], 0.3, weight[others])
        np.testing.assert_allclose(left_out, F[i] @ W, atol=1e-9)
    np.testing.assert_allclose(found.weight, weight[used])
    np.testing.assert_allclose(found.Y, Y[used])


def test_copies_are_left_out_together(rng):
    U, Y, _ = images(rng)
    counts = 1 + np.arange(60) % 3
    copies = np.repeat(np.arange(60), counts)

    weighted, copied = fit(np, U, Y, counts.astype(float)), fit(np, U[copies], Y[copies])

    assert copied.lam == pytest.approx(weighted.lam)
    np.testing.assert_allclose(copied.W, weighted.W, atol=1e-10)
    np.testing.assert_allclose(copied.left_out, weighted.left_out, atol=1e-10)


def test_images_that_differ_where_few_look_are_no_copies(xp, rng, monkeypatch):
    monkeypatch.setattr(module, "SEEN", 2)  # the first value and the last
    U, _, _ = images(rng)
    U[:, 0, 0] = U[:, -1, -1] = 1.0
    Y = np.tile([[1.0, -1.0]], (60, 1))  # and the labels are all alike
    copied = np.append(np.arange(60), [3, 3, 50])

    found = fit(xp, U[copied], Y[copied], lam=0.3)

    counts = np.bincount(copied).astype(float)
    np.testing.assert_allclose(found.weight, counts)
    np.testing.assert_allclose(found.left_out, fit(xp, U, Y, counts, lam=0.3).left_out, atol=1e-9)


def test_images_without_copies_are_visited_once(rng):
    U, Y, _ = images(rng)
    visits = []

    def patches(part):
        visits.append(part)
        return U[part]

    slices = [slice(i, i + 20) for i in (0, 20, 40)]
    chunks = [Chunk(partial(patches, part), Y[part], None) for part in slices]
    code_ridge(chunks, SerialWalk(), lambda P: P, 12, 0.3)
    assert visits == slices


def test_images_that_all_weigh_nothing_are_no_reason_to_fail(rng, monkeypatch):
    monkeypatch.setattr(module, "FEW_IMAGES", 10)
    monkeypatch.setattr(module, "JUDGES", 4)
    U, Y, _ = images(rng)
    weight = np.zeros(60)
    weight[1:13] = 1  # none of those that are judged
    assert np.isfinite(fit(np, U, Y, weight).W).all()


def test_of_many_images_some_are_left_out_of_all_of_them(rng, monkeypatch):
    monkeypatch.setattr(module, "FEW_IMAGES", 10)
    monkeypatch.setattr(module, "JUDGES", 20)
    U, Y, _ = images(rng)
    found = fit(np, U, Y, lam=0.3)

    F = U.reshape(60, -1)
    W = ridge(F[1:], Y[1:], 0.3)
    np.testing.assert_allclose(found.left_out[0], F[0] @ W, atol=1e-9)
    assert 20 <= len(found.left_out) < 60


def test_the_ridge_is_that_of_least_leave_one_out_error(rng):
    U, Y, weight = images(rng)
    found = fit(np, U, Y, weight)

    for lam in found.lam * 10.0 ** np.array([-1.0, -0.5, 0.5, 1.0]):
        assert fit(np, U, Y, weight, lam=lam).error > found.error
    error, _ = leave_one_out_error(chunks_of(np, U, Y, weight), SerialWalk(), lambda P: P, 12)
    assert error == pytest.approx(found.error)


def test_the_scale_of_codes_does_not_matter(rng, way):
    U, Y, weight = images(rng)
    found = fit(np, U, Y, weight, largest=way)
    scaled = fit(np, 100 * U, Y, weight, largest=way)
    assert scaled.lam == pytest.approx(1e4 * found.lam)
    np.testing.assert_allclose(100 * scaled.W, found.W, atol=1e-5 * np.abs(found.W).max())


def test_chunks_change_nothing_but_rounding(rng):
    U, Y, weight = images(rng)
    found = [code_ridge(chunks_of(np, U, Y, weight, size), SerialWalk(), lambda P: P, 12) for size in (7, 60)]
    assert found[0].lam == pytest.approx(found[1].lam)
    np.testing.assert_allclose(found[0].W, found[1].W, atol=1e-10)


def test_codes_that_are_all_zero_give_no_classifier_and_no_error(xp, way):
    found = fit(xp, np.zeros((60, 3, 4)), np.eye(3)[np.arange(60) % 3] - 1 / 3, largest=way)
    np.testing.assert_array_equal(fetch(found.W), np.zeros((3, 12)))


def test_equations_that_cannot_be_solved_are_said_to_be(rng, monkeypatch):
    monkeypatch.setattr(module, "FEW_IMAGES", 10)
    monkeypatch.setattr(module, "JUDGES", 20)
    monkeypatch.setattr(ridge_steps, "STEPS", 1)
    monkeypatch.setattr(ridge_steps, "RESTARTS", 1)
    U, Y, _ = images(rng)
    with pytest.warns(RuntimeWarning, match="a larger ridge"):
        fit(np, U, Y, lam=1e-6, largest=5)


def looked_at(xp, state, problem, looks, dead):
    """The state after so many looks, the last one at atoms of which so many are dead."""
    Omega = np.array(fetch(state.Omega))
    Omega[:dead] = 0.0
    passes = (1.0,) * (descent.BLOCKS * module.EVERY * looks)
    return module.judge_pass(problem, 1e-2, state._replace(Omega=xp.asarray(Omega), trace=passes))


@pytest.mark.parametrize("split", [False, True], ids=["signed", "split"])
def test_passes_are_over_where_atoms_die_that_lived_in_the_best_one(xp, rng, split):
    P, Y, _ = images(rng)
    problem = descent.pose(chunks_of(xp, P, Y), SerialWalk(), (0.01, 0.5, 0.1, 0.1), split)
    start = descent.start(problem, xp.asarray(unit_rows(rng.standard_normal((5, 4)))))

    first = looked_at(xp, start, problem, 1, dead=1)
    same = looked_at(xp, first, problem, 2, dead=1)
    fewer = looked_at(xp, first, problem, 2, dead=0)
    more = looked_at(xp, first, problem, 2, dead=2)

    assert first.best.dead == 1
    assert [module.settled(state) for state in (first, same, fewer, more)] == [False, False, False, True]
    np.testing.assert_array_equal(fetch(module.best_of(more).Omega), fetch(first.Omega))
    assert module.best_of(more).codes == ()  # they would lie beside those of the refit
