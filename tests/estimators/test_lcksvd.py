"""LCKSVD as users meet it."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_digits

import dcadl
from dcadl import LCKSVD

SMALL = {"n_atoms": 60, "sparsity": 4, "alpha": 0.01, "beta": 0.05, "init_iter": 3, "max_iter": 3}


@pytest.fixture(scope="module")
def digits():
    bunch = load_digits()
    return bunch.images[:500] / 16, bunch.target[:500]


@pytest.fixture(scope="module")
def model(digits):
    X, y = digits
    return LCKSVD(**SMALL).fit(X[:400], y[:400])


@pytest.mark.parametrize("variant", [1, 2])
def test_tells_most_digits_apart(digits, variant):
    X, y = digits
    assert LCKSVD(variant=variant, **SMALL).fit(X[:400], y[:400]).score(X[400:], y[400:]) > 0.8


def test_atoms_are_shared_out_evenly_and_have_unit_length(model):
    np.testing.assert_array_equal(np.bincount(model.atom_classes_), 6)
    np.testing.assert_allclose(np.linalg.norm(model.atoms_, axis=1), 1)


def test_codes_use_at_most_the_given_number_of_atoms(model, digits):
    codes = model.transform(digits[0])
    assert codes.shape == (500, 60)
    assert (codes != 0).sum(axis=1).max() == 4


def test_scores_are_a_linear_function_of_the_codes(model, digits):
    X = digits[0]
    np.testing.assert_allclose(model.decision_function(X), model.transform(X) @ model.coef_.T, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_attributes_keep_the_precision_of_the_data(digits, dtype):
    X, y = digits
    model = LCKSVD(**SMALL).fit(X.astype(dtype), y)
    assert {model.atoms_.dtype, model.coef_.dtype, model.transform(X.astype(dtype)).dtype} == {
        np.dtype(dtype)
    }


@pytest.mark.parametrize("n_atoms", [60, 200])
def test_as_many_atoms_as_samples_or_more_warns_and_works(digits, n_atoms):
    X, y = digits[0][:60], np.arange(60) % 10
    with pytest.warns(UserWarning, match="no more samples than atoms"):
        model = LCKSVD(**{**SMALL, "n_atoms": n_atoms}).fit(X, y)
    assert len(model.atoms_) == 60
    assert np.isfinite(model.decision_function(X)).all()


def test_fewer_atoms_than_samples_does_not_warn(digits):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LCKSVD(**SMALL).fit(*digits)


def test_fewer_atoms_than_classes_are_refused(digits):
    with pytest.raises(ValueError, match="number of classes, 10; got 9"):
        LCKSVD(n_atoms=9).fit(*digits)


def test_a_class_of_black_images_only_is_refused(digits):
    X, y = digits
    with pytest.raises(ValueError, match="not zero"):
        LCKSVD(**SMALL).fit(X * (y != 3)[:, None, None], y)


def test_a_black_image_gets_scores_of_zero(model, digits):
    np.testing.assert_array_equal(model.decision_function(0 * digits[0][:1]), 0)


def test_a_model_file_holds_the_whole_model(model, digits, tmp_path):
    model.save(tmp_path / "lcksvd.safetensors")
    again = dcadl.load(tmp_path / "lcksvd.safetensors")
    np.testing.assert_array_equal(again.decision_function(digits[0]), model.decision_function(digits[0]))
    np.testing.assert_array_equal(again.atom_classes_, model.atom_classes_)


@pytest.mark.parametrize(
    "wrong",
    [
        {"n_atoms": 0},
        {"variant": 3},
        {"sparsity": 0},
        {"alpha": 0},
        {"beta": -1},
        {"init_iter": 0},
        {"max_iter": 1.5},
    ],
)
def test_a_senseless_parameter_is_refused_by_name(digits, wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        LCKSVD(**wrong).fit(*digits)


def test_torch_gives_the_same_scores(digits):
    pytest.importorskip("torch", reason="torch is not installed: pip install 'dcadl[torch]'")
    X, y = digits
    here, there = (LCKSVD(**SMALL, backend=b).fit(X, y) for b in ("numpy", "torch"))
    np.testing.assert_allclose(here.decision_function(X), there.decision_function(X), atol=1e-6)
