"""ADLSVM: the machine inside is scikit-learn's, files keep its arrays, bad input is refused."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

import dcadl
from dcadl import ADLSVM


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:600], y[:600], X[600:900], y[600:900]


def small(**changes):
    return ADLSVM(**{"n_atoms": 48, "max_iter": 4, "tol": 0, "random_state": 0} | changes)


@pytest.mark.parametrize("penalty", ["l0", "l1"])
def test_digits_are_told_apart(digits, penalty):
    X, y, X_new, y_new = digits

    assert small(penalty=penalty).fit(X, y).score(X_new, y_new) > 0.8


def test_scores_are_those_of_a_support_vector_machine_on_the_codes(digits):
    X, y, X_new, _ = digits
    model = small().fit(X, y)
    seed = np.random.RandomState(0)
    seed.standard_normal((48, 64))

    svm = LinearSVC(C=10, random_state=seed.randint(2**31 - 1), max_iter=10_000).fit(model.transform(X), y)

    np.testing.assert_allclose(
        model.decision_function(X_new), svm.decision_function(model.transform(X_new)), atol=1e-8
    )


def test_codes_have_as_many_entries_as_asked(digits):
    X, y, X_new, _ = digits

    codes = small(sparsity=5).fit(X, y).transform(X_new)

    np.testing.assert_array_equal(np.count_nonzero(codes, axis=1), 5)


def test_atoms_have_unit_length_and_are_as_many_as_samples_unless_told(digits):
    X, y, *_ = digits

    atoms = small(n_atoms=None).fit(X[:80], y[:80]).atoms_

    assert atoms.shape == (80, 64)
    np.testing.assert_allclose(np.linalg.norm(atoms, axis=1), 1.0)


@pytest.mark.bits
@pytest.mark.parametrize("kinds", [2, 10])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_saved_model_predicts_the_same(digits, tmp_path, kinds, dtype):
    X, y, X_new, _ = digits
    model = small().fit(X[y < kinds].astype(dtype), y[y < kinds])
    model.save(tmp_path / "model.safetensors")

    again = dcadl.load(tmp_path / "model.safetensors")

    assert again.atoms_.dtype == again.coef_.dtype == dtype
    np.testing.assert_array_equal(
        again.decision_function(X_new.astype(dtype)), model.decision_function(X_new.astype(dtype))
    )


def test_too_few_passes_are_told(digits):
    X, y, *_ = digits

    with pytest.warns(ConvergenceWarning, match="ADLSVM ran all its 2 passes"):
        small(max_iter=2, tol=1e-12).fit(X, y)


@pytest.mark.parametrize(
    "wrong",
    [
        {"penalty": "l2"},
        {"sparsity": 0},
        {"n_atoms": 1.5},
        {"beta": 0},
        {"C": -1},
        {"lam1": -1},
        {"tol": np.nan},
    ],
    ids=str,
)
def test_a_wrong_parameter_is_named(digits, wrong):
    X, y, *_ = digits

    with pytest.raises(ValueError, match=f"{next(iter(wrong))} must be"):
        small(**wrong).fit(X, y)
