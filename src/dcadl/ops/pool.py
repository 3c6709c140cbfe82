"""Averages of maps over a pyramid of grids, and the way back."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from dcadl.arrays import Array, array_namespace, device_of

SMALL = 4_000  # entries of (p, cells) up to which one product is faster than two


class Pyramid(NamedTuple):
    """Which cells are averaged on maps of `counts` places: all cells of g × g grids, g in `levels`."""

    counts: tuple[int, int]
    levels: tuple[int, ...]

    @property
    def n_cells(self) -> int:
        """Cells of all levels."""
        return sum(a * b for a, b in map(self.sides, self.levels))

    def sides(self, level: int) -> tuple[int, int]:
        """Cells down and across: never more than there are places."""
        return min(level, self.counts[0]), min(level, self.counts[1])

    def bands(self, axis: int) -> list[int]:
        """Where cells of any level begin along an axis, and its end: bands that no cell divides."""
        n = self.counts[axis]
        return sorted({edge for g in self.levels for edge in _edges(n, self.sides(g)[axis])})


def pool(M: Array, pyramid: Pyramid) -> Array:
    """Averages over the cells, (…, p) → (…, cells), level by level, rows of cells first.

    As products, columns to bands and bands to cells: sums over short runs of memory take much longer.
    """
    xp, shape = array_namespace(M), M.shape[:-1]
    for A in _sent_products(pyramid, M):
        M = xp.reshape(M, (-1, A.shape[0])) @ A
    return xp.reshape(M, (*shape, -1))


def unpool(D: Array, pyramid: Pyramid) -> Array:
    """The transpose of `pool`, (…, cells) → (…, p)."""
    xp, shape = array_namespace(D), D.shape[:-1]
    for A in reversed(_sent_products(pyramid, D)):
        D = xp.reshape(D, (-1, A.shape[1])) @ A.T
    return xp.reshape(D, (*shape, -1))


@lru_cache(maxsize=64)
def _products(pyramid: Pyramid, dtype: str) -> tuple[np.ndarray, ...]:
    """(columns, bands) and (rows · bands, cells); where both are small, their product (p, cells) alone."""
    bands, levels = pyramid.bands(1), [_level(pyramid, level) for level in pyramid.levels]
    across = np.repeat(np.eye(len(bands) - 1), np.diff(bands), axis=0)
    cells = np.concatenate([np.kron(down, across @ right) for down, right in levels], axis=1)
    if cells.size <= SMALL:
        return (cells.astype(dtype),)
    cells = np.concatenate([np.kron(down, right) for down, right in levels], axis=1)
    return across.astype(dtype), cells.astype(dtype)


def _level(pyramid: Pyramid, level: int) -> tuple[np.ndarray, np.ndarray]:
    """(rows, cells down) and (bands, cells across): the share of each in the average of a cell."""
    (rows, columns), (down, right) = pyramid.counts, pyramid.sides(level)
    edges, across_edges = _edges(rows, down), _edges(columns, right)
    band_cell = np.searchsorted(across_edges, pyramid.bands(1)[:-1], side="right") - 1
    return (
        np.repeat(np.eye(down) / np.diff(edges), np.diff(edges), axis=0),
        np.eye(right)[band_cell] / np.diff(across_edges),
    )


def _edges(n: int, g: int) -> list[int]:
    return [i * n // g for i in range(g + 1)]


def _sent_products(pyramid: Pyramid, like: Array) -> list[Array]:
    """Both matrices in the library, dtype and device of `like`."""
    xp = array_namespace(like)
    double = xp.finfo(like.dtype).bits == 64
    return [xp.asarray(A, device=device_of(like)) for A in _products(pyramid, "f8" if double else "f4")]
