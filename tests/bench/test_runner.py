"""Runs: paired, resumed, capped; a method that fails is a row, not a crash."""

import os
from concurrent.futures.process import BrokenProcessPool

import pytest

from dcadl.bench import records
from dcadl.bench.runner import Options, Run, Worker, plan, run_all
from dcadl.bench.settings import Setting

ONE_THREAD = Options(threads=1)


def _run(method, seed=0, **params):
    return Run("digits", Setting(method, method, params), seed)


def test_methods_of_one_seed_see_the_same_test_samples(recorded):
    found = records.read(recorded)
    counts = {(r["seed"], r["label"]): r["n_test"] for r in found}

    assert len(counts) == 6
    assert set(counts.values()) == {899}


def test_a_record_holds_what_the_tables_need(recorded):
    record = records.read(recorded)[0]

    times = {"train_s", "test_given_s", "test_batch_s", "test_single_s"}
    assert times | {"accuracy", "per_class", "peak_bytes", "model_bytes", "params", "seed"} <= set(record)
    assert record["environment"]["versions"]["numpy"]
    assert record["threads"] == 1


def test_a_method_that_fails_is_a_recorded_row_and_the_others_still_run(methods, tmp_path):
    path = tmp_path / "r.jsonl"

    run_all([_run("Failing"), _run("Sleeper")], path, ONE_THREAD)

    failed, fine = records.read(path)
    assert (failed["status"], fine["status"]) == ("failed", "ok")
    assert "this method cannot learn" in failed["error"]


def test_what_is_recorded_is_not_run_again_and_failures_only_on_request(methods, tmp_path):
    path, runs = tmp_path / "r.jsonl", [_run("Failing"), _run("Sleeper")]
    for options in (ONE_THREAD, ONE_THREAD, ONE_THREAD._replace(retry_failed=True)):
        run_all(runs, path, options)

    assert [r["label"] for r in records.read(path)] == ["Failing", "Sleeper", "Failing"]


def test_an_interrupted_benchmark_goes_on_where_it_stopped(methods, tmp_path):
    path, runs = tmp_path / "r.jsonl", [_run("Sleeper", seed) for seed in range(4)]

    def interrupt(event, run, record):
        if event == "start" and run.seed == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_all(runs, path, ONE_THREAD, interrupt)
    assert [r["seed"] for r in records.read(path)] == [0, 1]
    run_all(runs, path, ONE_THREAD)
    assert [r["seed"] for r in records.read(path)] == [0, 1, 2, 3]


def test_a_method_past_its_time_is_left_out_also_after_a_restart(methods, tmp_path):
    path, options = tmp_path / "r.jsonl", Options(threads=1, cap_s=0.05)
    runs = [_run("Sleeper", seed, fit_s=0.1) for seed in range(3)]
    skipped = []

    for _ in range(2):
        run_all(
            runs, path, options, lambda event, run, _: skipped.append(run.seed) if event == "skip" else None
        )

    assert [r["seed"] for r in records.read(path)] == [0]
    assert skipped == [1, 2, 1, 2]


def test_runs_side_by_side_give_the_same_accuracies(recorded, tmp_path):
    path = tmp_path / "r.jsonl"
    small = {"patch_shape": 4, "stride": 2}

    run_all([_run("PatchRidge", seed, **small) for seed in (0, 1)], path, Options(threads=1, jobs=2))

    expected = {r["seed"]: r["accuracy"] for r in records.read(recorded) if r["label"] == "PatchRidge"}
    assert {r["seed"]: r["accuracy"] for r in records.read(path)} == expected


def test_a_run_that_kills_its_process_leaves_the_worker_fit_for_the_next():
    worker = Worker()

    with pytest.raises(BrokenProcessPool):
        worker.call(os._exit, 1)

    assert worker.call(abs, -3) == 3


def test_a_killed_run_is_a_recorded_row(monkeypatch, tmp_path):
    def die(self, function, *arguments):
        raise BrokenProcessPool("the process died")

    monkeypatch.setattr(Worker, "call", die)

    run_all([_run("PatchRidge")], tmp_path / "r.jsonl", Options(threads=1, jobs=2))

    (record,) = records.read(tmp_path / "r.jsonl")
    assert (record["status"], record["jobs"]) == ("failed", 2)
    assert "the process died" in record["error"]


def test_a_plan_goes_seed_by_seed():
    runs = plan(["digits"], ["dcadl", "patchridge"], 2)

    assert [(run.seed, run.setting.label) for run in runs] == [
        (0, "DCADL"),
        (0, "PatchRidge"),
        (1, "DCADL"),
        (1, "PatchRidge"),
    ]


def test_no_repeats_are_refused():
    with pytest.raises(ValueError, match="at least 1"):
        plan(["digits"], None, 0)
