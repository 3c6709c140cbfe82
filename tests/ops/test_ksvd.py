"""K-SVD's sweep against its plain loop, and the replacement of atoms."""

import numpy as np
import pytest

from dcadl.arrays import fetch
from dcadl.ops import ksvd
from dcadl.ops.patches import unit_rows


def plain_sweep(Y, X, D):
    """Each atom on its own: residual without it, restricted to its users, one power step."""
    X, D = X.copy(), D.copy()
    for j in range(len(D)):
        users = np.flatnonzero(X[:, j])
        if len(users) == 0:
            continue
        E = Y[users] - X[users] @ D + np.outer(X[users, j], D[j])
        d = E.T @ X[users, j]
        D[j] = d / np.linalg.norm(d)
        X[users, j] = E @ D[j]
    return X, D


@pytest.fixture
def case(rng):
    Y, D = rng.standard_normal((40, 9)), unit_rows(rng.standard_normal((13, 9)))
    X = rng.standard_normal((40, 13)) * (rng.random((40, 13)) < 0.3)
    X[:, 4] = 0  # an atom that nobody uses
    return Y, X, D


@pytest.mark.parametrize("group", [1, 5, 32])
def test_a_sweep_in_groups_is_the_sweep_one_by_one(xp, case, group, monkeypatch):
    Y, X, D = case
    monkeypatch.setattr(ksvd, "GROUP", group)

    R, new_X, new_D = (fetch(a) for a in ksvd.refit_atoms(*(xp.asarray(a) for a in (Y - X @ D, X, D))))

    expected_X, expected_D = plain_sweep(Y, X, D)
    np.testing.assert_allclose(new_X, expected_X, atol=1e-10)
    np.testing.assert_allclose(new_D, expected_D, atol=1e-10)
    np.testing.assert_allclose(R, Y - expected_X @ expected_D, atol=1e-10)


def test_a_sweep_keeps_supports_and_never_raises_the_error(xp, case):
    Y, X, D = case
    R, new_X, new_D = (fetch(a) for a in ksvd.refit_atoms(*(xp.asarray(a) for a in (Y - X @ D, X, D))))
    assert np.sum(R**2) < np.sum((Y - X @ D) ** 2)
    np.testing.assert_array_equal(new_X[X == 0], 0)
    np.testing.assert_allclose(np.linalg.norm(new_D, axis=1), 1)


@pytest.fixture
def clean(rng):
    """Five well used, well separated atoms of six values, and ten samples."""
    return np.eye(6)[:5], rng.standard_normal((10, 6)), np.ones((10, 5)), np.arange(10.0)


def replaced(xp, D, Y, X, errors):
    return fetch(ksvd.replace_atoms(*(xp.asarray(a) for a in (D, Y, X, errors))))


def test_good_atoms_stay(xp, clean):
    np.testing.assert_array_equal(replaced(xp, *clean), clean[0])


def test_small_codes_are_use_all_the_same(xp, clean):
    D, Y, X, errors = clean
    np.testing.assert_array_equal(replaced(xp, D, Y, 1e-5 * X, errors), D)


def test_atoms_with_few_users_become_the_worst_coded_samples(xp, clean):
    D, Y, X, errors = clean
    X = X.copy()
    X[3:, 1] = 0
    X[:, 3] = 1e-9
    found = replaced(xp, D, Y, X, errors)
    np.testing.assert_allclose(found[[1, 3]], unit_rows(Y[[9, 8]]))
    np.testing.assert_array_equal(found[[0, 2, 4]], D[[0, 2, 4]])


def test_of_two_atoms_alike_one_goes_whatever_their_signs(xp, clean):
    D, Y, X, errors = clean
    D = D.copy()
    D[4] = -D[2]
    found = replaced(xp, D, Y, X, errors)
    np.testing.assert_allclose(found[2], unit_rows(Y[9:])[0])
    np.testing.assert_array_equal(found[4], D[4])


def test_a_zero_sample_never_becomes_an_atom(xp, clean):
    D, Y, X, errors = clean
    Y = Y.copy()
    Y[5:] = 0
    found = replaced(xp, D, Y, 0 * X, errors)
    np.testing.assert_allclose(found, unit_rows(Y[4::-1]))


def test_without_samples_to_take_the_atoms_stay(xp, clean):
    D, Y, X, errors = clean
    np.testing.assert_array_equal(replaced(xp, D, 0 * Y, 0 * X, errors), D)
