"""The operations in plain NumPy, float64: what every export must agree with."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dcadl.deploy.operations import (
    FilterBank,
    GridPool,
    HardThreshold,
    HashedLinear,
    Linear,
    Operation,
    Program,
    Relu,
    Rescale,
    Softmax,
    SoftThreshold,
    Split,
    UnitImage,
    bank_grid,
)
from dcadl.estimators.probabilities import softmax
from dcadl.ops.codes import soft_threshold
from dcadl.ops.hashing import binary_codes
from dcadl.ops.patches import patch_table, take_patches, unit_rows
from dcadl.ops.threshold import hard_threshold


class Answer(NamedTuple):
    """What a model says of a batch of samples."""

    labels: np.ndarray  # (n,)
    scores: np.ndarray  # (n, C)
    probabilities: np.ndarray  # (n, C)


def run(program: Program, X: Any) -> Answer:
    """Labels, scores and probabilities of samples (n, …) by the operations alone."""
    maps = np.asarray(X, dtype=np.float64).reshape(len(X), *program.image)
    for operation in program.operations[:-1]:
        maps = apply(operation, maps)
    scores = maps[:, 0, 0]
    return Answer(program.classes[scores.argmax(axis=1)], scores, softmax(scores, program.temperature))


def apply(operation: Operation, maps: np.ndarray) -> np.ndarray:
    """One operation on a batch of maps (n, rows, columns, channels)."""
    match operation:
        case Rescale(factor):
            return maps * factor
        case UnitImage():
            return unit_rows(maps.reshape(len(maps), -1)).reshape(maps.shape)
        case FilterBank():
            return _responses(operation, maps)
        case SoftThreshold(threshold):
            return soft_threshold(maps, threshold)
        case HardThreshold(keep):
            return hard_threshold(maps.reshape(-1, maps.shape[-1]), keep).reshape(maps.shape)
        case Relu():
            return np.maximum(maps, 0)
        case Split(t):
            return np.concatenate([np.maximum(maps - t, 0), np.maximum(-maps - t, 0)], axis=-1)
        case GridPool():
            return _pooled(operation, maps)
        case Linear(coef, intercept):
            return (maps.reshape(len(maps), -1) @ coef.T.astype(np.float64) + intercept)[:, None, None]
        case HashedLinear():
            return _hashed_scores(operation, maps)
        case Softmax(temperature):
            return softmax(maps[:, 0, 0], temperature)[:, None, None]


def _responses(bank: FilterBank, maps: np.ndarray) -> np.ndarray:
    if bank.per_channel:
        alone = bank._replace(per_channel=False)
        channels = [_responses(alone, maps[..., k : k + 1]) for k in range(maps.shape[-1])]
        return np.concatenate(channels, axis=-1)
    above, left, below, right = bank.padding
    padded = np.pad(maps, ((0, 0), (above, below), (left, right), (0, 0)))
    grid = bank_grid(bank, maps.shape[1:])
    P = _normalised(take_patches(padded.reshape(len(maps), -1), grid), bank)
    found = P @ bank.filters.reshape(len(bank.filters), -1).T.astype(np.float64) + bank.bias
    return found.reshape(len(maps), *grid.counts, -1)


def _normalised(P: np.ndarray, bank: FilterBank) -> np.ndarray:
    if bank.local is None:
        return P
    lengths = np.linalg.norm(P, axis=-1, keepdims=True)
    if bank.local == "unit":
        lengths = np.maximum(lengths, bank.floor)
    else:
        P = P - P.mean(axis=-1, keepdims=True)
        lengths = np.maximum(np.linalg.norm(P, axis=-1, keepdims=True), bank.floor * lengths)
    return P / np.where(lengths > 0, lengths, 1)


def _pooled(pool: GridPool, maps: np.ndarray) -> np.ndarray:
    cells = [
        maps[:, top:bottom, left:right].mean(axis=(1, 2))
        for rows, columns in pool.grids
        for top, bottom in rows
        for left, right in columns
    ]
    return np.stack(cells, axis=1)[:, None]


def hashed_numbers(operation: HashedLinear, maps: np.ndarray) -> np.ndarray:
    """The number of each pixel in each map, (n, maps, pixels)."""
    n, _, _, L1 = maps.shape
    by_map = np.moveaxis(maps, -1, 1).reshape(n * L1, *maps.shape[1:3], 1)
    source = by_map if operation.bank.per_channel else maps
    largest = np.abs(source).max(axis=(1, 2, 3)) + np.abs(operation.bank.bias).max()
    responses = _responses(operation.bank._replace(per_channel=False), source)
    floor = (operation.rounding * largest)[:, None, None]
    codes = binary_codes(responses.reshape(len(source), -1, responses.shape[-1]), floor)
    return codes.reshape(n, -1, codes.shape[-1])


def _hashed_scores(operation: HashedLinear, maps: np.ndarray) -> np.ndarray:
    inside = hashed_numbers(operation, maps)[:, :, patch_table(operation.blocks)]  # (n, maps, blocks, pixels)
    table = operation.table.astype(np.float64)
    scores = np.zeros((len(maps), table.shape[-1]))
    for k, blocks in enumerate(table):
        for b, bins in enumerate(blocks):
            scores += bins[inside[:, k, b]].sum(axis=1)
    return (scores + operation.intercept)[:, None, None]
