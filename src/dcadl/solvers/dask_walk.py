"""The walk over a Dask cluster: images and codes stay on their workers, sums come home by a tree."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import Any

import numpy as np

from dcadl.ops.patches import Grid
from dcadl.solvers.dask_watch import results
from dcadl.solvers.sources import Labels, PatchCutter, StoredChunk, StoredImages
from dcadl.solvers.walk import SerialWalk, Sums, Visit, add_sums, host_slices, threads

FAN_IN = 8  # sums that one task of the tree adds up


class WorkerBlock:
    """The images of one Dask chunk on its worker, cut into chunks that fit the cache.

    `first` is the number of the first of them in the whole array.
    """

    def __init__(self, X: np.ndarray, labels: Labels, grid: Grid, how: str | None, first: int) -> None:
        source = StoredImages(X, labels.intercept.dtype, first)
        slices = host_slices(source.n, grid, source.dtype.itemsize)
        cut = PatchCutter(grid, how)
        self._bytes = X.nbytes + labels.numbers.nbytes
        self.chunks = [StoredChunk(source, labels, part, cut, "numpy") for part in slices]

    def __sizeof__(self) -> int:
        return self._bytes  # Dask moves what is small: these must not look so


class Remote(Sequence[Any]):
    """Futures, one for each block. They stay at home when a function that knows of them travels."""

    def __init__(self, futures: Sequence[Any] = ()) -> None:
        self._futures = list(futures)

    def __len__(self) -> int:
        return len(self._futures)

    def __getitem__(self, i: Any) -> Any:
        return self._futures[i]

    def __reduce__(self) -> Any:
        return Remote, ()


class DaskWalk(SerialWalk):
    """Visits blocks where they lie. What a block keeps stays there, as a future.

    Each task is known to the scheduler with all it came from: when a worker dies, its blocks and their
    codes are made again elsewhere, pass after pass, and are the same. The tree of sums has a fixed
    shape, so that a result depends on the blocks but not on the workers.
    """

    def __init__(self, client: Any) -> None:
        self._client = client

    def __call__(self, visit: Visit, *columns: Sequence[Any]) -> tuple[Remote, Sums]:
        from distributed.protocol.pickle import dumps

        submit = self._client.submit
        # A task of its own: workers hand it to each other, and it is pickled once.
        packed = submit(bytes, dumps(visit), pure=False)
        rows = zip(*columns)
        both = [submit(_visit_block, packed, *row, pure=False) for row in rows]
        kept = [submit(itemgetter(0), one, pure=False) for one in both]
        sums = [submit(itemgetter(1), one, pure=False) for one in both]
        while len(sums) > 1:
            sums = [submit(add_sums, group, pure=False) for group in _groups(sums)]
        return Remote(kept), results(self._client, sums)[0]

    def __reduce__(self) -> Any:
        return SerialWalk, ()


def blocks(client: Any, make: Callable[..., WorkerBlock], *columns: Sequence[Any]) -> Remote:
    """`make` of each row of the columns, on the workers."""
    return Remote([client.submit(make, *row, pure=False) for row in zip(*columns)])


def _visit_block(packed: bytes, block: WorkerBlock, *kept: Sequence[Any]) -> tuple[list[Any], Sums]:
    from distributed.protocol.pickle import loads

    with threads(len(block.chunks)) as walk:
        found, sums = walk(loads(packed), block.chunks, *kept)
    return list(found), sums


def _groups(futures: list[Any]) -> Iterator[list[Any]]:
    for i in range(0, len(futures), FAN_IN):
        yield futures[i : i + FAN_IN]
