"""Averages of maps over a pyramid of grids, and the way back."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from dcadl.arrays import Array, array_namespace, device_of


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

    As two products, columns to bands and bands to cells: sums over short runs of memory take much longer.
    """
    xp = array_namespace(M)
    rows, cols = pyramid.counts
    across, cells = (_sent(A, M) for A in _products(pyramid))
    narrow = xp.reshape(M, (-1, cols)) @ across
    return xp.reshape(xp.reshape(narrow, (-1, rows * across.shape[1])) @ cells, (*M.shape[:-1], -1))


def unpool(D: Array, pyramid: Pyramid) -> Array:
    """The transpose of `pool`, (…, cells) → (…, p)."""
    xp = array_namespace(D)
    across, cells = (_sent(A, D) for A in _products(pyramid))
    narrow = xp.reshape(xp.reshape(D, (-1, pyramid.n_cells)) @ cells.T, (-1, across.shape[1]))
    return xp.reshape(narrow @ across.T, (*D.shape[:-1], -1))


@lru_cache(maxsize=32)
def _products(pyramid: Pyramid) -> tuple[np.ndarray, np.ndarray]:
    """(columns, bands): whether a column lies in a band; (rows · bands, cells): their share of an average."""
    bands = pyramid.bands(1)
    across = np.repeat(np.eye(len(bands) - 1), np.diff(bands), axis=0)
    columns = []
    for level in pyramid.levels:
        down, right = pyramid.sides(level)
        edges, across_edges = _edges(pyramid.counts[0], down), _edges(pyramid.counts[1], right)
        rows_in = np.repeat(np.eye(down) / np.diff(edges), np.diff(edges), axis=0)
        cell = np.searchsorted(across_edges, bands[:-1], side="right") - 1
        columns.append(np.kron(rows_in, np.eye(right)[cell] / np.diff(across_edges)))
    return across, np.concatenate(columns, axis=1)


def _edges(n: int, g: int) -> list[int]:
    return [i * n // g for i in range(g + 1)]


def _sent(A: np.ndarray, like: Array) -> Array:
    return array_namespace(like).asarray(A, dtype=like.dtype, device=device_of(like))
