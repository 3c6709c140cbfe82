"""SADL's face: both solvers, linear scores, files, bad input."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

import dcadl
from dcadl import SADL


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:400], y[:400], X[400:700], y[400:700]


def small(**changes):
    return SADL(**{"n_atoms": 80, "max_iter": 5, "tol": 0, "random_state": 0} | changes)


@pytest.mark.parametrize("changes", [{}, {"solver": "admm", "max_iter": 60}], ids=["descent", "admm"])
def test_digits_are_told_apart_far_better_than_by_chance(digits, changes):
    X, y, X_new, y_new = digits

    assert small(**changes).fit(X, y).score(X_new, y_new) > 0.5  # by chance 0.1


def test_the_objective_falls_with_every_block(digits):
    X, y, *_ = digits

    seen = small().fit(X, y).objective_

    assert len(seen) == 20
    assert (np.diff(seen) <= 1e-9 * seen[:-1]).all()


def test_scores_are_the_classifier_on_the_structured_codes(digits):
    X, y, X_new, _ = digits
    model = small().fit(X, y)

    np.testing.assert_allclose(
        model.decision_function(X_new), model.transform(X_new) @ model.coef_.T, atol=1e-10
    )
    assert model.transform(X_new).shape == (300, 40)


@pytest.mark.bits
@pytest.mark.parametrize("solver", ["descent", "admm"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_saved_model_predicts_the_same(digits, tmp_path, solver, dtype):
    X, y, X_new, _ = digits
    model = small(solver=solver).fit(X.astype(dtype), y)
    model.save(tmp_path / "model.safetensors")

    again = dcadl.load(tmp_path / "model.safetensors")

    assert again.atoms_.dtype == again.structure_.dtype == again.coef_.dtype == dtype
    np.testing.assert_array_equal(again.decision_function(X_new), model.decision_function(X_new))


@pytest.mark.parametrize("solver", ["descent", "admm"])
def test_too_few_passes_are_told(digits, solver):
    X, y, *_ = digits

    with pytest.warns(ConvergenceWarning, match="SADL ran all its 2 passes"):
        small(solver=solver, max_iter=2, tol=1e-6).fit(X, y)


@pytest.mark.parametrize(
    "wrong",
    [
        {"solver": "sgd"},
        {"delta1": 0},
        {"gamma2": 0},
        {"lam1": -1},
        {"block_size": 0},
        {"normalize": "patch"},
    ],
    ids=str,
)
def test_a_wrong_parameter_is_named(digits, wrong):
    X, y, *_ = digits

    with pytest.raises(ValueError, match=f"{next(iter(wrong))} must be"):
        small(**wrong).fit(X, y)
