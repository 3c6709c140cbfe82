"""A method made for tests, registered beside the real ones, and records of a short benchmark."""

import time

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin

from dcadl import estimators
from dcadl.bench.runner import Options, Run, run_all
from dcadl.bench.settings import Setting


class Sleeper(ClassifierMixin, BaseEstimator):
    """Sleeps where others work."""

    def __init__(self, fit_s=0.0, predict_s=0.0, max_iter=1):
        self.fit_s = fit_s
        self.predict_s = predict_s
        self.max_iter = max_iter

    def fit(self, X, y):
        time.sleep(self.fit_s)
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        time.sleep(self.predict_s)
        return np.full(len(X), self.classes_[0])


@pytest.fixture
def only_sleep_takes_time(monkeypatch):
    """A clock that nothing but sleep moves: however busy the machine is, times are exact."""
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(time, "sleep", lambda seconds: now.append(now.pop() + seconds))


@pytest.fixture
def methods(monkeypatch):
    """Real methods and the one made for tests, under their names."""
    monkeypatch.setattr(estimators, "Sleeper", Sleeper, raising=False)
    monkeypatch.setattr(estimators, "__all__", [*estimators.__all__, "Sleeper"])


SMALL = {"patch_shape": 4, "stride": 2}
RUNS = [
    Run("digits", setting, seed)
    for seed in (0, 1)
    for setting in (
        Setting("DCADL", "DCADL", {**SMALL, "n_atoms": 8, "max_iter": 3, "tol": 0.0}),
        Setting("PatchRidge", "PatchRidge", SMALL),
        Setting(
            "DCADL image",
            "DCADL",
            {**SMALL, "n_atoms": 4, "max_iter": 2, "tol": 0.0, "normalize": "image", "lam1": 0.0},
            "ablation",
        ),
    )
]


@pytest.fixture(scope="session")
def recorded(tmp_path_factory):
    """A file of records: two methods and an ablation on digits, two seeds."""
    path = tmp_path_factory.mktemp("bench") / "records.jsonl"
    run_all(RUNS, path, Options(threads=1))
    return path
