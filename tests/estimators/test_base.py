"""What every classifier does alike, whichever method it is."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from after_passes import AfterPasses
from small_models import NAMES, small
from threadpoolctl import threadpool_limits

import dcadl
from dcadl.ops.patches import responses

every_method = pytest.mark.parametrize("name", NAMES)


def interrupt(*_):
    raise KeyboardInterrupt


def kept(model):
    """Everything that the model holds, by identity: nothing may even be assigned anew."""
    return {key: id(value) for key, value in vars(model).items()}


@every_method
@pytest.mark.parametrize("y", [np.zeros(30), np.full(30, np.nan), np.arange(29)], ids=["one", "nan", "few"])
def test_a_refused_refit_changes_nothing(fitted, name, y):
    model = fitted[name]
    before = kept(model)

    with pytest.raises(ValueError, match=r"class|NaN|inconsistent"):
        model.fit(np.ones((30, 5)) + np.arange(5), y)

    assert kept(model) == before


@pytest.mark.parametrize("name", sorted(set(NAMES) - {"PatchRidge", "RandomAtoms"}))
def test_an_interrupted_refit_changes_nothing(digits, name):
    X, y = digits
    model = small(name).fit(X[:120], y[:120])

    model.set_callbacks(AfterPasses(1, interrupt))
    before = kept(model)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X[:99, :, 1:], y[:99] + 100)

    assert kept(model) == before


@pytest.mark.parametrize("name", ["PatchRidge", "RandomAtoms"])
def test_an_interrupted_regression_changes_nothing(digits, name, monkeypatch):
    X, y = digits
    model = small(name).fit(X[:120], y[:120])
    before = kept(model)
    monkeypatch.setattr(
        "dcadl.estimators.controls.code_ridge", lambda *a: (_ for _ in ()).throw(KeyboardInterrupt)
    )

    with pytest.raises(KeyboardInterrupt):
        model.fit(X[:99, :, 1:], y[:99] + 100)

    assert kept(model) == before


@pytest.mark.parametrize("name", sorted(set(NAMES) - {"PatchRidge", "RandomAtoms", "PCANet"}))
def test_a_callback_is_given_a_model_that_predicts(digits, name):
    X, y = digits
    seen = []

    class Watch(AfterPasses):
        def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
            seen.append(fitted_estimator.predict(X[:3]).shape)

    small(name).set_callbacks(Watch(0, None)).fit(X[:200], y[:200])

    assert seen == [(3,)] * 3  # two passes, and the fit


@every_method
def test_data_on_disk_and_dask_arrays_are_predicted_like_data_in_memory(
    fitted, digits, name, tmp_path, monkeypatch
):
    da = pytest.importorskip("dask.array", reason="dask is not installed: pip install 'dcadl[dask]'")
    model, X = fitted[name], digits[0][120:200]
    np.save(tmp_path / "x.npy", X)
    monkeypatch.setattr("dcadl.estimators.prediction.PART_BYTES", 30 * 64 * 4)  # three parts

    for same in (
        tmp_path / "x.npy",
        np.load(tmp_path / "x.npy", mmap_mode="r"),
        da.from_array(X, (33, 8, 8)),
    ):
        np.testing.assert_array_equal(np.asarray(model.predict(same)), model.predict(X))
        np.testing.assert_allclose(
            np.asarray(model.decision_function(same)), model.decision_function(X), rtol=1e-4, atol=1e-5
        )


@pytest.mark.parametrize("name", [name for name in NAMES if "tol" in small(name).get_params()])
@pytest.mark.filterwarnings("ignore")
def test_a_tolerance_of_zero_makes_exactly_as_many_passes_as_were_asked_for(name):
    """So many that the objective has long settled, and rises and falls by rounding."""
    rng, y = np.random.default_rng(0), np.arange(40) % 4
    X = rng.random((4, 8, 8))[y] + 0.1 * rng.random((40, 8, 8))

    model = small(name).set_params(max_iter=150, tol=0).fit(X, y)

    assert model.n_iter_ == 150
    assert np.isfinite(model.objective_).all()


@every_method
def test_a_tensor_is_predicted_like_an_array(fitted, digits, name):
    torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'dcadl[torch]'")
    model, X = fitted[name], digits[0][120:150]

    np.testing.assert_array_equal(model.predict(torch.from_numpy(X)), model.predict(X))


@every_method
def test_one_image_is_not_taken_for_many(fitted, digits, name):
    with pytest.raises(ValueError, match=r"got one of them: give X\[np.newaxis\]"):
        fitted[name].predict(digits[0][0])


@every_method
def test_more_dimensions_than_images_have_are_refused(digits, name):
    with pytest.raises(ValueError, match=r"or rows \(n, values\); got shape \(600, 8, 8, 1, 1\)"):
        small(name).fit(digits[0][..., None, None], digits[1])


@every_method
def test_the_highest_score_is_the_label(fitted, digits, name):
    model, X = fitted[name], digits[0][120:200]
    np.testing.assert_array_equal(model.classes_[model.decision_function(X).argmax(axis=1)], model.predict(X))


@every_method
def test_the_path_of_an_array_is_fitted_like_the_array(fitted, digits, name, tmp_path):
    X, y = digits
    np.save(tmp_path / "x.npy", X[:120])
    again = small(name).fit(tmp_path / "x.npy", y[:120])
    np.testing.assert_allclose(
        again.decision_function(X[120:150]), fitted[name].decision_function(X[120:150]), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("name", ["DCADL", "RandomAtoms"])
def test_six_functions_lead_from_predict_to_the_product(fitted, digits, name, monkeypatch):
    """The responses ΩX̄ are the product, and `responses` takes it."""
    found = []

    def watched(*given):
        frame = sys._getframe()
        while frame := frame.f_back:
            found.append(Path(frame.f_code.co_filename))
        return responses(*given)

    monkeypatch.setattr("dcadl.estimators.base.responses", watched)
    fitted[name].predict(digits[0][:5])

    ours = [path for path in found if Path(dcadl.__file__).parent in path.parents]
    assert len(ours) + 1 <= 6


@pytest.mark.bits
@pytest.mark.parametrize("name", sorted(set(NAMES) - {"ConvNet"}))
def test_the_same_seed_gives_the_same_bits_with_any_number_of_threads(fitted, digits, name):
    X, y = digits
    with threadpool_limits(1):
        alone = small(name).fit(X[:120], y[:120]).decision_function(X[:200])
    np.testing.assert_array_equal(fitted[name].decision_function(X[:200]), alone)


@every_method
def test_threads_may_share_a_model_to_predict(fitted, digits, name):
    model, X = fitted[name], digits[0][120:220]
    expected = model.predict(X)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: model.predict(X), range(12)))
    assert all(np.array_equal(labels, expected) for labels in found)
