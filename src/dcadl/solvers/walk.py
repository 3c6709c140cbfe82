"""The walk over chunks: a function of one chunk in, what each chunk keeps and the sum of the rest out.

A solver knows no more than `Walk` about where its data lie. How images are cut into chunks, in which threads
or on which device the chunks are visited, is decided here; `spill` and `dask_walk` hold two further walks.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache, partial, reduce
from itertools import islice, starmap
from typing import Any, NamedTuple, Protocol

from dcadl.arrays import (
    Array,
    array_namespace,
    beside_others,
    blas_threads,
    free_memory,
    is_numpy,
    one_blas_thread,
)
from dcadl.arrays.cuda_graphs import GraphRunner, on_side_stream
from dcadl.ops.patches import Grid, normalised_patches
from dcadl.solvers.open_visits import OpenVisit, family_here, open_visits

Sums = tuple[Any, ...]
Visit = Callable[..., tuple[Any, Sums]]  # one chunk -> what it keeps, and its part of the sums
Arrays = tuple[Array, ...]

DEVICE_SHARE = 8  # a device chunk takes this part of the free memory for its patches; the rest is for codes
CHUNK_BYTES = 5_000_000  # patches of a chunk, at most: 206 faces of the paper's Extended YaleB in float32
SMALLEST_CHUNK = 16  # images: fewer make products too small to be worth a visit


class Chunk(NamedTuple):
    """Some of the images. Patches are made on call, so that they need not all be in memory."""

    patches: Callable[[], Array]  # -> (b, p, d), normalised
    Y: Array  # (b, C)
    weight: Array | None  # (b,), or None for 1


class Recomputable(NamedTuple):
    """Codes that a chunk keeps, and how to compute them again instead of keeping them."""

    codes: Any
    recompute: Callable[[], Any]
    rejected: Any = 0  # number of images whose codes `recompute` would not give


class Walk(Protocol):
    """How chunks are visited, and how pure functions of arrays are run."""

    def __call__(self, visit: Visit, *columns: Sequence[Any]) -> tuple[Sequence[Any], Sums]:
        """Call `visit` once per chunk with one entry of each column; return what was kept, and the sums."""

    def run(self, function: Callable[..., Arrays], key: Any, number: float, *arrays: Any) -> Arrays:
        """`function(key, number, *arrays)`, which has no other effect: at once, or from a CUDA graph."""

    def aside(self) -> AbstractContextManager[Callable[[], None]]:
        """What is computed inside may run beside what follows, until the function that it gives is called."""


class SerialWalk:
    """One chunk after the other, in this thread."""

    run: Callable[..., Arrays] = operator.call  # eagerly
    _results: Callable[..., Iterable[tuple[Any, Sums]]] = starmap

    def __call__(self, visit: Visit, *columns: Sequence[Any]) -> tuple[Sequence[Any], Sums]:
        kept: list[Any] = []
        sums: Sums = ()
        for keep, part in self._results(visit, zip(*columns)):
            kept.append(keep.codes if isinstance(keep, Recomputable) else keep)
            sums = add_sums([sums, part]) if sums else part
        return kept, sums

    def aside(self) -> AbstractContextManager[Callable[[], None]]:
        return nullcontext(_no_wait)


def _no_wait() -> None:
    """What there is to wait for where one thing is computed after the other."""


class DeviceWalk(SerialWalk):
    """The same for chunks that stay on a device, which is parallel by itself: passes run from CUDA graphs."""

    def __init__(self) -> None:
        self.run = GraphRunner()
        self.aside = on_side_stream  # type: ignore[method-assign]


class ThreadWalk(SerialWalk):
    """Chunks in several threads at once, each with a BLAS of one thread.

    Element-wise work is then parallel too, and no idle BLAS pool spins against another one. Sums are
    taken in the order of the chunks, so that a result does not depend on the number of threads.
    """

    def __init__(self, pool: ThreadPoolExecutor, width: int) -> None:
        self._pool = pool
        self._width = width

    def _results(self, visit: Visit, rows: Iterator[tuple[Any, ...]]) -> Iterator[Any]:
        # A few chunks ahead and no more: sums of finished chunks must not pile up behind a slow one.
        family = family_here()
        calls = (partial(visit, *row) for row in rows)
        waiting = [self.submit(call, family) for call in islice(calls, 2 * self._width)]
        try:
            while waiting:
                yield self.result(waiting[0])
                del waiting[0]
                waiting.extend(self.submit(call, family) for call in islice(calls, 1))
        finally:
            self.withdraw(*waiting)  # after an error

    def submit(self, call: Callable[[], Any], family: object, background: bool = False) -> OpenVisit:
        """A call that a thread of the pool makes, unless one that waits comes first."""
        return open_visits().put(call, family, self._pool, background)

    def result(self, visit: OpenVisit) -> Any:
        """What it gave, or its error. While it is in another's hands, this thread makes what else is open."""
        with beside_others():
            open_visits().work_until_made(visit)
        return visit.result()

    def withdraw(self, *waiting: OpenVisit) -> None:
        """Nobody shall begin these any more."""
        for one in waiting:
            open_visits().withdraw(one)


@contextmanager
def threads(n_chunks: int) -> Iterator[Walk]:
    """A walk over `n_chunks` chunks with as many threads as BLAS may use just now.

    BLAS itself gets one thread even where there is but one chunk: so little work is slower with more,
    and the threads of NumPy's BLAS and of SciPy's would spin against each other.
    """
    width = min(blas_threads(), n_chunks)
    with one_blas_thread():
        yield SerialWalk() if width < 2 else ThreadWalk(_pool(width - 1, os.getpid()), width)


@cache
def _pool(width: int, process: int) -> ThreadPoolExecutor:
    """Threads that are kept: to start them takes as long as to classify some hundred images.

    A forked process has none of its parent's, so that it gets its own.
    """
    return ThreadPoolExecutor(width, thread_name_prefix=f"dcadl-{process}")


@contextmanager
def chunked(
    X: Array, Y: Array, weight: Array | None, grid: Grid, how: str | None
) -> Iterator[tuple[list[Chunk], Walk]]:
    """Chunks of images that lie in memory, their patches made once and kept; and the walk over them."""
    slices = chunk_slices(X, grid)
    with walker(X, slices) as walk:
        patches, _ = walk(lambda part: (normalised_patches(X[part, :], grid, how), ()), slices)
        yield (
            [
                Chunk(lambda P=P: P, Y[part, :], None if weight is None else weight[part])  # type: ignore[misc]
                for P, part in zip(patches, slices)
            ],
            walk,
        )


@contextmanager
def walker(X: Array, slices: list[slice]) -> Iterator[Walk]:
    """Threads where the array lies in host memory as NumPy's own, else one chunk after the other."""
    if is_numpy(X):
        with threads(len(slices)) as walk:
            yield walk
    else:
        yield DeviceWalk()


def map_rows(
    function: Callable[[Array], Array], X: Array, grid: Grid, slices: list[slice] | None = None
) -> Array:
    """`function` of the images of a chunk, put together again along the images."""
    slices = slices or chunk_slices(X, grid)
    if len(slices) == 1:
        return function(X)
    with walker(X, slices) as walk:
        parts, _ = walk(lambda part: (function(X[part, :]), ()), slices)
    return array_namespace(X).concat(parts, axis=0)


def chunk_slices(
    X: Array, grid: Grid, host_room: int = CHUNK_BYTES, smallest: int = SMALLEST_CHUNK
) -> list[slice]:
    """Runs of images whose patches stay in the cache; on a device, as few as its memory allows.

    On the host the cut depends on the shape of the data alone: so do the rounding errors.
    """
    itemsize = int(array_namespace(X).finfo(X.dtype).bits) // 8
    device_bytes = free_memory(X)
    room = host_room if device_bytes is None else device_bytes // DEVICE_SHARE
    return host_slices(int(X.shape[0]), grid, itemsize, room, smallest)


def host_slices(
    n: int, grid: Grid, itemsize: int, room: int | None = None, smallest: int = SMALLEST_CHUNK
) -> list[slice]:
    """Runs of `n` images whose patches take at most `room` bytes, or of `smallest` images."""
    return even_slices(n, max(smallest, (room or CHUNK_BYTES) // (grid.p * grid.d * itemsize)))


def even_slices(n: int, most: int) -> list[slice]:
    """Runs of at most so many, as good as equal; several are even in number: two threads end together."""
    count = 1 if n <= most else 2 * -(-n // (2 * most))
    b = -(-n // count)
    return [slice(i, min(i + b, n)) for i in range(0, n, b)]


def add_sums(parts: Sequence[Sums]) -> Sums:
    """Sums of some chunks to sums of them all."""
    return tuple(reduce(operator.add, column) for column in zip(*parts))
