"""Analysis dictionary learning: exact codes, least-squares atoms, and atoms that nobody uses."""

from __future__ import annotations

import numpy as np
import pytest

from dcadl.arrays import fetch
from dcadl.ops.codes import soft_threshold
from dcadl.ops.patches import unit_rows
from dcadl.ops.threshold import hard_threshold
from dcadl.solvers import adl


def posed(xp, n, d, sparsify, lam1=0.0):
    Y = unit_rows(np.random.default_rng(1).standard_normal((n, d)))
    return adl.pose(xp.asarray(Y), sparsify, lam1, 0.2), Y


def atoms(m, d):
    return unit_rows(np.random.default_rng(2).standard_normal((m, d)))


@pytest.mark.parametrize(("n", "d"), [(20, 7), (9, 15)], ids=["many samples", "many values"])
def test_a_pass_is_thresholding_then_ridge_then_unit_length(xp, n, d):
    problem, Y = posed(xp, n, d, lambda A: hard_threshold(A, 3))
    Omega = atoms(6, d)

    state = adl.step(problem, adl.start(problem, xp.asarray(Omega)))

    X = Y @ Omega.T
    for row in X:
        row[np.argsort(-np.abs(row))[3:]] = 0
    ridge = X.T @ Y @ np.linalg.inv(Y.T @ Y + 0.2 * np.eye(d))
    np.testing.assert_allclose(fetch(state.Omega), unit_rows(ridge), atol=1e-9)
    value = 0.5 * np.sum((X - Y @ Omega.T) ** 2) + 0.1 * np.sum(Omega**2)
    np.testing.assert_allclose(state.trace, [value])


def test_soft_thresholded_codes_leave_no_lower_objective_nearby(xp, rng):
    problem, Y = posed(xp, 12, 5, lambda A: soft_threshold(A, 0.1), lam1=0.1)
    Omega = atoms(6, 5)
    best = adl.step(problem, adl.start(problem, xp.asarray(Omega))).trace[-1]

    X = fetch(soft_threshold(xp.asarray(Y @ Omega.T), 0.1))
    for _ in range(50):
        other = X + 0.05 * rng.standard_normal(X.shape)
        value = 0.5 * np.sum((other - Y @ Omega.T) ** 2) + 0.1 * np.abs(other).sum() + 0.1 * np.sum(Omega**2)
        assert value >= best


def test_an_atom_that_no_code_uses_becomes_a_sample(xp):
    problem, Y = posed(xp, 20, 7, lambda A: hard_threshold(A, 2))
    Omega = np.concatenate([atoms(5, 7), np.zeros((1, 7))])  # its responses are never among the largest

    moved = fetch(adl.step(problem, adl.start(problem, xp.asarray(Omega))).Omega)

    assert np.abs(Y @ moved[-1]).max() == pytest.approx(1.0)


def test_the_sample_that_fits_worst_comes_first(xp):
    Y, misfit = np.eye(4), np.array([0.1, 0.9, 0.5, 0.2])
    Omega = np.array([[0.0] * 4, [1.0, 0, 0, 0], [0.0] * 4])

    revived = fetch(adl._revived(*(xp.asarray(a) for a in (Omega, Y, misfit))))

    np.testing.assert_array_equal(revived, Y[[1, 0, 2]])


def test_a_short_atom_is_not_dead(xp, rng):
    Omega = 1e-6 * unit_rows(rng.standard_normal((3, 4)))

    revived = adl._revived(*(xp.asarray(a) for a in (Omega, np.eye(4), np.ones(4))))

    np.testing.assert_array_equal(fetch(revived), Omega)


def test_atoms_end_with_the_rank_that_the_samples_allow(xp):
    problem, _ = posed(xp, 20, 7, lambda A: hard_threshold(A, 4))
    Omega = np.repeat(atoms(2, 7), 4, axis=0)  # eight atoms, two directions

    moved = fetch(adl.step(problem, adl.start(problem, xp.asarray(Omega))).Omega)

    assert np.linalg.matrix_rank(moved) == 7
