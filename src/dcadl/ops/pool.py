"""Averages of maps over a pyramid of grids, and the way back."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache
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
        return sum(math.prod(self.sides(level)) for level in self.levels)

    def sides(self, level: int) -> tuple[int, int]:
        """Cells down and across: never more than there are places."""
        return min(level, self.counts[0]), min(level, self.counts[1])

    def bands(self, axis: int) -> list[int]:
        """Where cells of any level begin along an axis, and its end: bands that no cell divides."""
        n = self.counts[axis]
        return sorted({edge for g in self.levels for edge in _edges(n, self.sides(g)[axis])})

    def row_slices(self) -> list[slice]:
        """Rows of each band."""
        edges = self.bands(0)
        return [slice(a, b) for a, b in pairwise(edges)]


def pool_bands(sums: Iterable[Array], pyramid: Pyramid) -> Array:
    """Averages over the cells, level by level, rows of cells first: k sums a band → (b, k·m, cells).

    What comes are sums (m, b, columns) of maps over the rows of each band: k of the first band, k of the next
    Columns are added up to bands that no cell divides likewise; then bands make cells. Both by products: sums
    over short runs of memory take longer. Where bands are cells already, they are only scaled.
    """
    narrow, b = [], 0
    for one in sums:
        xp, b = array_namespace(one), one.shape[1]
        across, *levels = _sent_products(pyramid, one)
        narrow.append(xp.reshape(one, (-1, one.shape[2])) @ across)
    bands = xp.reshape(xp.stack(narrow, axis=0), (len(pyramid.bands(0)) - 1, -1, b, across.shape[1]))
    rows = xp.reshape(xp.permute_dims(bands, (2, 1, 0, 3)), (-1, levels[0].shape[0]))
    cells = [rows * shares if shares.ndim == 1 else rows @ shares for shares in levels]
    return xp.reshape(xp.concat(cells, axis=1), (b, -1, pyramid.n_cells))


def unpool(D: Array, pyramid: Pyramid) -> Array:
    """The transpose of `pool_bands`, (b, m, cells) → (bands, m, b, columns), alike for all rows of a band."""
    xp, (b, m, _) = array_namespace(D), D.shape
    across, *levels = _sent_products(pyramid, D)
    bands, begin = 0.0, 0
    for level, shares in zip(pyramid.levels, levels):
        end = begin + math.prod(pyramid.sides(level))
        cells = xp.reshape(D[:, :, begin:end], (b * m, -1))
        bands, begin = bands + (cells * shares if shares.ndim == 1 else cells @ shares.T), end
    narrow = xp.reshape(bands, (b, m, -1, across.shape[1]))
    spread = xp.reshape(xp.permute_dims(narrow, (2, 1, 0, 3)), (-1, across.shape[1])) @ across.T
    return xp.reshape(spread, (-1, m, b, pyramid.counts[1]))


@lru_cache(maxsize=64)
def _products(pyramid: Pyramid, dtype: str) -> tuple[np.ndarray, ...]:
    """Columns to bands, (columns, bands); bands down · across to cells of each level.

    Of a level whose cells are the bands themselves, only the shares: (bands,).
    """
    edges = pyramid.bands(1)
    across = np.repeat(np.eye(len(edges) - 1), np.diff(edges), axis=0)
    cells = [np.kron(*(_shares(pyramid, level, axis) for axis in (0, 1))) for level in pyramid.levels]
    short = [one.diagonal() if one.shape[0] == one.shape[1] else one for one in cells]
    return across.astype(dtype), *(one.astype(dtype) for one in short)


def _shares(pyramid: Pyramid, level: int, axis: int) -> np.ndarray:
    """(bands, cells) along an axis: what a sum over each band counts in the average of a cell."""
    g = pyramid.sides(level)[axis]
    edges = _edges(pyramid.counts[axis], g)
    cell = np.searchsorted(edges, pyramid.bands(axis)[:-1], side="right") - 1
    return np.eye(g)[cell] / np.diff(edges)


def _edges(n: int, g: int) -> list[int]:
    return [i * n // g for i in range(g + 1)]


def _sent_products(pyramid: Pyramid, like: Array) -> list[Array]:
    """These matrices in the library, dtype and device of `like`."""
    xp = array_namespace(like)
    double = xp.finfo(like.dtype).bits == 64
    return [xp.asarray(A, device=device_of(like)) for A in _products(pyramid, "f8" if double else "f4")]
