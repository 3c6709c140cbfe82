"""Tuning: nested, within its budget, kept after each search."""

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from dcadl.bench import problems, tuning
from dcadl.bench.settings import read_tuned, settings

ROW = settings("digits", ["PatchRidge"])[0]
BUDGET = tuning.Budget(3.0, 3)


@pytest.fixture(autouse=True)
def one_thread():
    with threadpool_limits(limits=1):
        yield


def _without_clock(monkeypatch):
    monkeypatch.setattr(tuning, "_affordable", lambda fit_s, budget: 6)


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


def test_the_setting_as_it_stands_is_always_among_the_candidates():
    row = settings("digits", ["DCADL"])[0]

    points = tuning.candidates(row, 0, 4)

    assert len(points) == 4
    assert points[0]["max_iter"] == row.params["max_iter"]
    assert set(points[0]) == set(points[1])


@pytest.mark.parametrize(("fit_s", "expected"), [(1e-6, tuning.MOST_CANDIDATES), (10.0, 0)])
def test_slower_methods_get_fewer_candidates(fit_s, expected):
    assert tuning._affordable(fit_s, BUDGET) == expected


def test_no_time_to_search_keeps_the_setting():
    found = problems.fold(problems.problem("digits"), 0)

    choice = tuning.choose(ROW, found.X_train[:100], found.y_train[:100], 0, tuning.Budget(0.0, 3))

    assert (choice.params, choice.score) == ({}, None)


def test_choices_are_kept_and_a_second_start_does_only_what_is_missing(monkeypatch, tmp_path):
    path, asked = tmp_path / "tuned.toml", []

    def fake(name, row, seed, budget):
        asked.append((row.label, seed))
        return tuning.Choice({"lam": 0.5 + seed}, 3, 0.9, 1.0)

    monkeypatch.setattr(tuning, "tune_one", fake)
    for repeats in (1, 2):
        list(tuning.tune_all(["digits"], ["PatchRidge"], repeats, path, budget_s=6, folds=3, threads=1))

    assert asked == [("PatchRidge", 0), ("PatchRidge", 1)]
    assert read_tuned(path)["digits"]["PatchRidge"] == {"seed0": {"lam": 0.5}, "seed1": {"lam": 1.5}}
    assert read_tuned(path, "searches")["digits"]["PatchRidge"]["seed1"]["candidates"] == 3
