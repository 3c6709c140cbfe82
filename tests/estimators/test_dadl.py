"""DADL's face: nearest codes, with and without the threshold, files, memory of shapes, bad input."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier

import dcadl
from dcadl import DADL


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:400], y[:400], X[400:700], y[400:700]


@pytest.mark.parametrize("threshold", [False, True])
def test_digits_get_the_class_of_the_nearest_code(digits, threshold):
    X, y, X_new, y_new = digits
    model = DADL(threshold=threshold).fit(X, y)

    nearest = KNeighborsClassifier(1, algorithm="brute").fit(model.transform(X), y)

    np.testing.assert_array_equal(model.predict(X_new), nearest.predict(model.transform(X_new)))
    assert model.score(X_new, y_new) > 0.75


def test_only_the_threshold_limits_the_entries_of_codes(digits):
    X, y, X_new, _ = digits
    cut, plain = (DADL(threshold=threshold).fit(X, y) for threshold in (True, False))

    np.testing.assert_array_equal(np.count_nonzero(cut.transform(X_new), axis=1), cut.sparsity_)
    assert np.count_nonzero(plain.transform(X_new), axis=1).min() > cut.sparsity_
    np.testing.assert_array_equal(cut.atoms_, plain.atoms_)


def test_the_objective_falls_with_every_pass(digits):
    X, y, *_ = digits

    seen = DADL(sigma=1.0).fit(X, y).objective_

    assert len(seen) == 6
    assert (np.diff(seen) <= 1e-9 * seen[:-1]).all()


def test_the_order_of_samples_does_not_matter(digits):
    X, y, *_ = digits
    order = np.random.default_rng(0).permutation(len(X))

    shuffled = DADL().fit(X[order], y[order])

    np.testing.assert_allclose(shuffled.atoms_, DADL().fit(X, y).atoms_, atol=1e-8)


def test_more_classes_than_the_published_codes_reach_are_fitted_all_the_same(rng):
    y = np.repeat(np.arange(12), 4)
    X = np.stack([np.cos(y / 2), np.sin(y / 2)], axis=1) + 0.01 * rng.standard_normal((48, 2))

    assert DADL().fit(X, y).score(X, y) == 1.0


def test_images_and_rows_give_the_same_model(digits):
    X, y, X_new, _ = digits
    folded = DADL().fit(X.reshape(-1, 8, 8), y)

    np.testing.assert_array_equal(folded.predict(X_new.reshape(-1, 8, 8)), DADL().fit(X, y).predict(X_new))


@pytest.mark.bits
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_saved_model_predicts_the_same(digits, tmp_path, dtype):
    X, y, X_new, _ = digits
    model = DADL().fit(X.astype(dtype), y)
    model.save(tmp_path / "model.safetensors")

    again = dcadl.load(tmp_path / "model.safetensors")

    assert again.atoms_.dtype == again.codes_.dtype == dtype
    np.testing.assert_array_equal(again.predict(X_new), model.predict(X_new))


@pytest.mark.parametrize(
    "wrong",
    [{"lam3": 0}, {"sigma": 0}, {"lam1": -1}, {"n_neighbors": 0}, {"threshold": "yes"}, {"inner_iter": 1.5}],
    ids=str,
)
def test_a_wrong_parameter_is_named(digits, wrong):
    X, y, *_ = digits

    with pytest.raises(ValueError, match=f"{next(iter(wrong))} must be"):
        DADL(**wrong).fit(X, y)
