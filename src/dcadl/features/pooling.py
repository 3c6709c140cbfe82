"""Codes of one image → one vector: words pooled over the cells of a spatial pyramid."""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from dcadl.features.sift import PatchCentres
from dcadl.features.word_coding import Codes

Pooling = Literal["max", "mean"]


class Cells(NamedTuple):
    """Where the patches of an image lie, and the pyramid over it."""

    grid: PatchCentres
    shape: tuple[int, int]  # of the image
    levels: Sequence[int]  # cells along each side


def pool(codes: Codes, n_words: int, cells: Cells, how: Pooling) -> Any:
    """
    Pooled codes (Σ level² · n_words,) float32, level after level, cell after cell.

    A word that no patch of a cell uses has value zero there, so a maximum is never negative.
    """
    return np.concatenate(
        [
            _pool_level(codes, n_words, cell_of_patch(cells.grid, cells.shape, level), level * level, how)
            for level in cells.levels
        ]
    )


def cell_of_patch(grid: PatchCentres, shape: tuple[int, int], level: int) -> Any:
    """Cell 0 … level²-1 of every patch, row by row of the grid: the one its centre lies in."""
    row, column = (
        np.floor((centres + 0.5) * level / length).astype(np.intp)
        for centres, length in zip((grid.rows, grid.columns), shape)
    )
    return (row[:, None] * level + column[None, :]).ravel()


def _pool_level(codes: Codes, n_words: int, cells: Any, n_cells: int, how: Pooling) -> Any:
    places = (cells[:, None] * n_words + codes.words).ravel()
    values = codes.weights.ravel()
    if how == "max":
        pooled = np.zeros(n_cells * n_words, dtype=np.float32)
        np.maximum.at(pooled, places, values)
        return pooled
    sums = np.bincount(places, weights=values, minlength=n_cells * n_words)
    patches = np.maximum(np.bincount(cells, minlength=n_cells), 1)  # an empty cell stays zero
    return (sums.reshape(n_cells, n_words) / patches[:, None]).ravel().astype(np.float32)
