"""How a fit keeps within a given number of bytes."""

from __future__ import annotations

import math
import re
from typing import Any, NamedTuple

from dcadl.ops.patches import Grid
from dcadl.solvers.code_ridge import LARGEST, judged_images
from dcadl.solvers.walk import CHUNK_BYTES

UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
UNITS |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}
CHUNK_ARRAYS = 12  # arrays of a chunk's size that a thread holds at once while it steps
REFIT_ARRAYS = 3  # the same while the last classifier is fitted
SUM_ARRAYS = 24  # arrays of the classifier's size: sums on their way, directions and images of CG steps


class MemoryPlan(NamedTuple):
    """What a budget allows to keep in memory."""

    keep_patches: bool
    code_room: int  # bytes of codes; the others are spilled or recomputed


def memory_bytes(limit: Any) -> int | None:
    """`"2GB"`, `"500 MiB"` or a number as bytes; None stays None."""
    if limit is None:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?I?B?)", str(limit).strip().upper())
    if (
        isinstance(limit, bool)
        or match is None
        or match[2] not in UNITS
        or not 0 < float(match[1]) < math.inf
    ):
        raise ValueError(
            f"max_memory must be a size such as '2GB', '500MB' or a number of bytes; got {limit!r}."
        )
    return int(float(match[1]) * UNITS[match[2]])


def largest_system(limit: int | None) -> int:
    """Rows of a matrix that may be factored: with its copies it takes up to half of the limit."""
    return LARGEST if limit is None else min(LARGEST, math.isqrt(limit // 96))


def refit_bytes(n: int, n_features: int, largest: int) -> int:
    """Most memory that the last classifier takes beyond the work on a chunk."""
    step, everything = judged_images(n, n_features, largest)
    k = -(-n // step)
    side = min(k, n_features) if everything or n_features > largest else n_features
    return max(16 * k * n_features, 8 * k * n_features + 48 * side**2)


def memory_plan(
    limit: int, n: int, grid: Grid, m: int, n_classes: int, itemsize: int, width: int
) -> MemoryPlan:
    """Codes first, then patches: codes cost a read and a write in a file, patches only a product."""
    image = grid.p * max(grid.d, m) * itemsize
    chunk = max(CHUNK_BYTES * max(grid.d, m) // grid.d, 16 * image)
    passes = width * CHUNK_ARRAYS * chunk + SUM_ARRAYS * grid.p * m * n_classes * 8
    refit = width * REFIT_ARRAYS * chunk + refit_bytes(n, grid.p * m, largest_system(limit))
    work = max(passes, refit)
    if work > limit:
        raise ValueError(
            f"max_memory must leave room for the work on one chunk, {-(-work // 10**6)} MB for these "
            f"patches and atoms; got {limit // 10**6} MB. Raise it, or use a larger stride or fewer atoms."
        )
    room = limit - work
    codes = 2 * n * grid.p * m * itemsize  # of a pass, and of the one before it
    return MemoryPlan(codes + n * grid.p * grid.d * itemsize <= room, room)
