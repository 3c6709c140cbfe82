"""Runs: paired, resumed, capped; a method that fails is a row, not a crash."""

import os
import signal
import time

import pytest

from dcadl.bench import records, runner
from dcadl.bench.runner import Options, Run, planned_runs, run_all
from dcadl.bench.settings import Setting
from dcadl.bench.workers import ProcessEndedError, Workers
from dcadl.locks import locked

ONE_THREAD = Options(threads=1)


def _run(method, seed=0, **params):
    return Run("digits", Setting(method, method, {"patch_shape": 4, **params}), seed)


QUICK = _run("PatchRidge")
FAILING = _run("RandomAtoms", patch_shape=99)  # images are eight wide


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


def test_a_method_that_fails_is_a_recorded_row_and_the_others_still_run(tmp_path):
    path = tmp_path / "r.jsonl"

    run_all([FAILING, QUICK], path, ONE_THREAD)

    failed, fine = records.read(path)
    assert (failed["status"], fine["status"]) == ("failed", "ok")
    assert "patch_shape must fit" in failed["error"]


def test_what_is_recorded_is_not_run_again_and_failures_only_on_request(tmp_path):
    path, runs = tmp_path / "r.jsonl", [FAILING, QUICK]
    for options in (ONE_THREAD, ONE_THREAD, ONE_THREAD._replace(retry_failed=True)):
        run_all(runs, path, options)

    assert [r["label"] for r in records.read(path)] == ["RandomAtoms", "PatchRidge", "RandomAtoms"]


def test_a_figure_that_is_not_a_number_is_a_failure(monkeypatch):
    monkeypatch.setattr(runner, "measure", lambda *_: {"accuracy": float("nan")})

    record = runner.run_one(QUICK, 1)

    assert record["status"] == "failed"
    assert "accuracy" not in record


def test_an_interrupted_benchmark_goes_on_where_it_stopped(tmp_path):
    path, runs = tmp_path / "r.jsonl", [_run("PatchRidge", seed) for seed in range(4)]

    def interrupt(event, run, record):
        if event == "start" and run.seed == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_all(runs, path, ONE_THREAD, interrupt)
    assert [r["seed"] for r in records.read(path)] == [0, 1]
    run_all(runs, path, ONE_THREAD)
    assert [r["seed"] for r in records.read(path)] == [0, 1, 2, 3]


def test_a_method_past_its_time_is_left_out_also_after_a_restart(tmp_path):
    path, options = tmp_path / "r.jsonl", Options(threads=1, cap_s=1e-9)
    skipped = []

    for _ in range(2):
        run_all(
            [_run("PatchRidge", seed) for seed in range(3)],
            path,
            options,
            lambda event, run, _: skipped.append(run.seed) if event == "skip" else None,
        )

    assert [r["seed"] for r in records.read(path)] == [0]
    assert skipped == [1, 2, 1, 2]


def test_time_of_runs_that_are_not_asked_for_is_not_charged(tmp_path):
    path, options = tmp_path / "r.jsonl", Options(threads=1, cap_s=1e-9)

    for lam in (0.5, 0.6):
        run_all([_run("PatchRidge", lam=lam)], path, options)

    assert [r["params"]["lam"] for r in records.read(path)] == [0.5, 0.6]


def test_what_a_tuned_run_confirms_is_run_as_a_tuned_one(tmp_path):
    path, setting = tmp_path / "r.jsonl", QUICK.setting

    for source in ("paper", "tuned"):
        run_all([QUICK._replace(setting=setting._replace(source=source))], path, ONE_THREAD)

    assert [r["source"] for r in records.read(path)] == ["paper", "tuned"]


def test_memory_does_not_depend_on_what_ran_before(tmp_path):
    hungry = _run("LCKSVD", n_atoms=100, sparsity=8, max_iter=1)
    hungry.setting.params.pop("patch_shape")
    alone, after = tmp_path / "alone", tmp_path / "after"

    run_all([QUICK], alone, ONE_THREAD)
    run_all([hungry, QUICK], after, ONE_THREAD)

    peak = [records.read(path)[-1]["peak_bytes"] for path in (alone, after)]
    assert peak[1] == pytest.approx(peak[0], rel=0.05)


def test_two_benchmarks_do_not_write_to_one_file(tmp_path):
    path = tmp_path / "r.jsonl"

    with locked(path), pytest.raises(ValueError, match="in use by another"):
        run_all([QUICK], path, ONE_THREAD)

    assert not path.exists()  # nothing half-written is left


def test_runs_side_by_side_give_the_same_accuracies(recorded, tmp_path):
    path = tmp_path / "r.jsonl"
    small = {"patch_shape": 4, "stride": 2}

    run_all([_run("PatchRidge", seed, **small) for seed in (0, 1)], path, Options(threads=1, jobs=2))

    expected = {r["seed"]: r["accuracy"] for r in records.read(recorded) if r["label"] == "PatchRidge"}
    assert {r["seed"]: r["accuracy"] for r in records.read(path)} == expected


def test_a_process_that_dies_takes_no_other_with_it():
    workers = Workers(preload="dcadl.bench.runner")

    with pytest.raises(ProcessEndedError, match="code 3"):
        workers.call(os._exit, 3)
    with pytest.raises(ProcessEndedError, match="SIGKILL"):
        workers.call(signal.raise_signal, signal.SIGKILL)

    assert workers.call(abs, -3) == 3


def test_a_killed_run_is_a_recorded_row(monkeypatch, tmp_path):
    def die(self, function, item):
        raise ProcessEndedError("the process died", 7.0)

    monkeypatch.setattr(Workers, "call", die)

    run_all([QUICK], tmp_path / "r.jsonl", Options(threads=1, jobs=2))

    (record,) = records.read(tmp_path / "r.jsonl")
    assert (record["status"], record["jobs"]) == ("failed", 2)
    assert "the process died" in record["error"]
    assert record["wall_s"] == 7.0  # it counts towards --cap


def test_an_interrupt_does_not_wait_for_what_has_begun(tmp_path):
    slow = [_run("ADLSVM", seed) for seed in range(2)]
    for run in slow:
        run.setting.params.clear()
        run.setting.params.update(max_iter=10_000_000, tol=0.0)  # hours

    def interrupt(event, run, record):
        if run.seed == 1:
            raise KeyboardInterrupt

    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run_all(slow, tmp_path / "r.jsonl", Options(threads=1, jobs=2), interrupt)

    assert time.monotonic() - begun < 120


def test_a_plan_goes_seed_by_seed():
    runs = planned_runs(["digits"], ["dcadl", "patchridge"], 2)

    assert [(run.seed, run.setting.label) for run in runs] == [
        (0, "DCADL"),
        (0, "PatchRidge"),
        (1, "DCADL"),
        (1, "PatchRidge"),
    ]


def test_no_repeats_are_refused():
    with pytest.raises(ValueError, match="at least 1"):
        planned_runs(["digits"], None, 0)
