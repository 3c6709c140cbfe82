"""Weights in 8 bits: a quarter of the flash, and what that costs in accuracy, measured."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dcadl.deploy.operations import FilterBank, HashedLinear, Linear, Operation, Program, is_identity
from dcadl.deploy.reference import run

LEVELS = 127
MOST_POWER = 31  # beyond that a row is nothing beside the others


class Int8Loss(NamedTuple):
    """Accuracy with float weights, with 8-bit weights, and on how many samples."""

    accuracy: float
    int8_accuracy: float
    n: int


def int8_columns(W: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Integers Q in −127…127 and one scale per column with W ≈ Q·scale."""
    largest = np.abs(W).max(axis=0)
    scales = np.where(largest > 0, largest, 1) / LEVELS
    return np.rint(W / scales).astype(np.int8), scales.astype(np.float32)


def int8_features(W: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The same with a power of two for each row as well: W ≈ 2^−k·Q·scale.

    Features may differ in size by orders of magnitude, and with them the classifier's rows; on one scale a
    small row would have a few levels only, or none.
    """
    largest = np.abs(W).max(axis=1)
    with np.errstate(divide="ignore"):
        powers = np.floor(np.log2(largest.max() / largest))
    powers = np.clip(np.nan_to_num(powers, posinf=MOST_POWER), 0, MOST_POWER).astype(np.int8)
    return *int8_columns(W * 2.0 ** powers[:, None]), powers


def quantised(program: Program) -> Program:
    """The program with every filter, classifier and table rounded to 8 bits, one scale per output."""
    return program._replace(operations=tuple(_rounded(operation) for operation in program.operations))


def int8_loss(program: Program, X: Any, y: Any) -> Int8Loss:
    """What rounding to 8 bits does to the accuracy on (X, y)."""
    before, after = (float(np.mean(run(form, X).labels == y)) for form in (program, quantised(program)))
    return Int8Loss(before, after, len(y))


def _rounded(operation: Operation) -> Operation:
    match operation:
        case FilterBank(filters=filters) if not is_identity(operation):
            return operation._replace(
                filters=_back(filters.reshape(len(filters), -1).T).T.reshape(filters.shape)
            )
        case Linear(coef=coef):
            integers, scales, powers = int8_features(coef.T)
            return operation._replace(coef=(integers * scales.astype(np.float64) / 2.0 ** powers[:, None]).T)
        case HashedLinear(bank=bank, table=table):
            rounded = _rounded(bank)
            assert isinstance(rounded, FilterBank)
            rows = _back(table.reshape(-1, table.shape[-1]))
            return operation._replace(bank=rounded, table=rows.reshape(table.shape))
    return operation


def _back(W: np.ndarray) -> np.ndarray:
    integers, scales = int8_columns(W)
    return integers * scales.astype(np.float64)
