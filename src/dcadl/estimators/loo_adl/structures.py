"""Which structures LOO-ADL compares for images of a given shape, and what the user has fixed of them."""

from __future__ import annotations

from numbers import Integral
from typing import Any, NamedTuple

from dcadl.ops.patches import Grid, patch_grid
from dcadl.solvers.structure import NORMALISATIONS

ATOMS = 32
SIDES = {24: (5, 7, 9), 12: (3, 5, 7), 0: (3, 4, 5)}  # sides of patches, by the shorter side of images
LENGTHS = {64: (9, 17, 33), 0: (3, 5, 9)}  # lengths of patches, by the length of signals
PYRAMIDS = {8: ((1,), (1, 2, 4), (2, 4, 8)), 4: ((1,), (1, 2), (2, 4)), 0: ((1,), (1, 2))}  # by places


class Candidates(NamedTuple):
    """What is compared: every grid with every normalisation and pyramid."""

    grids: list[Grid]
    normalisations: tuple[str | None, ...]
    pools: tuple[tuple[int, ...], ...]


def candidates(
    shape: tuple[int, ...], patch_shape: Any, stride: Any, normalize: Any, pool: Any, vector: bool
) -> Candidates:
    """All that "auto" leaves open. Plain vectors have no neighbours: one patch of all values, as they are."""
    step = 1 if stride == "auto" else stride
    if vector and _auto(patch_shape):
        grids = [patch_grid(shape, None, step)]
    else:
        sizes = _sizes(shape) if _auto(patch_shape) else (patch_shape,)
        grids = [patch_grid(shape, size, step) for size in sizes]
    usual = (None,) if vector else NORMALISATIONS[:3]
    return Candidates(
        grids,
        usual if _auto(normalize) else (normalize,),
        _pools(grids[-1]) if _auto(pool) else (tuple(pool),),
    )


def check_levels(pool: Any) -> None:
    """Refuse what is not one or more sides of grids."""
    good = isinstance(pool, tuple | list) and len(pool) > 0
    if not good or not all(isinstance(g, Integral) and not isinstance(g, bool) and 1 <= g <= 64 for g in pool):
        raise ValueError(f'pool must be "auto" or integers from 1 to 64 such as (1, 2, 4); got {pool!r}.')


def _auto(value: Any) -> bool:
    return isinstance(value, str) and value == "auto"


def _sizes(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Patches that fit and leave several places."""
    shortest = min(shape[:2])
    table = SIDES if len(shape) > 1 else LENGTHS
    wanted = next(sizes for least, sizes in table.items() if shortest >= least)
    return tuple(size for size in wanted if 2 * size <= shortest + 1) or (max(1, min(3, shortest)),)


def _pools(grid: Grid) -> tuple[tuple[int, ...], ...]:
    places = max(grid.counts) if min(grid.counts) == 1 else min(grid.counts)  # a signal is one place high
    return next(pools for least, pools in PYRAMIDS.items() if places >= least)
