"""Where in a picture the evidence for a class lies: maps that add up to the score."""

from __future__ import annotations

import numpy as np

from dcadl.deploy.operations import FilterBank, GridPool, HashedLinear, Linear, Operation, Program
from dcadl.deploy.reference import apply, hashed_numbers
from dcadl.ops.patches import patch_table


def evidence(program: Program, X: np.ndarray) -> np.ndarray:
    """
    Evidence of every pixel for every class, (n, rows, columns, C).

    Summed over pixels it is the score less the intercept, for scores are sums over places: each place's part
    lies evenly on the pixels of its patch.
    """
    maps = np.asarray(X, dtype=np.float64).reshape(len(X), *program.image)
    trace = [maps]
    for operation in program.operations[:-1]:
        trace.append(apply(operation, trace[-1]))
    found, before = _of_places(program.operations[:-1], trace)
    for operation, maps in zip(reversed(before), reversed(trace[: len(before)])):
        if isinstance(operation, FilterBank):
            found = _spread(found, operation, maps.shape)
    return found


def _of_places(
    operations: tuple[Operation, ...], trace: list[np.ndarray]
) -> tuple[np.ndarray, tuple[Operation, ...]]:
    """Each place's part of the scores, and the operations before those places."""
    last = operations[-1]
    if isinstance(last, HashedLinear):
        return _of_pixels(last, trace[-2]), operations[:-1]
    assert isinstance(last, Linear)
    maps = trace[-2]
    coef = last.coef.reshape(-1, *maps.shape[1:])
    if len(operations) > 1 and isinstance(operations[-2], GridPool):
        return _of_cells(operations[-2], trace[-3], coef[:, 0]), operations[:-2]
    return np.einsum("nrcj,krcj->nrck", maps, coef), operations[:-1]


def _of_cells(pool: GridPool, maps: np.ndarray, coef: np.ndarray) -> np.ndarray:
    """A cell's average is a sum over its places: each has its share of the cell's part."""
    found = np.zeros((*maps.shape[:3], len(coef)))
    cell = 0
    for rows, columns in pool.grids:
        for top, bottom in rows:
            for left, right in columns:
                area = (bottom - top) * (right - left)
                part = maps[:, top:bottom, left:right] @ coef[:, cell].T / area
                found[:, top:bottom, left:right] += part
                cell += 1
    return found


def _of_pixels(last: HashedLinear, maps: np.ndarray) -> np.ndarray:
    """The rows of the table that a pixel's numbers name, in all blocks that hold it."""
    numbers = hashed_numbers(last, maps)  # (n, maps, pixels)
    n, _, pixels = numbers.shape
    found = np.zeros((n, pixels, last.table.shape[-1]))
    for k, blocks in enumerate(last.table):
        for bins, inside in zip(blocks, patch_table(last.blocks)):
            found[:, inside] += bins[numbers[:, k][:, inside]]
    return found.reshape(n, *last.blocks.image[:2], -1)


def _spread(found: np.ndarray, bank: FilterBank, shape: tuple[int, ...]) -> np.ndarray:
    """Evidence of places, laid evenly on the pixels of each place's patch (none beyond the border)."""
    n, rows, columns, C = found.shape
    above, left, below, right = bank.padding
    _, h, w, _ = bank.filters.shape
    inside = np.pad(np.ones(shape[1:3]), ((above, below), (left, right)))
    corners = [(i, j) for i in range(h) for j in range(w)]

    def at(array: np.ndarray, corner: tuple[int, int]) -> np.ndarray:
        """A view of the pixel at `corner` of every patch."""
        (i, j), (down, across) = corner, bank.stride
        return array[..., i : i + rows * down : down, j : j + columns * across : across]

    counts = sum(at(inside, corner)[:rows, :columns] for corner in corners)
    share = np.moveaxis(found, -1, 1) / counts
    padded = np.zeros((n, C, *inside.shape))
    for corner in corners:
        at(padded, corner)[..., :rows, :columns] += share * at(inside, corner)[:rows, :columns]
    cut = padded[:, :, above : above + shape[1], left : left + shape[2]]
    return np.moveaxis(cut, 1, -1)
