"""Probabilities: they sum to one, agree with the labels, are honest, and are kept in files."""

from __future__ import annotations

import json

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file
from sklearn.datasets import load_digits
from small_models import NAMES, small

import dcadl
from dcadl import DPL, PatchRidge
from dcadl.deploy.calibration import expected_calibration_error

AT_ONCE = [
    "DCADL",
    "LOOADL",
    "PatchRidge",
    "RandomAtoms",
]  # their fit knows what it says of an image left out


@pytest.mark.parametrize("name", NAMES)
def test_every_method_gives_probabilities_that_agree_with_its_labels(digits, name):
    X, y = digits
    model = small(name).fit(X[:120], y[:120]).calibrate(X[120:300], y[120:300])

    found = model.predict_proba(X[300:])

    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_array_equal(model.classes_[found.argmax(axis=1)], model.predict(X[300:]))


@pytest.mark.parametrize("name", AT_ONCE)
def test_some_methods_need_no_images_held_out(fitted, digits, name):
    assert fitted[name].predict_proba(digits[0][:5]).shape == (5, 10)


@pytest.mark.parametrize("name", sorted(set(NAMES) - set(AT_ONCE)))
def test_the_others_have_no_probabilities_before_they_are_calibrated(fitted, name):
    assert not hasattr(fitted[name], "predict_proba")


@pytest.mark.parametrize(
    "model", [PatchRidge(patch_shape=4, stride=2), dcadl.RandomAtoms(patch_shape=4, random_state=0)]
)
def test_left_out_scores_are_as_honest_as_images_held_out(model):
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))  # others wrote the last of them
    X, y = digits.images[order].astype(np.float32), digits.target[order]
    model.fit(X[:900], y[:900])

    found = model.predict_proba(X[900:])
    at_once = expected_calibration_error(found.max(axis=1), model.predict(X[900:]) == y[900:])
    temperature = model.temperature_

    assert at_once < 0.06
    assert temperature == pytest.approx(model.calibrate(X[900:], y[900:]).temperature_, rel=0.35)


def test_folds_of_the_training_data_serve_as_well(digits):
    X, y = digits
    model = DPL(n_atoms=4, max_iter=3, random_state=0).fit(X[:300], y[:300])
    before = model.decision_function(X)

    folds = model.calibrate(X[:300], y[:300], cv=3).temperature_

    np.testing.assert_array_equal(model.decision_function(X), before)
    assert folds == pytest.approx(model.calibrate(X[300:], y[300:]).temperature_, rel=0.5)


def test_two_classes_have_two_probabilities(digits):
    X, y = digits
    model = PatchRidge().fit(X[:200], y[:200] > 4)
    found = model.predict_proba(X[200:])
    assert found.shape == (len(X) - 200, 2)
    np.testing.assert_array_equal(found[:, 1] > found[:, 0], model.decision_function(X[200:]) > 0)


def test_a_refit_forgets_the_temperature(digits):
    X, y = digits
    model = DPL(n_atoms=4, max_iter=2).fit(X[:200], y[:200]).calibrate(X[200:], y[200:])
    assert not hasattr(model.fit(X[:200], y[:200]), "temperature_")


def test_unknown_labels_and_lengths_are_refused(fitted, digits):
    with pytest.raises(ValueError, match=r"y must hold the model's classes; got \[99\]"):
        fitted["DPL"].calibrate(digits[0][:2], [1, 99])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        fitted["DPL"].calibrate(digits[0][:3], [1, 2])


def test_the_temperature_is_kept_in_the_file(fitted, digits, tmp_path):
    model, X = fitted["PatchRidge"], digits[0][:20]
    model.save(tmp_path / "m")
    np.testing.assert_array_equal(dcadl.load(tmp_path / "m").predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize("temperature", [0, -1.0, "warm", None, 1e300, True])
def test_a_temperature_that_is_none_is_refused(fitted, tmp_path, temperature):
    path = tmp_path / "m"
    fitted["PatchRidge"].save(path)
    with safe_open(path, framework="numpy") as file:
        header = json.loads(file.metadata()["dcadl"])
        arrays = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    save_file(arrays, path, metadata={"dcadl": json.dumps(header | {"temperature": temperature})})
    with pytest.raises(ValueError, match="temperature must"):
        dcadl.load(path)


def test_a_file_without_a_temperature_gives_a_model_that_can_be_calibrated(fitted, digits, tmp_path):
    fitted["DPL"].save(tmp_path / "m")
    model = dcadl.load(tmp_path / "m")
    assert not hasattr(model, "predict_proba")
    assert model.calibrate(digits[0][120:], digits[1][120:]).predict_proba(digits[0][:2]).shape == (2, 10)
