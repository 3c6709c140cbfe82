"""Numbers at the ends of their range: a clear ValueError, never a model that is as good as chance."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from small_models import NAMES, small

from dcadl import DCADL

every_method = pytest.mark.parametrize("name", NAMES)
WEIGHED = pytest.mark.parametrize("name", ["DCADL", "PatchRidge", "RandomAtoms"])
EXTREME = [1e-23, 1e19]
SCALE = pytest.mark.parametrize("scale", EXTREME)


@every_method
@SCALE
def test_images_whose_squares_are_no_numbers_are_not_fitted(digits, name, scale):
    X, y = digits
    with pytest.raises(ValueError, match=r"holds values up to .* scale"):
        small(name).fit(X[:120] * np.float32(scale), y[:120])


@every_method
@SCALE
def test_images_whose_squares_are_no_numbers_are_not_predicted(fitted, digits, name, scale):
    with pytest.raises(ValueError, match=r"holds values up to .* scale"):
        fitted[name].predict(digits[0][:9] * np.float32(scale))


@every_method
@pytest.mark.parametrize("scale", [1e-10, 1e10])
def test_images_of_any_ordinary_scale_are_fitted_and_predicted_without_overflow(digits, name, scale):
    X, y = digits[0][:120] * np.float32(scale), digits[1][:120]
    with np.errstate(over="raise", divide="raise"):
        scores = small(name).fit(X, y).decision_function(X)
    assert np.isfinite(scores).all()


@SCALE
def test_the_same_holds_on_disk(digits, tmp_path, scale):
    X, y = digits
    np.save(tmp_path / "x.npy", X[:120] * np.float32(scale))
    with pytest.raises(ValueError, match=r"holds values up to .* among images 0 to"):
        DCADL().fit(tmp_path / "x.npy", y[:120])


@every_method
def test_black_images_are_predicted(fitted, name):
    assert np.isfinite(fitted[name].decision_function(np.zeros((2, 8, 8), np.float32))).all()


@WEIGHED
@pytest.mark.parametrize("weight", [np.nan, np.inf, -1.0, 1e300, 1e-300])
def test_a_weight_that_no_sum_can_hold_is_refused(digits, name, weight):
    weights = np.where(np.arange(60) == 7, weight, 1.0)
    with pytest.raises(ValueError, match="sample_weight"):
        small(name).fit(digits[0][:60], digits[1][:60], sample_weight=weights)


@WEIGHED
@pytest.mark.parametrize("weight", [np.nan, np.inf, -1.0, 1e300, 1e-300])
def test_a_weight_of_a_class_that_no_sum_can_hold_is_refused(digits, name, weight):
    with pytest.raises(ValueError, match="class_weight"):
        small(name).set_params(class_weight={3: weight}).fit(digits[0][:60], digits[1][:60])


@pytest.mark.parametrize("weight", [np.nan, 1e300, 1e-300])
def test_the_same_holds_for_weights_of_data_on_disk(digits, tmp_path, weight):
    np.save(tmp_path / "x.npy", digits[0][:60])
    weights = np.where(np.arange(60) == 7, weight, 1.0)
    with pytest.raises(ValueError, match="sample_weight"):
        DCADL().fit(tmp_path / "x.npy", digits[1][:60], sample_weight=weights)


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("PatchRidge", {"lam": 1e-300}),
        ("RandomAtoms", {"lam": 1e-300}),
        ("DPL", {"gamma": 1e-300}),
        ("DPL", {"tau": 1e-300}),
        ("DADL", {"sigma": 1e-300}),
        ("DADL", {"sigma": 1e-30}),
        ("SADL", {"delta1": 1e-300}),
        ("DCADL", {"stride": np.inf}),
        ("DCADL", {"stride": 10**30}),
        ("DCADL", {"patch_shape": np.nan}),
        ("DCADL", {"max_iter": 2**63}),
        ("DCADL", {"max_iter": 10**400}),
        ("DCADL", {"max_memory": 10**400}),
        ("DCADL", {"solver": "paper", "lam3": 0}),
        ("DADL", {"lam3": 0}),
        ("LOOADL", {"tol": 10**400}),
        ("PatchRidge", {"lam": -(10**400)}),
        ("DCADL", {"lam2": 1e300}),
        ("LCKSVD", {"alpha": 1e-300}),
        ("ADLSVM", {"beta": 1e-300}),
    ],
)
def test_a_parameter_beyond_use_is_a_value_error(digits, name, params):
    with pytest.raises(ValueError, match=r"must|became|factor"):
        small(name).set_params(**params).fit(digits[0][:120], digits[1][:120])


def test_a_matrix_that_cannot_be_factored_is_a_value_error(digits, monkeypatch):
    def fails(*_):
        raise np.linalg.LinAlgError("not positive definite")

    monkeypatch.setattr("dcadl.estimators.controls.code_ridge", fails)
    with pytest.raises(ValueError, match=r"could not factor .* Raise the ridges"):
        small("PatchRidge").fit(*digits)


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("DCADL", {"lam2": 1e-6}),
        ("DPL", {"tau": 1e-12}),
        ("SADL", {"lam1": 1e6}),
        ("RandomAtoms", {"lam1": 1e6}),
    ],
)
def test_a_fit_that_learned_nothing_says_so(digits, name, params):
    with pytest.warns(UserWarning, match="learned nothing"):
        small(name).set_params(**params).fit(digits[0][:120], digits[1][:120])


@pytest.mark.parametrize("name", sorted({*NAMES} - {"ConvNet"}))  # that one learns nothing in two passes
def test_a_fit_that_learned_something_does_not(digits, name):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        small(name).fit(digits[0][:120], digits[1][:120])
    assert not [each for each in said if "learned nothing" in str(each.message)]
