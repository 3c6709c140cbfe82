"""DPL as users meet it."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

import dcadl
from dcadl import DPL


@pytest.fixture(scope="module")
def digits():
    bunch = load_digits()
    return bunch.images[:600] / 16, bunch.target[:600]


def test_tells_most_digits_apart(digits):
    X, y = digits
    assert DPL(n_atoms=8, random_state=0).fit(X[:400], y[:400]).score(X[400:], y[400:]) > 0.8


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_attributes_keep_the_precision_of_the_data(digits, dtype):
    X, y = digits
    model = DPL(n_atoms=4, max_iter=2).fit(X.astype(dtype), y)
    assert {model.atoms_.dtype, model.projections_.dtype, model.decision_function(X.astype(dtype)).dtype} == {
        np.dtype(dtype)
    }


def test_both_precisions_predict_alike(digits):
    X, y = digits
    fits = [DPL(n_atoms=8, random_state=0).fit(X[:400].astype(t), y[:400]) for t in (np.float32, np.float64)]
    assert np.mean(fits[0].predict(X[400:]) == fits[1].predict(X[400:])) > 0.99


def test_scale_of_a_sample_does_not_matter_without_intercept(digits):
    X, y = digits
    model = DPL(n_atoms=8, intercept=0, random_state=0).fit(X[:400], y[:400])
    np.testing.assert_allclose(
        model.decision_function(7 * X[400:]), model.decision_function(X[400:]), atol=1e-12
    )


def test_the_intercept_tells_a_sample_from_its_negative(rng):
    X = np.array([3.0, 2.0]) + 0.1 * rng.standard_normal((20, 2))
    X, y = np.concatenate([X, -X]), np.repeat([0, 1], 20)
    assert DPL(n_atoms=2, intercept=1, random_state=0).fit(X, y).score(X, y) == 1
    assert DPL(n_atoms=2, intercept=0, random_state=0).fit(X, y).score(X, y) <= 0.5


def test_order_of_the_samples_does_not_matter(digits):
    X, y = digits
    order = np.random.default_rng(0).permutation(400)
    a = DPL(n_atoms=8, random_state=0).fit(X[:400], y[:400])
    b = DPL(n_atoms=8, random_state=0).fit(X[:400][order], y[:400][order])
    np.testing.assert_allclose(a.decision_function(X[400:]), b.decision_function(X[400:]), atol=1e-6)


def test_more_atoms_than_samples_is_no_trouble(digits):
    X, y = digits
    model = DPL(n_atoms=50, max_iter=3, random_state=0).fit(X[:100], y[:100])
    assert np.isfinite(model.decision_function(X)).all()


def test_a_black_image_gets_finite_scores(digits):
    X, y = digits
    model = DPL(n_atoms=4, max_iter=2).fit(np.concatenate([X, 0 * X[:1]]), np.append(y, 0))
    assert np.isfinite(model.decision_function(0 * X[:1])).all()


def test_a_model_file_holds_the_whole_model(digits, tmp_path):
    X, y = digits
    model = DPL(n_atoms=5, max_iter=3, random_state=0).fit(X, y.astype(str))
    model.save(tmp_path / "dpl.safetensors")

    again = dcadl.load(tmp_path / "dpl.safetensors")

    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    np.testing.assert_array_equal(again.objective_, model.objective_)


@pytest.mark.parametrize(
    "wrong", [{"n_atoms": 0}, {"tau": 0}, {"gamma": 0}, {"lam": -1}, {"max_iter": 0}, {"tol": -1}]
)
def test_a_senseless_parameter_is_refused_by_name(digits, wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        DPL(**wrong).fit(*digits)


def test_images_of_another_shape_are_refused(digits):
    X, y = digits
    with pytest.raises(ValueError, match="shape"):
        DPL(n_atoms=4, max_iter=1).fit(X, y).predict(X[:, :4])


def test_torch_gives_the_same_scores(digits):
    pytest.importorskip("torch", reason="torch is not installed: pip install 'dcadl[torch]'")
    X, y = digits
    here, there = (DPL(n_atoms=5, random_state=0, backend=b).fit(X, y) for b in ("numpy", "torch"))
    np.testing.assert_allclose(here.decision_function(X), there.decision_function(X), atol=1e-7)
