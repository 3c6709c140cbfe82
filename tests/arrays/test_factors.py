"""Factors of positive definite matrices: solutions, and diagonals and forms of inverses."""

from __future__ import annotations

import numpy as np
import pytest

from dcadl.arrays import SpdFactor, fetch


@pytest.fixture
def system(rng):
    A = rng.standard_normal((9, 12))
    return A @ A.T + 0.1 * np.eye(9), rng.standard_normal((9, 2)), rng.standard_normal((5, 9))


def test_a_factor_solves_and_knows_forms_of_the_inverse(xp, system):
    A, B, F = system
    factor = SpdFactor(xp.asarray(A.copy()))

    products, forms = factor.forms(xp.asarray(F.copy()), xp.asarray(B))

    np.testing.assert_allclose(fetch(factor.solve(xp.asarray(B))), np.linalg.solve(A, B), atol=1e-10)
    np.testing.assert_allclose(fetch(products), F @ np.linalg.solve(A, B), atol=1e-10)
    np.testing.assert_allclose(fetch(forms), np.diag(F @ np.linalg.inv(A) @ F.T), atol=1e-10)


def test_a_factor_knows_the_diagonal_of_the_inverse(xp, system):
    A, _, _ = system
    found = SpdFactor(xp.asarray(A.copy())).inverse_diagonal()
    np.testing.assert_allclose(fetch(found), np.diag(np.linalg.inv(A)), atol=1e-10)


def test_on_the_host_it_takes_no_memory_of_its_own(system):
    A = system[0].copy()
    factor = SpdFactor(A)
    assert np.shares_memory(factor.L, A)
    assert not np.allclose(A, system[0])


def test_a_matrix_that_is_not_positive_definite_is_said_to_be():
    with pytest.raises(np.linalg.LinAlgError, match="positive definite"):
        SpdFactor(np.diag([1.0, -1.0]))
