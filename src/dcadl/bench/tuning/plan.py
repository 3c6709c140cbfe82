"""Which searches to make, in which order, and what becomes of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from dcadl.arrays import check_backend
from dcadl.bench.datasets import load_dataset
from dcadl.bench.methods import find_class
from dcadl.bench.records import error_line
from dcadl.bench.settings import Setting, benchmark_config, rows_of
from dcadl.bench.tuning.file import ChoiceFile
from dcadl.bench.tuning.search import Budget, Choice, Search, tune_one
from dcadl.bench.workers import ProcessEndedError, in_processes
from dcadl.locks import locked


class SearchProgress(NamedTuple):
    """A line on a search, and whether its method failed."""

    text: str
    failed: bool


def tune_all(
    datasets: list[str],
    methods: list[str] | None,
    repeats: int,
    path: Path,
    *,
    budget_s: float,
    folds: int,
    threads: int | None,
    jobs: int = 1,
    least: int = 0,
    backend: str | None = None,
) -> Iterator[SearchProgress]:
    """Search for every method, data set and seed that `path` lacks; keep each choice; a line on each.

    Seed by seed: once a method had no time to search in its first seed, no other of its seeds is begun.
    A method that fails is named and left out; the next start tries it again. Methods that can, run on
    `backend`; what they choose there does not name it.
    """
    if backend is not None:
        check_backend(backend)
    budget = Budget(budget_s / repeats, folds, least)
    rows = rows_of(datasets, methods)
    tunable = [(name, row) for name in datasets for row in rows[name] if _is_tunable(row)]
    if not tunable:
        raise ValueError(f"none of these is tuned: {', '.join(methods or ())}, which stay as they were run.")
    every = [Search(name, _on(row, backend), seed) for seed in range(repeats) for name, row in tunable]
    with locked(path):
        choose = partial(_choice_of, budget=budget, threads=threads)
        yield from _searched(every, ChoiceFile(path, budget), choose, jobs)


def _searched(
    every: list[Search], done: ChoiceFile, choose: Callable[[Search], Choice], jobs: int
) -> Iterator[SearchProgress]:
    """Each search that is still to make, in a process of its own."""
    for name in {search.dataset for search in every if not done.has(search)}:
        load_dataset(name)  # missing data is the user's to mend: not a failed method
    # Asked when a search is about to begin, not when it is planned: some first seeds are known by then.
    todo = (s for s in every if not done.has(s) and not done.hopeless(s))
    found = ((s, _outcome(future)) for s, future in in_processes(choose, todo, jobs, preload=__name__))
    failed: list[Search] = []
    no_time = ((s, Choice({}, 1, None, 0.0)) for s in every if not done.has(s) and s not in failed)
    for search, choice in chain(found, no_time):
        if choice.error is None:
            done.keep(search, choice)
        else:
            failed.append(search)
        count = sum(map(done.has, every)) + len(failed)
        yield SearchProgress(f"{count} of {len(every)}: {_line(search, choice)}", choice.error is not None)


def _is_tunable(row: Setting) -> bool:
    return row.method in benchmark_config()["spaces"] and row.label not in benchmark_config()["untuned"]


def _on(row: Setting, backend: str | None) -> Setting:
    """The row on that backend, if one is given and its method has a choice."""
    if backend is None or "backend" not in find_class(row.method)().get_params():
        return row
    return row._replace(params=row.params | {"backend": backend})


def _choice_of(search: Search, budget: Budget, threads: int | None) -> Choice:
    """What the search found; what goes wrong inside the method is part of it."""
    try:
        return tune_one(*search, budget, threads)
    except Exception as error:
        return _failed(error)


def _outcome(future: Future[Choice]) -> Choice:
    try:
        return future.result()
    except ProcessEndedError as error:
        return _failed(error)


def _failed(error: Exception) -> Choice:
    return Choice({}, 1, None, 0.0, error_line(error))


def _line(search: Search, choice: Choice) -> str:
    name, row, seed = search
    if choice.error is not None:
        return f"{name} {row.label} seed {seed}: failed: {choice.error}"
    if choice.score is None:
        return f"{name} {row.label} seed {seed}: no time to search, settings kept ({choice.spent_s:.0f} s)"
    return (
        f"{name} {row.label} seed {seed}: {100 * choice.score:.2f} % in cross-validation, best of "
        f"{choice.candidates} ({choice.spent_s:.0f} s): {choice.params}"
    )
