"""Images cut into chunks that fit the cache, for fitting and for prediction."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dcadl.arrays import Array, array_namespace, free_memory, is_numpy, on_host
from dcadl.ops.normalise import normalised_patches
from dcadl.ops.patches import Grid
from dcadl.solvers.walk import SerialWalk, Walk, threads

DEVICE_SHARE = 8  # a device chunk takes this part of the free memory for its patches; the rest is for codes
CHUNK_BYTES = 5_000_000  # patches of a chunk, at most: 206 faces of the paper's Extended YaleB in float32


def chunk_slices(X: Array, grid: Grid) -> list[slice]:
    """Runs of images whose patches stay in the cache; on a device, as few as its memory allows.

    On the host the cut depends on the shape of the data alone: so do the rounding errors.
    """
    itemsize = int(array_namespace(X).finfo(X.dtype).bits) // 8
    room = CHUNK_BYTES if on_host(X) else free_memory(X) // DEVICE_SHARE
    return host_slices(int(X.shape[0]), grid, itemsize, room)


def host_slices(n: int, grid: Grid, itemsize: int, room: int = CHUNK_BYTES) -> list[slice]:
    """Runs of `n` images whose patches take at most `room` bytes, or 16 images.

    They are as good as equal and, where there are several, even in number: two threads end together.
    """
    most = max(16, room // (grid.p * grid.d * itemsize))
    count = 1 if n <= most else 2 * -(-n // (2 * most))
    b = -(-n // count)
    return [slice(i, min(i + b, n)) for i in range(0, n, b)]


@contextmanager
def walker(X: Array, slices: list[slice]) -> Iterator[Walk]:
    """Threads where the array lives in host memory, else one chunk after the other."""
    if is_numpy(X):
        with threads(len(slices)) as walk:
            yield walk
    else:
        yield SerialWalk()


def map_patches(function: Callable[[Array], Array], X: Array, grid: Grid, how: str | None) -> Array:
    """`function` of each chunk's normalised patches, put together again along the images."""
    return map_rows(lambda rows: function(normalised_patches(rows, grid, how)), X, grid)


def map_rows(function: Callable[[Array], Array], X: Array, grid: Grid) -> Array:
    """`function` of the images of a chunk, put together again along the images."""
    slices = chunk_slices(X, grid)
    if len(slices) == 1:
        return function(X)
    with walker(X, slices) as walk:
        parts, _ = walk(lambda part: (function(X[part, :]), ()), slices)
    return array_namespace(X).concat(parts, axis=0)
