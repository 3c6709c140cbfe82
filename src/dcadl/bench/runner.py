"""Method × data set × seed: what is still to run, one run, and all of them with what is done kept."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple

from dcadl.bench import records
from dcadl.bench.environment import environment
from dcadl.bench.measure import measure
from dcadl.bench.pictures import packed_atoms
from dcadl.bench.problems import fold, problem
from dcadl.bench.settings import Setting, build, settings, with_tuned

Watch = Callable[[str, "Run", "records.Record | None"], None]  # event, run, its record


class Run(NamedTuple):
    """One method on one split."""

    dataset: str
    setting: Setting
    seed: int

    def head(self) -> records.Record:
        """What its record is known by."""
        label, method, params, group, source = self.setting
        shared = {"label": label, "method": method, "params": params, "group": group, "source": source}
        return {"dataset": self.dataset, "seed": self.seed, **shared}


class Options(NamedTuple):
    """How to run."""

    threads: int | None = None  # of BLAS and OpenMP; None leaves them alone
    jobs: int = 1
    cap_s: float | None = None  # wall-clock seconds for each method and data set, over all seeds
    retry_failed: bool = False


def plan(
    datasets: list[str],
    methods: list[str] | None,
    repeats: int,
    *,
    ablations: bool = False,
    tuned: dict[str, Any] | None = None,
) -> list[Run]:
    """Every run, seed by seed: an interrupted benchmark has complete pairs."""
    if repeats < 1:
        raise ValueError(f"repeats must be at least 1; got {repeats}.")
    return [
        Run(name, with_tuned(setting, tuned or {}, name, seed), seed)
        for name in datasets
        for seed in range(repeats)
        for setting in settings(name, methods, ablations=ablations)
    ]


def run_all(runs: list[Run], path: Path, options: Options, watch: Watch = lambda *_: None) -> None:
    """Run what `path` does not hold yet; each record is on disk before the next run starts."""
    found = records.read(path) if path.exists() else []
    done = {records.key(r) for r in found if not (options.retry_failed and r["status"] == "failed")}
    spent = _Spent(options.cap_s, found)
    waiting = [run for run in runs if records.key(run.head()) not in done]
    for name in dict.fromkeys(run.dataset for run in reversed(waiting)):
        problem(name)  # missing data is the user's to mend before hours of work: not a failed method
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
    except Exception as error:
        outcome = {"status": "failed", "error": records.short(error)}
    return {**record, **outcome, "wall_s": time.perf_counter() - start}


class _Spent:
    """Wall-clock time that each method has had on each data set, over earlier starts as well."""

    def __init__(self, cap_s: float | None, found: list[records.Record]) -> None:
        self._cap_s = cap_s
        self._seconds: dict[tuple[str, str], float] = {}
        for record in found:
            self.add(record)

    def add(self, record: records.Record) -> None:
        key = record["dataset"], record["label"]
        self._seconds[key] = self._seconds.get(key, 0.0) + record.get("wall_s", 0.0)

    def over(self, run: Run) -> bool:
        return (
            self._cap_s is not None and self._seconds.get((run.dataset, run.setting.label), 0) >= self._cap_s
        )


def _outcome(run: Run, threads: int | None) -> dict[str, Any]:
    model = build(run.setting, run.seed)
    outcome = measure(model, fold(problem(run.dataset), run.seed), threads)
    return outcome | {"atoms": packed_atoms(model) if run.seed == 0 else None}


def _results(
    runs: list[Run], options: Options, spent: _Spent, watch: Watch
) -> Iterator[tuple[Run, records.Record]]:
    if options.jobs > 1:
        yield from _side_by_side(runs, options, spent, watch)
        return
    for run in runs:
        if spent.over(run):
            watch("skip", run, None)
            continue
        watch("start", run, None)
        yield run, run_one(run, options.threads)


def _side_by_side(
    runs: list[Run], options: Options, spent: _Spent, watch: Watch
) -> Iterator[tuple[Run, records.Record]]:
    """`jobs` processes. Their times disturb each other: the record says how many there were."""
    workers: SimpleQueue[Worker] = SimpleQueue()
    for _ in range(options.jobs):
        workers.put(Worker())
    flying: dict[Future[records.Record], Run] = {}
    queue = iter(runs)
    with ThreadPoolExecutor(options.jobs) as threads:
        while True:
            while len(flying) < options.jobs and (run := next(queue, None)) is not None:
                if spent.over(run):
                    watch("skip", run, None)
                    continue
                watch("start", run, None)
                flying[threads.submit(_in_worker, workers, run, options)] = run
            if not flying:
                return
            for future in wait(flying, return_when=FIRST_COMPLETED).done:
                yield flying.pop(future), future.result()


class Worker:
    """A process of its own for one run after the other; a run that kills it takes no other with it."""

    def __init__(self) -> None:
        self._pool: ProcessPoolExecutor | None = None

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """The function's result from the other process; BrokenProcessPool where that process died."""
        self._pool = self._pool or ProcessPoolExecutor(1, mp_context=get_context("spawn"))
        try:
            return self._pool.submit(function, *arguments).result()
        except BrokenProcessPool:
            self._pool = None
            raise


def _in_worker(workers: SimpleQueue[Worker], run: Run, options: Options) -> records.Record:
    worker = workers.get()
    try:
        record = worker.call(run_one, run, options.threads)
    except BrokenProcessPool as error:  # killed, as for want of memory
        head = {**run.head(), "threads": options.threads, "environment": environment()}
        record = {**head, "status": "failed", "error": records.short(error), "wall_s": 0.0}
    finally:
        workers.put(worker)
    return {**record, "jobs": options.jobs}
