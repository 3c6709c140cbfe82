"""Tuning: nested, within its budget, kept after each search."""

import time
from concurrent.futures import Future

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from threadpoolctl import threadpool_limits

from dcadl.bench import problems, tuning
from dcadl.bench.settings import paper, read_tuned, settings

ROW = settings("digits", ["PatchRidge"])[0]
BUDGET = tuning.Budget(3.0, 3)


@pytest.fixture(autouse=True)
def one_thread():
    with threadpool_limits(limits=1):
        yield


@pytest.fixture
def in_this_process(monkeypatch):
    """Searches one after the other where they can be faked."""

    def one_by_one(function, items, jobs, preload):
        for item in items:
            future = Future()
            future.set_result(function(item))
            yield item, future

    monkeypatch.setattr(tuning, "side_by_side", one_by_one)


def _without_clock(monkeypatch):
    monkeypatch.setattr(tuning, "_affordable", lambda *_: 6)


def test_poisoned_test_labels_and_images_leave_the_choice_unchanged(monkeypatch):
    _without_clock(monkeypatch)
    clean = tuning.tune_one("digits", ROW, 0, BUDGET)
    data = problems.problem("digits")
    test = problems.fold(data, 0).test
    X, honest = data.X.copy(), problems.fold
    X[test] = 99.0
    poisoned = honest(data._replace(X=X), 0)

    def fold(found, seed):
        return poisoned._replace(y_test=np.zeros_like(poisoned.y_test))

    monkeypatch.setattr(tuning, "fold", fold)
    assert tuning.tune_one("digits", ROW, 0, BUDGET)[:3] == clean[:3]


def test_training_labels_do_matter(monkeypatch):
    """The check above can fail: what the search does see changes its score."""
    _without_clock(monkeypatch)
    clean = tuning.tune_one("digits", ROW, 0, BUDGET)
    found = problems.fold(problems.problem("digits"), 0)
    shuffled = np.random.default_rng(0).permutation(found.y_train)

    monkeypatch.setattr(tuning, "fold", lambda data, seed: found._replace(y_train=shuffled))

    assert tuning.tune_one("digits", ROW, 0, BUDGET).score < clean.score - 0.5


def test_candidates_are_points_of_the_space():
    points = tuning.candidates("DCADL", 0, 4)

    assert len(points) == 4
    assert all(set(point) == set(paper()["spaces"]["DCADL"]) for point in points)


@pytest.mark.parametrize(
    ("enough_for", "others"),  # in full
    [(0.9, 0), (1.9, 1), (2.0, 3), (3.3, 3), (3.4, 4), (4.0, 6), (1e9, tuning.MOST_CANDIDATES - 1)],
)
def test_as_many_candidates_as_there_is_time_for(enough_for, others):
    """Three make three thirds and the best one in full; four make four thirds and the best two."""
    assert tuning._count(enough_for * 3.0, 1.0, 3.0) == 1 + others


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
def test_a_search_keeps_to_its_time(monkeypatch, slower, sample_s, start_s):
    X, y = np.zeros((60, 2)), np.repeat([0, 1], 30)
    points = [
        {"sample_s": sample_s * slower, "start_s": start_s * slower, "lam": 1.0 + k}
        for k in range(tuning.MOST_CANDIDATES)
    ]
    monkeypatch.setattr(tuning, "build", lambda row, seed: Sleeper(sample_s, start_s))
    monkeypatch.setattr(tuning, "candidates", lambda method, seed, n: points[:n])

    choice = tuning.choose(ROW, X, y, 0, tuning.Budget(2.0, 3))

    assert choice.candidates > 2
    assert 1.0 < choice.spent_s < 2.5


def test_the_classifiers_ridge_is_drawn_as_a_ratio():
    ratios = [point["lam3"] / point["lam2"] for point in tuning.candidates("DCADL", 0, 50)]

    low, high = paper()["spaces"]["DCADL"]["lam3"]["factor"]
    assert low * 0.99 < min(ratios) < 0.2  # rounded to three digits
    assert 1 < max(ratios) < high * 1.01


@pytest.mark.parametrize(
    ("better_by", "kept"), [([0.0, 0.0, 0.01], True), ([0.01, 0.02, 0.01], False), ([-0.1, -0.1, 0.0], True)]
)
def test_a_candidate_must_beat_the_setting_by_a_standard_error(better_by, kept):
    own = np.array([0.9, 0.8, 0.85])

    assert tuning.beats(own + better_by, own) is not kept


@pytest.mark.parametrize("folds", range(2, 12))
@pytest.mark.parametrize("better_by", [0.01, 1 / 3, 0.7])
def test_one_better_fold_is_a_tie(folds, better_by):
    """Mean and standard error are then the same number, up to rounding."""
    own = np.full(folds, 0.1)

    assert not tuning.beats(own + better_by * np.eye(folds)[0], own)


@pytest.mark.parametrize("count", [2, 3, 4, 5])
def test_the_winner_is_judged_on_as_many_samples_as_the_setting(monkeypatch, count):
    monkeypatch.setattr(tuning, "_affordable", lambda *_: count)
    judged = []
    monkeypatch.setattr(tuning, "beats", lambda scores, own: judged.extend((scores, own)))
    never_differ = ROW._replace(params={**ROW.params, "lam": 1.0})
    monkeypatch.setattr(
        tuning, "candidates", lambda method, seed, n: [{"lam": 1.0 + 1e-9 * k} for k in range(n)]
    )

    tuning.tune_one("digits", never_differ, 0, BUDGET)

    np.testing.assert_array_equal(*judged)


@pytest.mark.parametrize("wins", [True, False])
def test_the_setting_stays_unless_it_is_beaten(monkeypatch, wins):
    _without_clock(monkeypatch)
    monkeypatch.setattr(tuning, "beats", lambda scores, own: wins)
    row = ROW._replace(params={**ROW.params, "lam": 1e6})  # classes drown in such a ridge

    choice = tuning.tune_one("digits", row, 0, BUDGET)

    assert (choice.params["lam"] == 1e6) is not wins


def test_no_time_to_search_keeps_the_setting():
    found = problems.fold(problems.problem("digits"), 0)

    choice = tuning.choose(ROW, found.X_train[:100], found.y_train[:100], 0, tuning.Budget(0.0, 3))

    assert (choice.params, choice.score) == ({}, None)


class Picky(Sleeper):
    """Fails under some parameters."""

    def fit(self, X, y):
        if self.lam > 1:
            raise RuntimeError("lam is too large")
        return super().fit(X, y)


@pytest.mark.parametrize("count", [2, 4])
def test_where_every_candidate_fails_the_setting_stays(monkeypatch, count):
    monkeypatch.setattr(tuning, "build", lambda row, seed: Picky())
    monkeypatch.setattr(tuning, "_count", lambda *_: count)
    monkeypatch.setattr(tuning, "candidates", lambda method, seed, n: [{"lam": 2.0 + k} for k in range(n)])

    choice = tuning.choose(ROW, np.zeros((60, 2)), np.repeat([0, 1], 30), 0, BUDGET)

    assert choice.params == {"lam": 1.0}
    assert choice.score == pytest.approx(0.5)


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_method_that_fails_is_named_and_the_others_are_still_searched(monkeypatch, tmp_path, jobs):
    """Not with faked estimators: workers are processes of their own."""
    path = tmp_path / "tuned.toml"
    good, bad = ROW, ROW._replace(label="Broken", params={"patch_shape": 99})
    monkeypatch.setattr(tuning, "rows_of", lambda names, methods: {"digits": [bad, good]})

    lines = list(tuning.tune_all(["digits"], None, 1, path, budget_s=1e6, folds=2, threads=1, jobs=jobs))

    assert set(read_tuned(path)["digits"]) == {"PatchRidge"}
    (broken,) = (line.text for line in lines if line.failed)
    assert "failed: ValueError" in broken
    assert "patch_shape" in broken
    assert len(broken) < 600
    assert sorted(line.text.partition(":")[0] for line in lines) == ["1 of 2", "2 of 2"]


def test_what_the_authors_ran_stays_what_it_is(monkeypatch, tmp_path, in_this_process):
    monkeypatch.setattr(tuning, "tune_one", lambda *_: tuning.Choice({}, 3, 0.9, 1.0))

    lines = list(
        tuning.tune_all(
            ["digits"], ["DCADL", "DCADL-paper"], 1, tmp_path / "t", budget_s=6, folds=3, threads=1
        )
    )

    assert ["DCADL seed 0" in line.text for line in lines] == [True]


def test_choices_are_kept_and_a_second_start_does_only_what_is_missing(
    monkeypatch, tmp_path, in_this_process
):
    path, asked = tmp_path / "tuned.toml", []

    def fake(name, row, seed, budget, threads):
        asked.append((row.label, seed))
        return tuning.Choice({"lam": 0.5 + seed}, 3, 0.9, 1.0)

    monkeypatch.setattr(tuning, "tune_one", fake)
    for repeats in (1, 2):
        list(tuning.tune_all(["digits"], ["PatchRidge"], repeats, path, budget_s=6, folds=3, threads=1))

    assert asked == [("PatchRidge", 0), ("PatchRidge", 1)]
    assert read_tuned(path)["digits"]["PatchRidge"] == {"seed0": {"lam": 0.5}, "seed1": {"lam": 1.5}}
    assert read_tuned(path, "searches")["digits"]["PatchRidge"]["seed1"]["candidates"] == 3


def test_two_commands_keep_each_others_choices(tmp_path):
    one, other = (tuning._Done(tmp_path / "t.toml", 6.0, 1, 3) for _ in range(2))
    for done, label in ((one, "PatchRidge"), (other, "DPL")):
        row = settings("digits", [label])[0]
        done.keep(tuning.Search("digits", row, 0), tuning.Choice({"lam": 0.5}, 3, 0.9, 1.0))

    assert set(read_tuned(tmp_path / "t.toml")["digits"]) == {"PatchRidge", "DPL"}


def test_rows_that_are_never_tuned_are_refused(tmp_path):
    with pytest.raises(ValueError, match="DCADL-paper"):
        list(tuning.tune_all(["digits"], ["DCADL-paper"], 1, tmp_path / "t", budget_s=6, folds=3, threads=1))


def test_missing_data_is_no_failed_method(tmp_path, monkeypatch):
    monkeypatch.delenv("DCADL_DATA", raising=False)
    problems.problem.cache_clear()
    with pytest.raises(FileNotFoundError):
        list(tuning.tune_all(["scene15"], ["DPL"], 1, tmp_path / "t", budget_s=6, folds=3, threads=1))


def test_a_method_without_time_in_its_first_seed_is_not_tried_in_the_others(
    monkeypatch, tmp_path, in_this_process
):
    path, asked = tmp_path / "tuned.toml", []

    def fake(name, row, seed, budget, threads):
        asked.append((row.label, seed))
        return tuning.Choice({}, 1, None, 9.0) if row.label == "SADL" else tuning.Choice({}, 3, 0.9, 1.0)

    monkeypatch.setattr(tuning, "tune_one", fake)
    lines = list(tuning.tune_all(["digits"], ["SADL", "PatchRidge"], 2, path, budget_s=6, folds=3, threads=1))

    assert sorted(asked) == [("PatchRidge", 0), ("PatchRidge", 1), ("SADL", 0)]
    assert sum("no time" in line.text for line in lines) == 2
    assert [line.text.partition(":")[0] for line in lines] == [f"{k} of 4" for k in (1, 2, 3, 4)]
    assert set(read_tuned(path)["digits"]["SADL"]) == {"seed0", "seed1"}


def test_searches_side_by_side_choose_as_one_after_the_other(tmp_path):
    """A budget with time for every candidate, so that the clock decides nothing."""
    found = []
    for jobs in (1, 2):
        path = tmp_path / f"{jobs}.toml"
        list(
            tuning.tune_all(["digits"], ["PatchRidge"], 2, path, budget_s=1e6, folds=3, threads=1, jobs=jobs)
        )
        found.append(read_tuned(path))

    assert found[0] == found[1]


@pytest.mark.parametrize(("budget_s", "again"), [(6, 0), (3, 0), (60, 1)])
def test_more_time_is_tried_where_there_was_none(monkeypatch, tmp_path, in_this_process, budget_s, again):
    path, asked = tmp_path / "tuned.toml", []

    def fake(name, row, seed, budget, threads):
        asked.append(seed)
        return tuning.Choice({}, 1, None, 9.0)

    monkeypatch.setattr(tuning, "tune_one", fake)
    search = {
        "datasets": ["digits"],
        "methods": ["SADL"],
        "repeats": 2,
        "path": path,
        "folds": 3,
        "threads": 1,
    }
    list(tuning.tune_all(**search, budget_s=6))
    asked.clear()
    list(tuning.tune_all(**search, budget_s=budget_s))

    assert len(asked) == again  # the first seed; it has no time again, so the other is not begun
