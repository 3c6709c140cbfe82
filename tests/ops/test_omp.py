"""Batch OMP against scikit-learn and against least squares on its own supports."""

import numpy as np
import pytest
from sklearn.linear_model import orthogonal_mp_gram

from dcadl.arrays import fetch
from dcadl.ops import omp
from dcadl.ops.patches import unit_rows


def pursue(xp, D, Y, sparsity):
    """Dense codes (n, K)."""
    D, Y = xp.asarray(D), xp.asarray(Y)
    codes = omp.batch_omp(D @ D.T, Y @ D.T, xp.vecdot(Y, Y), sparsity)
    return fetch(omp.dense_codes(codes, D.shape[0]))


@pytest.fixture
def case(rng):
    return unit_rows(rng.standard_normal((24, 16))), rng.standard_normal((50, 16))


@pytest.mark.parametrize("sparsity", [1, 2, 7])
def test_codes_are_those_of_scikit_learn(xp, case, sparsity):
    D, Y = case
    expected = orthogonal_mp_gram(D @ D.T, D @ Y.T, n_nonzero_coefs=sparsity).T
    np.testing.assert_allclose(pursue(xp, D, Y, sparsity), expected, atol=1e-10)


def test_atoms_need_not_have_unit_length(xp, case):
    D, Y = case
    found = pursue(xp, 3 * D, Y, 5)
    np.testing.assert_allclose(3 * found, pursue(xp, D, Y, 5), atol=1e-10)


def test_the_residual_is_orthogonal_to_the_chosen_atoms(xp, case):
    D, Y = case
    X = pursue(xp, D, Y, 6)
    correlations = (Y - X @ D) @ D.T
    np.testing.assert_allclose(correlations[X != 0], 0, atol=1e-10)
    assert ((X != 0).sum(axis=1) == 6).all()


def test_a_sample_made_of_two_orthogonal_atoms_takes_no_third(xp):
    D = np.eye(5)
    X = pursue(xp, D, np.array([[0, 3.0, 0, -1, 0]]), 4)
    np.testing.assert_array_equal(X, [[0, 3, 0, -1, 0]])


def test_each_sample_stops_by_itself(xp, case):
    D, Y = case
    Y = np.concatenate([2 * D[:3], np.zeros((1, 16)), Y[:3]])
    X = pursue(xp, D, Y, 4)
    np.testing.assert_array_equal((X != 0).sum(axis=1), [1, 1, 1, 0, 4, 4, 4])
    np.testing.assert_allclose(X[:3] @ D, Y[:3], atol=1e-12)


def test_doubled_atoms_do_no_harm(xp, case):
    D, Y = case
    X = pursue(xp, np.concatenate([D[:6], D[:6]]), Y, 12)
    best = Y @ np.linalg.pinv(D[:6]) @ D[:6]
    np.testing.assert_allclose(X @ np.concatenate([D[:6], D[:6]]), best, atol=1e-8)


def test_asking_for_more_atoms_than_values_ends_at_a_perfect_fit(xp, case):
    D, Y = case
    X = pursue(xp, D, Y, 24)
    np.testing.assert_allclose(X @ D, Y, atol=1e-6)
    assert (X != 0).sum(axis=1).max() <= 16


def test_the_cut_into_chunks_does_not_show(xp, case, monkeypatch):
    D, Y = case
    whole = pursue(xp, D, Y, 5)
    monkeypatch.setattr(omp, "CACHE_BYTES", 1)
    np.testing.assert_allclose(pursue(xp, D, Y, 5), whole, atol=1e-12)


def test_single_precision_stays_single_and_close(case):
    D, Y = (a.astype(np.float32) for a in case)
    codes = omp.batch_omp(D @ D.T, Y @ D.T, np.vecdot(Y, Y), 5)
    assert codes.value.dtype == np.float32
    double = orthogonal_mp_gram((D @ D.T).astype(float), (D @ Y.T).astype(float), n_nonzero_coefs=5).T
    np.testing.assert_allclose(omp.dense_codes(codes, len(D)), double, atol=1e-4)
