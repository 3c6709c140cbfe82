"""Method × data set × seed: what is still to run, one run, and all of them with what is done kept."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from dcadl.bench import records
from dcadl.bench.datasets import fold, load_dataset
from dcadl.bench.environment import environment
from dcadl.bench.measure import measure
from dcadl.bench.pictures import packed_atoms
from dcadl.bench.settings import Setting, build, rows_of, with_tuned
from dcadl.bench.workers import ProcessEndedError, in_processes
from dcadl.locks import locked

Watch = Callable[[str, "Run", "records.Record | None"], None]  # event, run, its record


class Run(NamedTuple):
    """One method on one split."""

    dataset: str
    setting: Setting
    seed: int

    def head(self) -> records.Record:
        """What its record is known by."""
        label, method, params, group, source, _ = self.setting
        shared = {"label": label, "method": method, "params": params, "group": group, "source": source}
        return {"dataset": self.dataset, "seed": self.seed, **shared}


class Options(NamedTuple):
    """How to run."""

    threads: int | None = None  # of BLAS and OpenMP; None leaves them alone
    jobs: int = 1
    cap_s: float | None = None  # wall-clock seconds for each method and data set, over all seeds
    retry_failed: bool = False
    budget_s: float | None = None  # wall-clock seconds for all that is begun by this start


def planned_runs(
    datasets: list[str],
    methods: list[str] | None,
    repeats: int,
    *,
    ablations: bool = False,
    tuned: dict[str, Any] | None = None,
    searches: dict[str, Any] | None = None,
) -> list[Run]:
    """Every run, seed by seed: an interrupted benchmark has complete pairs.

    `tuned` holds parameters by data set, label and seed; `searches` how many candidates there were.
    """
    if repeats < 1:
        raise ValueError(f"repeats must be at least 1; got {repeats}.")
    return [
        Run(name, with_tuned(setting, tuned or {}, name, seed, searches), seed)
        for name, rows in rows_of(datasets, methods, ablations=ablations).items()
        for seed in range(repeats)
        for setting in rows
    ]


def run_all(runs: list[Run], path: Path, options: Options, watch: Watch = lambda *_: None) -> None:
    """Run what `path` does not hold yet; each record is on disk before the next run starts."""
    with locked(path):
        wanted = {records.key(run.head()) for run in runs}
        found = [r for r in records.read_if_there(path) if records.key(r) in wanted]
        done = {records.key(r) for r in found if not (options.retry_failed and r["status"] == "failed")}
        spent = _Spent(options, found)
        waiting = [run for run in runs if records.key(run.head()) not in done]
        for name in dict.fromkeys(run.dataset for run in waiting):
            load_dataset(name)  # missing data is the user's to mend before hours of work: not a failed method
        for run, record in _results(waiting, options, spent, watch):
            records.append(path, record)
            spent.add(record)
            watch("end", run, record)


def run_one(run: Run, threads: int | None) -> records.Record:
    """One record; what goes wrong inside the method is part of it."""
    record = {**run.head(), "threads": threads, "environment": environment()}
    start = time.perf_counter()
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            outcome = {"status": "ok", **_outcome(run, threads)}
        outcome["warnings"] = sorted({str(w.message) for w in caught})[:5]
        records.line(outcome)  # a figure that is not a number is a failure of the method as well
    except Exception as error:
        outcome = {"status": "failed", "error": records.error_line(error)}
    return {**record, **outcome, "wall_s": time.perf_counter() - start}


class _Spent:
    """Wall-clock time that each method has had on each data set, over earlier starts as well."""

    def __init__(self, options: Options, found: list[records.Record]) -> None:
        self._options = options
        self._begun = time.monotonic()
        self._seconds: dict[tuple[str, str], list[float]] = {}
        for record in found:
            self.add(record)

    def add(self, record: records.Record) -> None:
        key = record["dataset"], record["label"]
        self._seconds.setdefault(key, []).append(record.get("wall_s", 0.0))

    def over(self, run: Run) -> bool:
        """Whether its method has had its time, or another run like its last would end after the budget."""
        mine = self._seconds.get((run.dataset, run.setting.label), [0.0])
        cap, budget = self._options.cap_s, self._options.budget_s
        ends = time.monotonic() - self._begun + mine[-1]
        return (cap is not None and sum(mine) >= cap) or (budget is not None and ends > budget)


def _outcome(run: Run, threads: int | None) -> dict[str, Any]:
    model = build(run.setting, run.seed)
    outcome = measure(model, fold(load_dataset(run.dataset), run.seed), threads)
    outcome["candidates"] = outcome["candidates"] or run.setting.candidates
    # Pictures come from the first seed; of the others thousands of places would only fill the file.
    shown: dict[str, Any] = {"atoms": packed_atoms(model)} if run.seed == 0 else {"atoms": None, "errors": []}
    return outcome | shown


def _results(
    runs: list[Run], options: Options, spent: _Spent, watch: Watch
) -> Iterator[tuple[Run, records.Record]]:
    """Each run with its record. Runs side by side disturb each other's times: the record says how many."""

    def affordable() -> Iterator[Run]:
        for run in runs:
            over = spent.over(run)
            watch("skip" if over else "start", run, None)
            if not over:
                yield run

    one = partial(run_one, threads=options.threads)
    for run, future in in_processes(one, affordable(), options.jobs, preload=__name__):
        try:
            record = future.result()
        except ProcessEndedError as error:
            head = {**run.head(), "threads": options.threads, "environment": environment()}
            record = {**head, "status": "failed", "error": records.error_line(error), "wall_s": error.seconds}
        yield run, {**record, "jobs": options.jobs}
