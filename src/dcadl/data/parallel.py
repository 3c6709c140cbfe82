"""Ordered work on threads with few results in flight, and the progress bar above it."""

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from joblib import effective_n_jobs
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

In = TypeVar("In")
Out = TypeVar("Out")


def parallel_map(work: Callable[[In], Out], items: Iterable[In], n_jobs: int | None = -1) -> Iterator[Out]:
    """
    Results of `work` in the order of `items`; at most three per worker wait in memory.

    Threads suffice: decoding and array arithmetic release Python's lock. joblib.Parallel would start on all
    items at once, however slowly its results are taken, and keep every decoded picture in memory.
    """
    workers = worker_count(n_jobs)
    if workers == 1:
        yield from map(work, items)
        return
    waiting: deque[Future[Out]] = deque()
    with ThreadPoolExecutor(workers) as pool:
        try:
            for item in items:
                waiting.append(pool.submit(work, item))
                if len(waiting) >= 3 * workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def worker_count(n_jobs: int | None) -> int:
    """scikit-learn's n_jobs: None is one worker, -1 every core, -2 all but one."""
    if n_jobs == 0:
        raise ValueError("n_jobs must not be 0; give a number of workers, or -1 for every core.")
    return int(effective_n_jobs(n_jobs))


def with_progress(items: Iterable[Out], total: int, title: str, show: bool | None) -> Iterator[Out]:
    """The items, counted on a bar on stderr; `show=None` draws it only on a terminal."""
    if not (sys.stderr.isatty() if show is None else show):
        yield from items
        return
    columns: tuple[Any, ...] = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        yield from bar.track(items, total=total, description=title)
