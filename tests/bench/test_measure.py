"""The clock is honest, and patches given beforehand change nothing but the time."""

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from dcadl import DCADL, ConvNet, PatchRidge, RandomAtoms, estimators
from dcadl.bench import measure as clock
from dcadl.bench.datasets import fold, load_dataset
from dcadl.bench.measure import measure, with_patches_given
from dcadl.bench.methods import method_names
from dcadl.bench.settings import Setting, build, settings
from dcadl.estimators.prediction import scores_of_patches
from dcadl.ops.patches import normalised_patches


@pytest.fixture(scope="module")
def digits():
    return fold(load_dataset("digits"), 0)


@pytest.mark.usefixtures("only_sleep_takes_time")
def test_a_method_that_sleeps_is_timed_right(digits, methods, monkeypatch):
    monkeypatch.setattr(clock, "SINGLE_IMAGES", 3)

    found = measure(estimators.Sleeper(fit_s=0.5, predict_s=0.3), digits)

    assert found["train_s"] == pytest.approx(0.5)
    assert found["test_batch_s"] * found["n_test"] == pytest.approx(0.3)
    assert found["test_given_s"] * found["n_test"] == pytest.approx(0.3)
    assert found["test_single_s"] == pytest.approx(0.3)


@pytest.mark.usefixtures("only_sleep_takes_time")
def test_a_slow_first_call_is_outside_the_clock(digits, methods, monkeypatch):
    slow = iter([0.4])
    fit = estimators.Sleeper.fit
    monkeypatch.setattr(
        estimators.Sleeper, "fit", lambda self, X, y: fit(self.set_params(fit_s=next(slow, 0.0)), X, y)
    )

    assert measure(estimators.Sleeper(), digits)["train_s"] == 0


def test_accuracy_and_errors_tell_the_same(digits, methods):
    found = measure(estimators.Sleeper(), digits)

    right = digits.y_test == 0
    assert found["accuracy"] == pytest.approx(right.mean())
    assert [place for place, _, _ in found["errors"]] == digits.test[~right].tolist()
    assert sum(n for _, _, n in found["confusions"]) == (~right).sum()
    assert found["per_class"] == [1.0] + [0.0] * 9
    assert sum(found["test_counts"]) == found["n_test"]


@pytest.mark.parametrize("normalize", ["patch", "centred", "image", None])
@pytest.mark.parametrize("cls", [DCADL, RandomAtoms, PatchRidge])
def test_scores_from_patches_given_are_the_scores_from_images(digits, cls, normalize):
    keys = cls().get_params()
    wanted = {"patch_shape": 4, "stride": 2, "n_atoms": 5, "max_iter": 2, "tol": 0, "random_state": 0}
    model = cls(normalize=normalize, **{k: v for k, v in wanted.items() if k in keys})
    model.fit(digits.X_train[:200], digits.y_train[:200])

    P = normalised_patches(digits.X_test.reshape(len(digits.X_test), -1), model.grid_, normalize)

    np.testing.assert_allclose(
        scores_of_patches(model, P), model.decision_function(digits.X_test), rtol=1e-4, atol=1e-5
    )
    np.testing.assert_array_equal(with_patches_given(model, digits.X_test)(), model.predict(digits.X_test))


def test_a_network_is_timed_on_patches_given_as_well(digits):
    torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'dcadl[torch]'")
    torch.set_num_threads(1)
    model = ConvNet(n_layers=3, n_filters=4, patch_shape=4, max_iter=1).fit(
        digits.X_train[:99], digits.y_train[:99]
    )

    predicted = with_patches_given(model, digits.X_test[:9])()

    np.testing.assert_array_equal(predicted, model.predict(digits.X_test[:9]))


def test_memory_and_size_are_counted(digits):
    found = measure(PatchRidge(patch_shape=4), digits)

    assert found["peak_bytes"] > 10_000_000
    assert found["model_bytes"] > 10 * 9 * 16 * 4


def test_libraries_loaded_by_the_warm_up_keep_to_the_threads_asked_for(digits, methods, monkeypatch):
    seen = []
    fit = estimators.Sleeper.fit

    def watched(self, X, y):
        seen.append({pool["num_threads"] for pool in threadpool_info()})
        return fit(self, X, y)

    monkeypatch.setattr(estimators.Sleeper, "fit", watched)

    measure(estimators.Sleeper(), digits, threads=1)

    assert seen[-1] == {1}


@pytest.mark.parametrize("name", sorted({*method_names()} - {"PyramidRidge"}))  # 8 × 8 holds no patch of SIFT
def test_every_method_can_be_measured(name, digits):
    if name == "ConvNet":
        pytest.importorskip("torch", reason="torch is not installed: pip install 'dcadl[torch]'")
    few = digits._replace(X_train=digits.X_train[:120], y_train=digits.y_train[:120])
    rows = {row.label: row for row in settings("digits")}
    model = build(rows.get(name, Setting(name, name, {})), 0)  # some are run on own data only
    short = {"max_iter": 10} if "max_iter" in model.get_params() else {}
    model.set_params(**short)

    record = measure(model, few, threads=1)

    assert 0.3 < record["accuracy"] <= 1
    assert {"train_s", "test_given_s", "test_batch_s", "test_single_s"} <= record.keys()
