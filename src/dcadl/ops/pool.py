"""Averages of maps over a pyramid of grids, as two products, and their transpose."""

from __future__ import annotations

from itertools import pairwise
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
    """Averages over the cells, (…, p) → (…, cells), level by level, rows of cells first."""
    xp = array_namespace(M)
    down, across = pyramid.bands(0), pyramid.bands(1)
    maps = xp.reshape(M, (-1, *pyramid.counts))
    rows = [xp.sum(maps[:, a:b, :], axis=1) for a, b in pairwise(down)]
    narrow = xp.stack(rows, axis=1) @ _sent(_membership(across), M)  # (·, bands, bands)
    cells = xp.reshape(narrow, (maps.shape[0], -1)) @ _sent(_cell_averages(pyramid), M)
    return xp.reshape(cells, (*M.shape[:-1], pyramid.n_cells))


def unpool(D: Array, pyramid: Pyramid) -> Array:
    """The transpose of `pool`, left as (…, bands, columns): a band's rows are all alike (see `spread`)."""
    xp = array_namespace(D)
    down, across = pyramid.bands(0), pyramid.bands(1)
    flat = xp.reshape(D, (-1, pyramid.n_cells)) @ _sent(_cell_averages(pyramid), D).T
    narrow = xp.reshape(flat, (-1, len(across) - 1)) @ _sent(_membership(across), D).T
    return xp.reshape(narrow, (*D.shape[:-1], len(down) - 1, pyramid.counts[1]))


def spread(B: Array, pyramid: Pyramid) -> Array:
    """Bands of rows to places, (…, bands, columns) → (…, p)."""
    xp = array_namespace(B)
    down = np.asarray(pyramid.bands(0))
    repeats = xp.asarray(np.repeat(np.arange(len(down) - 1), np.diff(down)), device=device_of(B))
    rows = xp.take(B, repeats, axis=B.ndim - 2)
    return xp.reshape(rows, (*B.shape[:-2], -1))


def _edges(n: int, g: int) -> list[int]:
    return [i * n // g for i in range(g + 1)]


def _membership(edges: list[int]) -> np.ndarray:
    """(n, bands): 1 where a place lies in a band."""
    return np.repeat(np.eye(len(edges) - 1), np.diff(edges), axis=0)


def _cell_averages(pyramid: Pyramid) -> np.ndarray:
    """(bands·bands, cells): sums over bands to averages over cells."""
    columns = []
    for level in pyramid.levels:
        sides = [_in_cells(pyramid, axis, side) for axis, side in enumerate(pyramid.sides(level))]
        columns.append(np.kron(*sides))
    return np.concatenate(columns, axis=1)


def _in_cells(pyramid: Pyramid, axis: int, side: int) -> np.ndarray:
    """(bands, cells of one axis): each cell's bands, over the places in the cell."""
    bands, edges = pyramid.bands(axis), _edges(pyramid.counts[axis], side)
    cell = np.searchsorted(edges, bands[:-1], side="right") - 1
    return np.eye(side)[cell] / np.diff(edges)


def _sent(A: np.ndarray, like: Array) -> Array:
    return array_namespace(like).asarray(A, dtype=like.dtype, device=device_of(like))
