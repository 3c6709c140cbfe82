"""All searches: kept one by one, failures named, what is done not done again."""

from concurrent.futures import Future

import pytest

from dcadl.bench import datasets
from dcadl.bench.settings import read_tuned, settings
from dcadl.bench.tuning import plan
from dcadl.bench.tuning.search import Choice
from dcadl.locks import locked

ROW = settings("digits", ["PatchRidge"])[0]


@pytest.fixture
def in_this_process(monkeypatch):
    """Searches one after the other where they can be faked."""

    def one_by_one(function, items, jobs, preload):
        for item in items:
            future = Future()
            future.set_result(function(item))
            yield item, future

    monkeypatch.setattr(plan, "in_processes", one_by_one)


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_method_that_fails_is_named_and_the_others_are_still_searched(monkeypatch, tmp_path, jobs):
    """Not with faked estimators: workers are processes of their own."""
    path = tmp_path / "tuned.toml"
    good, bad = ROW, ROW._replace(label="Broken", params={"patch_shape": 99})
    monkeypatch.setattr(plan, "rows_of", lambda names, methods: {"digits": [bad, good]})

    lines = list(plan.tune_all(["digits"], None, 1, path, budget_s=1e6, folds=2, threads=1, jobs=jobs))

    assert set(read_tuned(path)["digits"]) == {"PatchRidge"}
    (broken,) = (line.text for line in lines if line.failed)
    assert "failed: ValueError" in broken
    assert "patch_shape" in broken
    assert len(broken) < 600
    assert sorted(line.text.partition(":")[0] for line in lines) == ["1 of 2", "2 of 2"]


def test_what_the_authors_ran_stays_what_it_is(monkeypatch, tmp_path, in_this_process):
    monkeypatch.setattr(plan, "tune_one", lambda *_: Choice({}, 3, 0.9, 1.0))

    lines = list(
        plan.tune_all(["digits"], ["DCADL", "DCADL-paper"], 1, tmp_path / "t", budget_s=6, folds=3, threads=1)
    )

    assert ["DCADL seed 0" in line.text for line in lines] == [True]


@pytest.mark.parametrize(("given", "expected"), [("torch", {"backend": "torch"}), (None, {})])
def test_methods_that_have_a_backend_search_on_the_one_given(
    monkeypatch, tmp_path, in_this_process, given, expected
):
    pytest.importorskip("torch")
    asked = {}

    def record(name, row, seed, budget, threads):
        asked[row.label] = {key: value for key, value in row.params.items() if key == "backend"}
        return Choice({}, 3, 0.9, 1.0)

    monkeypatch.setattr(plan, "tune_one", record)
    path, methods = tmp_path / "t", ["DCADL", "ConvNet", "PCANet"]

    list(plan.tune_all(["digits"], methods, 1, path, budget_s=6, folds=3, threads=1, least=3, backend=given))

    assert asked == {"DCADL": expected, "ConvNet": expected, "PCANet": {}}
    assert "backend" not in path.read_text()


def test_choices_are_kept_and_a_second_start_does_only_what_is_missing(
    monkeypatch, tmp_path, in_this_process
):
    path, asked = tmp_path / "tuned.toml", []

    def fake(name, row, seed, budget, threads):
        asked.append((row.label, seed))
        return Choice({"lam": 0.5 + seed}, 3, 0.9, 1.0)

    monkeypatch.setattr(plan, "tune_one", fake)
    for repeats in (1, 2):
        list(plan.tune_all(["digits"], ["PatchRidge"], repeats, path, budget_s=6, folds=3, threads=1))

    assert asked == [("PatchRidge", 0), ("PatchRidge", 1)]
    assert read_tuned(path)["digits"]["PatchRidge"] == {"seed0": {"lam": 0.5}, "seed1": {"lam": 1.5}}
    assert read_tuned(path, "searches")["digits"]["PatchRidge"]["seed1"]["candidates"] == 3


def test_rows_that_are_never_tuned_are_refused(tmp_path):
    with pytest.raises(ValueError, match="DCADL-paper"):
        list(plan.tune_all(["digits"], ["DCADL-paper"], 1, tmp_path / "t", budget_s=6, folds=3, threads=1))


def test_missing_data_is_no_failed_method(tmp_path, monkeypatch):
    monkeypatch.delenv("DCADL_DATA", raising=False)
    datasets.load_dataset.cache_clear()
    with pytest.raises(FileNotFoundError):
        list(plan.tune_all(["scene15"], ["DPL"], 1, tmp_path / "t", budget_s=6, folds=3, threads=1))


def test_a_method_without_time_in_its_first_seed_is_not_tried_in_the_others(
    monkeypatch, tmp_path, in_this_process
):
    path, asked = tmp_path / "tuned.toml", []

    def fake(name, row, seed, budget, threads):
        asked.append((row.label, seed))
        return Choice({}, 1, None, 9.0) if row.label == "SADL" else Choice({}, 3, 0.9, 1.0)

    monkeypatch.setattr(plan, "tune_one", fake)
    lines = list(plan.tune_all(["digits"], ["SADL", "PatchRidge"], 2, path, budget_s=6, folds=3, threads=1))

    assert sorted(asked) == [("PatchRidge", 0), ("PatchRidge", 1), ("SADL", 0)]
    assert sum("no time" in line.text for line in lines) == 2
    assert [line.text.partition(":")[0] for line in lines] == [f"{k} of 4" for k in (1, 2, 3, 4)]
    assert set(read_tuned(path)["digits"]["SADL"]) == {"seed0", "seed1"}


def test_searches_side_by_side_choose_as_one_after_the_other(tmp_path):
    """A budget with time for every candidate, so that the clock decides nothing."""
    found = []
    for jobs in (1, 2):
        path = tmp_path / f"{jobs}.toml"
        list(plan.tune_all(["digits"], ["PatchRidge"], 2, path, budget_s=1e6, folds=3, threads=1, jobs=jobs))
        found.append(read_tuned(path))

    assert found[0] == found[1]


@pytest.mark.parametrize(("budget_s", "again"), [(6, 0), (3, 0), (60, 1)])
def test_more_time_is_tried_where_there_was_none(monkeypatch, tmp_path, in_this_process, budget_s, again):
    path, asked = tmp_path / "tuned.toml", []

    def fake(name, row, seed, budget, threads):
        asked.append(seed)
        return Choice({}, 1, None, 9.0)

    monkeypatch.setattr(plan, "tune_one", fake)
    search = {
        "datasets": ["digits"],
        "methods": ["SADL"],
        "repeats": 2,
        "path": path,
        "folds": 3,
        "threads": 1,
    }
    list(plan.tune_all(**search, budget_s=6))
    asked.clear()
    list(plan.tune_all(**search, budget_s=budget_s))

    assert len(asked) == again  # the first seed; it has no time again, so the other is not begun


def test_two_commands_on_one_file_are_refused(tmp_path):
    """Each would write its choices over those of the other."""
    path = tmp_path / "tuned.toml"
    with locked(path), pytest.raises(ValueError, match="in use by another"):
        list(plan.tune_all(["digits"], ["PatchRidge"], 1, path, budget_s=6, folds=3, threads=1))
    assert not list(tmp_path.iterdir())
