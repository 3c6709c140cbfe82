"""LC-KSVD's solver against K-SVD on the paper's full stack of samples, Q and labels."""

import numpy as np
import pytest

from dcadl.arrays import fetch
from dcadl.estimators.fitting import last_value
from dcadl.ops.patches import unit_rows
from dcadl.solvers import lcksvd
from dcadl.solvers.walk import SerialWalk

ALPHA, BETA, T = 0.3, 0.2, 4


@pytest.fixture
def case(rng):
    """Three classes of 14 samples with 8 values; 5, 5 and 4 atoms."""
    owner = np.repeat([0, 1, 2], 14)
    Y = unit_rows(rng.standard_normal((3, 8))[owner] + rng.standard_normal((42, 8)))
    return Y, np.eye(3)[owner], unit_rows(rng.standard_normal((14, 8))), np.array([5, 5, 4])


def passes(Y, D, count):
    return lcksvd.ksvd(lcksvd.pose(Y, T, SerialWalk()), D, count)


def full_stack(case, count):
    """[Y; √αQ; √βH] and [D; √αA; √βW], K-SVD, and the split with its rescaling, as the paper has it."""
    Y, H, D, shares = case
    Q = np.repeat(H, shares, axis=1)
    X = passes(Y, D, 2).X
    inverse = np.linalg.inv(X.T @ X + np.eye(len(D)))
    A, W = Q.T @ X @ inverse, H.T @ X @ inverse
    state = passes(
        np.hstack([Y, ALPHA**0.5 * Q, BETA**0.5 * H]),
        np.hstack([D, ALPHA**0.5 * A.T, BETA**0.5 * W.T]),
        count,
    )
    lengths = np.linalg.norm(state.D[:, :8], axis=1, keepdims=True)
    return state, state.D[:, :8] / lengths, (state.D[:, 8 + len(D) :] / lengths / BETA**0.5).T


@pytest.mark.parametrize("count", [1, 2, 4])
def test_labels_alone_give_what_the_full_stack_gives(xp, case, count):
    Y, H, D, shares = case
    weight = xp.asarray(np.sqrt(ALPHA * shares + BETA))
    plain = lcksvd.pose(xp.asarray(Y), T, SerialWalk())

    problem, state = lcksvd.attach_labels(plain, xp.asarray(H), xp.asarray(D), weight, 2)
    for _ in range(count):
        state = lcksvd.step(problem, state)
    atoms, W = (fetch(a) for a in lcksvd.detach_labels(state.D, weight))

    expected, expected_atoms, expected_W = full_stack(case, count)
    np.testing.assert_allclose(state.trace, expected.trace, rtol=1e-8)
    np.testing.assert_allclose(atoms, expected_atoms, atol=1e-7)
    np.testing.assert_allclose(W, expected_W, atol=1e-7)


def test_samples_in_a_basis_of_their_span_give_the_same_atoms(xp, rng):
    Y = xp.asarray(unit_rows(rng.standard_normal((20, 50))))
    coordinates, basis = lcksvd.in_span(Y)

    there = passes(coordinates, coordinates[:6, :], 3)

    here = passes(Y, Y[:6, :], 3)
    np.testing.assert_allclose(fetch(there.D @ basis), fetch(here.D), atol=1e-9)
    np.testing.assert_allclose(there.trace, here.trace)


def test_reported_objective_is_the_squared_residual(case):
    Y, _, D, _ = case
    problem = lcksvd.pose(Y, T, SerialWalk())
    state = passes(Y, D, 1)
    X = lcksvd.sparse_codes(Y, D, T, SerialWalk())
    assert state.trace[0] <= np.sum((Y - X @ D) ** 2)
    assert lcksvd.objective(problem, state)[-1] == last_value(state)


def test_codes_have_at_most_so_many_atoms(xp, case):
    Y, _, D, _ = case
    X = fetch(lcksvd.codes(xp.asarray(Y), xp.asarray(D), T))
    assert (X != 0).sum(axis=1).max() == T


def test_first_atoms_come_from_their_own_class(xp, rng):
    """Classes that live in different coordinates give atoms there."""
    parts = [rng.standard_normal((9, 6)) * ((np.arange(6) < 3) == side) for side in (True, False)]
    atoms = fetch(lcksvd.first_atoms([(xp.asarray(Y), 2) for Y in parts], 1, 3, SerialWalk()))
    np.testing.assert_allclose(atoms[:2, 3:], 0, atol=1e-12)
    np.testing.assert_allclose(atoms[2:, :3], 0, atol=1e-12)
