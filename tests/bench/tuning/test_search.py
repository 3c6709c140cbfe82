"""One search: nested, within its budget."""

import time

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin

from dcadl.bench import datasets
from dcadl.bench.settings import benchmark_config, settings
from dcadl.bench.tuning import search

ROW = settings("digits", ["PatchRidge"])[0]
OF_DCADL = settings("digits", ["DCADL"])[0]
BUDGET = search.Budget(3.0, 3)


def _without_clock(monkeypatch):
    monkeypatch.setattr(search, "_affordable", lambda *_: 6)


def test_poisoned_test_labels_and_images_leave_the_choice_unchanged(monkeypatch):
    _without_clock(monkeypatch)
    clean = search.tune_one("digits", ROW, 0, BUDGET)
    data = datasets.load_dataset("digits")
    test = datasets.fold(data, 0).test
    X, honest = data.X.copy(), datasets.fold
    X[test] = 99.0
    poisoned = honest(data._replace(X=X), 0)

    def fold(found, seed):
        return poisoned._replace(y_test=np.zeros_like(poisoned.y_test))

    monkeypatch.setattr(search, "fold", fold)
    assert search.tune_one("digits", ROW, 0, BUDGET)[:3] == clean[:3]


def test_training_labels_do_matter(monkeypatch):
    """The check above can fail: what the search does see changes its score."""
    _without_clock(monkeypatch)
    clean = search.tune_one("digits", ROW, 0, BUDGET)
    found = datasets.fold(datasets.load_dataset("digits"), 0)
    shuffled = np.random.default_rng(0).permutation(found.y_train)

    monkeypatch.setattr(search, "fold", lambda data, seed: found._replace(y_train=shuffled))

    assert search.tune_one("digits", ROW, 0, BUDGET).score < clean.score - 0.5


def test_candidates_are_points_of_the_space():
    points = search.candidates(OF_DCADL, 0, 4)

    assert len(points) == 4
    assert all(set(point) == set(benchmark_config()["spaces"]["DCADL"]) for point in points)


def test_a_row_may_have_a_space_of_its_own():
    points = search.candidates(OF_DCADL._replace(label="DCADL-split"), 0, 20)

    assert {point["n_atoms"] for point in points} == {152, 300, 600}


@pytest.mark.parametrize(
    ("enough_for", "others"),  # in full
    [(0.9, 0), (1.9, 1), (2.0, 3), (3.3, 3), (3.4, 4), (4.0, 6), (1e9, search.MOST_CANDIDATES - 1)],
)
def test_as_many_candidates_as_there_is_time_for(enough_for, others):
    """Three make three thirds and the best one in full; four make four thirds and the best two."""
    assert search._count(enough_for * 3.0, 1.0, 3.0) == 1 + others


class Sleeper(ClassifierMixin, BaseEstimator):
    """Fits in a known time."""

    def __init__(self, sample_s=0.0, start_s=0.0, lam=1.0):
        self.sample_s, self.start_s, self.lam = sample_s, start_s, lam

    def fit(self, X, y):
        time.sleep(self.start_s + self.sample_s * len(y))
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return np.full(len(X), self.classes_[0])


@pytest.mark.parametrize(
    ("slower", "sample_s", "start_s"),
    [(1.0, 0.001, 0.0), (4.0, 0.001, 0.0), (1.0, 0.0, 0.04)],
    ids=["alike", "slow candidates", "no shorter with fewer samples"],
)
@pytest.mark.usefixtures("only_sleep_takes_time")
def test_a_search_keeps_to_its_time(monkeypatch, slower, sample_s, start_s):
    X, y = np.zeros((60, 2)), np.repeat([0, 1], 30)
    points = [
        {"sample_s": sample_s * slower, "start_s": start_s * slower, "lam": 1.0 + k}
        for k in range(search.MOST_CANDIDATES)
    ]
    monkeypatch.setattr(search, "build", lambda row, seed: Sleeper(sample_s, start_s))
    monkeypatch.setattr(search, "candidates", lambda method, seed, n: points[:n])

    choice = search.choose(ROW, X, y, 0, search.Budget(2.0, 3))

    assert choice.candidates > 2
    assert 1.0 < choice.spent_s < 2.5


def test_the_classifiers_ridge_is_drawn_as_a_ratio():
    ratios = [point["lam3"] / point["lam2"] for point in search.candidates(OF_DCADL, 0, 50)]

    low, high = benchmark_config()["spaces"]["DCADL"]["lam3"]["factor"]
    assert low * 0.99 < min(ratios) < 0.2  # rounded to three digits
    assert 1 < max(ratios) < high * 1.01


@pytest.mark.parametrize(
    ("better_by", "kept"), [([0.0, 0.0, 0.01], True), ([0.01, 0.02, 0.01], False), ([-0.1, -0.1, 0.0], True)]
)
def test_a_candidate_must_beat_the_setting_by_a_standard_error(better_by, kept):
    own = np.array([0.9, 0.8, 0.85])

    assert search.beats(own + better_by, own) is not kept


@pytest.mark.parametrize("folds", range(2, 12))
@pytest.mark.parametrize("better_by", [0.01, 1 / 3, 0.7])
def test_one_better_fold_is_a_tie(folds, better_by):
    """Mean and standard error are then the same number, up to rounding."""
    own = np.full(folds, 0.1)

    assert not search.beats(own + better_by * np.eye(folds)[0], own)


@pytest.mark.parametrize("count", [2, 3, 4, 5])
def test_the_winner_is_judged_on_as_many_samples_as_the_setting(monkeypatch, count):
    monkeypatch.setattr(search, "_affordable", lambda *_: count)
    judged = []
    monkeypatch.setattr(search, "beats", lambda scores, own: judged.extend((scores, own)))
    never_differ = ROW._replace(params={**ROW.params, "lam": 1.0})
    monkeypatch.setattr(
        search, "candidates", lambda method, seed, n: [{"lam": 1.0 + 1e-9 * k} for k in range(n)]
    )

    search.tune_one("digits", never_differ, 0, BUDGET)

    np.testing.assert_array_equal(*judged)


@pytest.mark.parametrize("wins", [True, False])
def test_the_setting_stays_unless_it_is_beaten(monkeypatch, wins):
    _without_clock(monkeypatch)
    monkeypatch.setattr(search, "beats", lambda scores, own: wins)
    row = ROW._replace(params={**ROW.params, "lam": 1e6})  # classes drown in such a ridge

    choice = search.tune_one("digits", row, 0, BUDGET)

    assert (choice.params["lam"] == 1e6) is not wins


def test_no_time_to_search_keeps_the_setting():
    found = datasets.fold(datasets.load_dataset("digits"), 0)

    choice = search.choose(ROW, found.X_train[:100], found.y_train[:100], 0, search.Budget(0.0, 3))

    assert (choice.params, choice.score) == ({}, None)


class Picky(Sleeper):
    """Fails under some parameters."""

    def fit(self, X, y):
        if self.lam > 1:
            raise RuntimeError("lam is too large")
        return super().fit(X, y)


@pytest.mark.parametrize("count", [2, 4])
def test_where_every_candidate_fails_the_setting_stays(monkeypatch, count):
    monkeypatch.setattr(search, "build", lambda row, seed: Picky())
    monkeypatch.setattr(search, "_count", lambda *_: count)
    monkeypatch.setattr(search, "candidates", lambda method, seed, n: [{"lam": 2.0 + k} for k in range(n)])

    choice = search.choose(ROW, np.zeros((60, 2)), np.repeat([0, 1], 30), 0, BUDGET)

    assert choice.params == {"lam": 1.0}
    assert choice.score == pytest.approx(0.5)


def test_at_least_as_many_candidates_are_compared_as_asked_for_whatever_they_cost(monkeypatch):
    monkeypatch.setattr(search, "build", lambda row, seed: Sleeper(0.0, 0.0))
    monkeypatch.setattr(search, "candidates", lambda method, seed, n: [{"lam": 1.0 + k} for k in range(n)])

    X, y = np.zeros((60, 2)), np.repeat([0, 1], 30)
    choice = search.choose(ROW, X, y, 0, search.Budget(0.0, 3, least=5))

    assert choice.candidates == 5
