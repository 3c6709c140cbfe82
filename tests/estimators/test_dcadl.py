"""DCADL as its users meet it: shapes, inputs, threads, callbacks."""

from __future__ import annotations

import copy
import pickle
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.callback import ScoringMonitor
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

import dcadl
from dcadl import DCADL
from dcadl.ops.closed_form import ridge
from dcadl.ops.patches import patch_table, unit_rows
from dcadl.solvers import code_ridge

FAST = {"n_atoms": 8, "patch_shape": 4, "stride": 2, "max_iter": 4, "tol": 0, "random_state": 0}


@pytest.fixture(scope="module")
def digits():
    """Three hundred digits in [0, 1] and their labels."""
    found = load_digits()
    return found.images[:300] / 16, found.target[:300]


def test_a_fit_leaves_atoms_classifier_and_trace_of_the_promised_shapes(digits):
    model = DCADL(**FAST).fit(*digits)
    assert model.atoms_.shape == (8, 4, 4)
    assert model.coef_.shape == (10, 9 * 8)
    assert model.objective_.shape == (3 * model.n_iter_,)
    assert (np.linalg.norm(model.atoms_.reshape(8, -1), axis=1) <= 1 + 1e-6).all()
    assert model.score(*digits) > 0.9


@pytest.mark.parametrize("solver", ["descent", "paper"])
def test_images_and_rows_give_the_same_model(digits, solver):
    X, y = digits
    images = DCADL(**FAST, solver=solver).fit(X, y)
    rows = DCADL(**FAST, solver=solver, image_shape=(8, 8)).fit(X.reshape(300, -1), y)
    np.testing.assert_array_equal(images.atoms_, rows.atoms_)
    np.testing.assert_array_equal(images.decision_function(X), rows.decision_function(X.reshape(300, -1)))


def test_colour_atoms_span_all_channels(digits):
    X, y = digits
    colour = np.stack([X, 1 - X, X**2], axis=-1)
    model = DCADL(**FAST).fit(colour, y)
    assert model.atoms_.shape == (8, 4, 4, 3)
    assert model.transform(colour).shape == (300, 9 * 8)


def test_signals_have_one_dimensional_atoms(digits):
    X, y = digits
    model = DCADL(n_atoms=5, patch_shape=16, stride=8, max_iter=3, tol=0).fit(X.reshape(300, 64), y)
    assert model.atoms_.shape == (5, 16)
    assert model.coef_.shape == (10, 7 * 5)


def test_without_a_patch_shape_images_are_cut_and_vectors_are_not(digits):
    X, y = digits
    model = DCADL(n_atoms=5, max_iter=2, tol=0)
    assert model.fit(X, y).atoms_.shape == (5, 3, 3)
    assert model.fit(X.reshape(len(X), -1), y).atoms_.shape == (5, 64)
    assert model.set_params(patch_shape=None).fit(X, y).atoms_.shape == (5, 8, 8)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_precision_in_is_precision_out(digits, dtype):
    X, y = digits
    model = DCADL(**FAST).fit(X.astype(dtype), y)
    assert {model.atoms_.dtype, model.coef_.dtype, model.transform(X.astype(dtype)).dtype} == {
        np.dtype(dtype)
    }


def test_eight_bit_pixels_are_taken_as_they_are(digits):
    X, y = digits
    model = DCADL(**FAST).fit((X * 255).astype(np.uint8), y)
    assert model.atoms_.dtype == np.float32
    assert model.score((X * 255).astype(np.uint8), y) > 0.9


@pytest.mark.parametrize("names", [np.array(["no", "yes"]), np.array([-1, 1])], ids=["strings", "ints"])
def test_two_classes_of_any_type_are_decided_by_the_sign(digits, names):
    X, y = digits
    model = DCADL(**FAST).fit(X, names[(y > 4).astype(int)])
    decision = model.decision_function(X)
    assert decision.shape == (300,)
    np.testing.assert_array_equal(model.predict(X), names[(decision > 0).astype(int)])


def test_the_objective_never_rises(digits):
    trace = DCADL(**FAST | {"max_iter": 15}).fit(*digits).objective_
    assert (np.diff(trace) <= 1e-9 * trace[:-1]).all()


@pytest.mark.bits
def test_two_fits_with_one_seed_are_the_same_to_the_bit(digits):
    first, second = (DCADL(**FAST).fit(*digits) for _ in range(2))
    np.testing.assert_array_equal(first.atoms_, second.atoms_)
    np.testing.assert_array_equal(first.coef_, second.coef_)


def test_prediction_in_two_stages_equals_the_composed_matrix(digits):
    """M = W(I ⊗ Ω), one matrix from patches to scores: the authors' rule is linear."""
    X, y = digits
    model = DCADL(**FAST, solver="paper", normalize=None).fit(X, y)
    Omega = model.atoms_.reshape(8, -1)
    M = model.coef_ @ np.kron(np.eye(9), Omega)
    patches = X.reshape(300, -1)[:, patch_table(model.grid_)].reshape(300, -1)
    np.testing.assert_allclose(model.decision_function(X), patches @ M.T, atol=1e-9)


@pytest.mark.parametrize("backend", ["numpy", "torch"])
def test_the_authors_algorithm_says_that_it_diverged(digits, backend, monkeypatch):
    if backend == "torch":
        pytest.importorskip("torch", reason="torch is not installed: pip install 'dcadl[torch]'")
    monkeypatch.setattr("dcadl.arrays.SMALL_SYSTEM", 0)  # by Cholesky's method, as larger systems are
    with pytest.raises(ValueError, match=r"diverged.*lam2.*descent"):
        DCADL(**FAST, solver="paper", lam2=1e8, lam3=1.0, backend=backend).fit(*digits)


def test_transform_gives_the_codes_that_the_classifier_reads(digits):
    X, y = digits
    model = DCADL(**FAST).fit(X, y)
    np.testing.assert_allclose(
        model.transform(X) @ model.coef_.T + model.intercept_, model.decision_function(X), atol=1e-12
    )


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("codes", ["signed", "split"])
def test_the_refitted_classifier_is_the_ridge_of_what_predictions_see(digits, weighted, codes):
    X, y = digits
    weight = np.linspace(0.5, 2, len(y)) if weighted else None
    model = DCADL(**FAST, codes=codes).fit(X, y, weight)

    Y = np.eye(10)[y] - model.intercept_
    expected = ridge(model.transform(X), Y, model.refit_lam_, weight).T

    np.testing.assert_allclose(model.coef_, expected, atol=1e-8)


def test_a_ridge_that_is_given_is_taken(digits):
    assert DCADL(**FAST, refit_lam=0.25).fit(*digits).refit_lam_ == pytest.approx(0.25)


@pytest.mark.parametrize("lam", [0, -1, "loo", None, True])
def test_a_ridge_that_is_none_is_refused(digits, lam):
    with pytest.raises(ValueError, match="refit_lam must"):
        DCADL(**FAST, refit_lam=lam).fit(*digits)


@pytest.mark.bits
def test_predicting_in_eight_threads_equals_predicting_in_one(digits):
    X, y = digits
    model = DCADL(**FAST).fit(X, y)
    many = np.concatenate([X] * 20)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(model.decision_function, [many] * 8))
    expected = model.decision_function(many)
    assert all(np.array_equal(one, expected) for one in found)


@pytest.mark.bits
@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))], ids=["copy", "pickle"]
)
def test_a_copy_predicts_alike(digits, copied):
    model = DCADL(**FAST).fit(*digits)
    np.testing.assert_array_equal(copied(model).predict(digits[0]), model.predict(digits[0]))


def test_it_lives_in_pipelines_searches_and_frames(digits):
    X, y = digits
    rows = X.reshape(300, -1)
    pipeline = make_pipeline(MinMaxScaler(), DCADL(**FAST, image_shape=(8, 8)))
    search = GridSearchCV(pipeline, {"dcadl__lam2": [0.1, 0.2]}, cv=2).fit(rows, y)
    assert search.best_score_ > 0.7
    names = search.best_estimator_[-1].get_feature_names_out()
    assert len(names) == 72
    assert clone(search.best_estimator_[-1]).get_params()["n_atoms"] == 8


@pytest.mark.parametrize("backend", ["torch"])
def test_a_backend_gives_numpys_model(digits, backend):
    pytest.importorskip("torch", reason="torch is not installed: pip install 'dcadl[torch]'")
    X, y = digits
    home, away = DCADL(**FAST).fit(X, y), DCADL(**FAST, backend=backend).fit(X, y)
    assert isinstance(away.atoms_, np.ndarray)
    np.testing.assert_allclose(away.atoms_, home.atoms_, atol=1e-8)
    np.testing.assert_allclose(away.coef_, home.coef_, atol=1e-8)
    np.testing.assert_allclose(away.decision_function(X), home.decision_function(X), atol=1e-8)


def test_a_balanced_class_weight_helps_the_rare_class(digits):
    X, y = digits
    keep = np.concatenate([np.flatnonzero(y != 8), np.flatnonzero(y == 8)[:2]])
    plain = DCADL(**FAST).fit(X[keep], y[keep])
    balanced = DCADL(**FAST, class_weight="balanced").fit(X[keep], y[keep])
    eights = X[y == 8]
    assert (balanced.predict(eights) == 8).mean() > (plain.predict(eights) == 8).mean()


def test_callbacks_see_every_pass(digits):
    monitor = ScoringMonitor(scoring="accuracy")
    DCADL(**FAST).set_callbacks(monitor).fit(*digits)
    rows = monitor.get_logs().data
    assert sum(row["task_name"] == "pass" for row in rows) == 4


class StopAfterTwo:
    """A callback that asks to stop when the second pass ends."""

    def setup(self, estimator, context):
        self.passes = 0

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context):
        self.passes += context.task_name == "pass"
        return self.passes == 2


def test_a_callback_may_stop_the_fit(digits):
    assert DCADL(**FAST).set_callbacks(StopAfterTwo()).fit(*digits).n_iter_ == 2


def test_running_out_of_passes_is_a_warning(digits):
    with pytest.warns(ConvergenceWarning, match="ran all its 2 passes"):
        DCADL(**FAST | {"max_iter": 2, "tol": 1e-9}).fit(*digits)


def test_principal_components_start_is_reproducible_and_descends(digits):
    trace = DCADL(**FAST | {"n_atoms": 20}, init="pca").fit(*digits).objective_
    assert (np.diff(trace) <= 1e-9 * trace[:-1]).all()


@pytest.mark.parametrize("init", ["gaussian", "pca"])
def test_a_few_long_vectors_are_fitted_in_their_span_to_the_same_model(digits, monkeypatch, init):
    """Fifty vectors of 64 values: by coordinates in their span, or as on disk, by all values."""
    monkeypatch.setattr("dcadl.estimators.validation.LONG", 1)
    X, y = digits[0][:50].reshape(50, -1), digits[1][:50]
    setting = {"n_atoms": 6, "patch_shape": None, "max_iter": 4, "tol": 0, "random_state": 0, "init": init}
    in_span = DCADL(**setting).fit(X, y)
    whole = DCADL(**setting, max_memory="1GB").fit(X, y)

    spans = np.linalg.lstsq(unit_rows(X).T, in_span.atoms_.T, rcond=None)[1]
    np.testing.assert_allclose(spans, 0, atol=1e-12)
    np.testing.assert_allclose(in_span.decision_function(X), whole.decision_function(X), atol=1e-6)
    np.testing.assert_allclose(in_span.objective_[2:], whole.objective_[2:], rtol=1e-8)


def test_split_codes_are_fitted_saved_and_explained(digits, tmp_path):
    X, y = digits
    model = DCADL(**FAST | {"codes": "split"}).fit(X, y)
    assert model.coef_.shape == (10, 9 * 16)
    codes = model.transform(X)
    assert (codes >= 0).all()
    np.testing.assert_allclose(
        codes @ model.coef_.T + model.intercept_, model.decision_function(X), atol=1e-10
    )
    model.save(tmp_path / "m")
    np.testing.assert_array_equal(dcadl.load(tmp_path / "m").predict(X), model.predict(X))
    np.testing.assert_allclose(model.explain(X[:3]).scores, model.decision_function(X[:3]), atol=1e-6)
    within = DCADL(**FAST | {"codes": "split"}, max_memory="1GB").fit(X, y)
    np.testing.assert_allclose(within.coef_, model.coef_, atol=1e-8)
    with pytest.raises(ValueError, match="codes='signed'"):
        DCADL(codes="split").partial_fit(X, y, classes=range(10))


def test_passes_end_where_the_left_out_error_does_and_the_best_is_kept(digits):
    usual = {"n_atoms": 8, "patch_shape": 4, "stride": 2, "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        model = DCADL(**usual).fit(*digits)
    assert model.best_iter_ == model.n_iter_ - code_ridge.PATIENCE
    assert model.n_dead_atoms_ == 0
    same = DCADL(**usual | {"max_iter": model.best_iter_, "tol": 0}).fit(*digits)
    np.testing.assert_array_equal(same.atoms_, model.atoms_)


def test_passes_end_where_atoms_begin_to_die(digits):
    usual = {"n_atoms": 40, "patch_shape": 4, "stride": 2, "normalize": "patch", "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        model = DCADL(**usual, tol=1e-9).fit(*digits)
    assert model.best_iter_ < model.n_iter_ < model.best_iter_ + code_ridge.PATIENCE
    assert model.n_dead_atoms_ == 0
    assert DCADL(**usual, tol=0, max_iter=model.n_iter_).fit(*digits).n_dead_atoms_ > 0
