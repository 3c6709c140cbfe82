"""The walk over chunks: a function of one chunk in, what each chunk keeps and the sum of the rest out."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, reduce
from itertools import islice
from operator import add
from typing import Any, NamedTuple, Protocol

from dcadl.arrays.threads import blas_threads, one_blas_thread

Sums = tuple[Any, ...]
Visit = Callable[..., tuple[Any, Sums]]  # one chunk -> what it keeps, and its part of the sums


class Made(NamedTuple):
    """What a chunk keeps, and how to make it again, where it can be."""

    U: Any
    again: Callable[[], Any] | None


class Walk(Protocol):
    """How chunks are visited. A solver knows no more than this about where its data lives."""

    def __call__(self, visit: Visit, *columns: Sequence[Any]) -> tuple[Sequence[Any], Sums]:
        """Call `visit` once per chunk with one entry of each column; return what was kept, and the sums."""


class SerialWalk:
    """One chunk after the other, in this thread: for a device that is parallel by itself."""

    def __call__(self, visit: Visit, *columns: Sequence[Any]) -> tuple[list[Any], Sums]:
        return _gather(visit(*row) for row in zip(*columns))


class ThreadWalk:
    """Chunks side by side in threads, each with a BLAS of one thread.

    Element-wise work is then parallel too, and no idle BLAS pool spins against another one. Sums are
    taken in the order of the chunks, so that a result does not depend on the number of threads.
    """

    def __init__(self, pool: ThreadPoolExecutor, width: int) -> None:
        self._pool = pool
        self._width = width

    def __call__(self, visit: Visit, *columns: Sequence[Any]) -> tuple[list[Any], Sums]:
        return _gather(self._results(visit, zip(*columns)))

    def _results(self, visit: Visit, rows: Iterator[tuple[Any, ...]]) -> Iterator[Any]:
        # A few chunks ahead and no more: sums of finished chunks must not pile up behind a slow one.
        waiting = [_Visit(self._pool, visit, row) for row in islice(rows, 2 * self._width)]
        try:
            while waiting:
                while not waiting[0].done() and any(one.taken_over() for one in waiting):
                    pass  # this thread works too, while the first chunk is in another's hands
                yield waiting.pop(0).result()
                waiting.extend(_Visit(self._pool, visit, row) for row in islice(rows, 1))
        finally:
            for one in waiting:  # after an error
                one.taken_back()


class _Visit:
    """A visit that a thread of the pool makes, unless the thread that waits for it comes first."""

    def __init__(self, pool: ThreadPoolExecutor, visit: Visit, row: tuple[Any, ...]) -> None:
        self._visit, self._row = visit, row
        self._future = pool.submit(visit, *row)
        self._own: tuple[Any, Sums] | None = None

    def done(self) -> bool:
        """Whether there is a result, or an error in its place."""
        return self._own is not None or self._future.done()

    def taken_over(self) -> bool:
        """Whether nobody had begun it: then it is made here and now."""
        if self._own is None and self._future.cancel():
            self._own = self._visit(*self._row)
            return True
        return False

    def taken_back(self) -> None:
        """Not to be made, if nobody has begun it."""
        self._future.cancel()

    def result(self) -> tuple[Any, Sums]:
        """What the visit gave, or its error."""
        return self._future.result() if self._own is None else self._own


@contextmanager
def threads(n_chunks: int) -> Iterator[Walk]:
    """A walk over `n_chunks` chunks with as many threads as BLAS may use just now.

    BLAS itself gets one thread even where there is but one chunk: so little work is slower with more,
    and the threads of NumPy's BLAS and of SciPy's would spin against each other.
    """
    width = min(blas_threads(), n_chunks)
    with one_blas_thread():
        if width < 2:
            yield SerialWalk()
            return
        yield ThreadWalk(_pool(width - 1, os.getpid()), width)


@cache
def _pool(width: int, process: int) -> ThreadPoolExecutor:
    """Threads that are kept: to start them takes as long as to classify some hundred images.

    A forked process has none of its parent's, so that it gets its own.
    """
    return ThreadPoolExecutor(width, thread_name_prefix=f"dcadl-{process}")


def _gather(results: Iterator[tuple[Any, Sums]] | Any) -> tuple[list[Any], Sums]:
    kept: list[Any] = []
    total: Sums = ()
    for keep, sums in results:
        kept.append(keep)
        total = add_sums([total, sums]) if total else sums
    return kept, total


def add_sums(parts: Sequence[Sums]) -> Sums:
    """Sums of some chunks to sums of them all."""
    return tuple(reduce(add, column) for column in zip(*parts))
