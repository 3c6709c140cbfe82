"""Weights in 8 bits: a quarter of the flash, and what that costs in accuracy, measured."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dcadl.deploy.operations import FilterBank, HashedLinear, Int8, Linear, Operation, Program, is_identity
from dcadl.deploy.reference import apply, run

LEVELS = 127
MOST_POWER = 31  # beyond that a row is nothing beside the others
MOST_SAMPLES = 500  # that the rounding is fitted to
BLOCK = 256  # features that are rounded together
RIDGE = 1e-3  # how much weights are held, in squared lengths of a usual feature


class Int8Loss(NamedTuple):
    """Accuracy with float weights, with 8-bit weights, and on how many samples."""

    accuracy: float
    int8_accuracy: float
    n: int


def in_8_bits(program: Program, X: Any, y: Any) -> tuple[Program, Int8Loss]:
    """The program with weights of 8 bits, fitted to every other sample of X, and its loss on the rest."""
    if len(X) < 2:
        raise ValueError(f"8 bits need two samples or more, to round by and to measure on; got {len(X)}.")
    rounded = quantised(program, X[::2][:MOST_SAMPLES])
    rest, truth = X[1::2], np.asarray(y)[1::2]
    before, after = (float(np.mean(run(form, rest).labels == truth)) for form in (program, rounded))
    return rounded, Int8Loss(before, after, len(truth))


def quantised(program: Program, X: Any) -> Program:
    """The program with every filter, classifier and table in 8 bits, one scale per output.

    The classifier is rounded so that scores of the samples X stay what they were: see `_following`.
    """
    true = rounded = np.asarray(X, dtype=np.float64).reshape(len(X), *program.image)
    operations = []
    for operation in program.operations:
        operations.append(_in_int8(operation, true, rounded))
        true, rounded = apply(operation, true), apply(operations[-1], rounded)
    return program._replace(operations=tuple(operations))


def int8_columns(W: np.ndarray) -> Int8:
    """W ≈ Q·scale, Q in −127…127 and one scale per column."""
    largest = np.abs(W).max(axis=0)
    scales = np.where(largest > 0, largest, 1) / LEVELS
    return Int8(np.rint(W / scales).astype(np.int8), scales.astype(np.float32))


def int8_rows(W: np.ndarray) -> Int8:
    """The same with a power of two for each row as well: W ≈ 2^−k·Q·scale.

    Features may differ in size by orders of magnitude, and with them the classifier's rows; on one scale a
    small row would have a few levels only, or none.
    """
    largest = np.abs(W).max(axis=1)
    with np.errstate(divide="ignore"):
        powers = np.floor(np.log2(largest.max() / largest))
    powers = np.clip(np.nan_to_num(powers, posinf=MOST_POWER), 0, MOST_POWER).astype(np.int8)
    return int8_columns(W * 2.0 ** powers[:, None])._replace(powers=powers)


def _in_int8(operation: Operation, true: np.ndarray, rounded: np.ndarray) -> Operation:
    """The operation in 8 bits, for maps `rounded` where they were `true` before anything was rounded."""
    match operation:
        case FilterBank(filters=filters) if not is_identity(operation):
            int8 = int8_columns(filters.reshape(len(filters), -1).T)
            return operation._replace(filters=int8.values.T.reshape(filters.shape), int8=int8)
        case Linear(coef=coef):
            int8 = _following(coef.T.astype(np.float64), *(m.reshape(len(m), -1) for m in (true, rounded)))
            return operation._replace(coef=int8.values.T, int8=int8)
        case HashedLinear(bank=bank, table=table):
            last = _in_int8(bank, true, rounded)
            assert isinstance(last, FilterBank)
            int8 = int8_columns(table.reshape(-1, table.shape[-1]))
            return operation._replace(bank=last, table=int8.values.reshape(table.shape), int8=int8)
    return operation


def _following(W: np.ndarray, true: np.ndarray, rounded: np.ndarray) -> Int8:
    """W in 8 bits with rounded·W₈ ≈ true·W: what rounding one row does, the rows after it make up for.

    Features go together, and large weights of theirs cancel; rounded one by one, their errors do not cancel.
    Rows that weigh most come first.
    """
    int8 = int8_rows(W)
    assert int8.powers is not None
    steps = int8.scales.astype(np.float64) / 2.0 ** int8.powers[:, None]
    squares = (rounded**2).sum(axis=0)
    ridge = RIDGE * squares.mean() or 1.0
    error = (true - rounded) @ W  # of the scores, as it stands
    order = np.argsort(-squares * (steps**2).sum(axis=1), kind="stable")
    for rows in np.split(order, range(BLOCK, len(order), BLOCK)):
        x = rounded[:, rows]
        H = x.T @ x + ridge * np.eye(len(rows))
        int8.integers[rows] = _rounded_in_turn(W[rows] + np.linalg.solve(H, x.T @ error), steps[rows], H)
        error += x @ (W[rows] - int8.integers[rows] * steps[rows])
    return int8


def _rounded_in_turn(W: np.ndarray, steps: np.ndarray, H: np.ndarray) -> np.ndarray:
    """Integers Q of little ½tr(EᵀHE), E = W − Q·steps: each row's error is made up for by those below it.

    With row i set, the best of the others is its neighbour by a row of the factor U of H⁻¹ = UᵀU (Hassibi and
    Stork's Optimal Brain Surgeon; in this order for all columns at once, Frantar et al.'s GPTQ).
    """
    W, U = W.copy(), np.linalg.cholesky(np.linalg.inv(H)).T
    Q = np.empty_like(W)
    for i in range(len(W)):
        Q[i] = np.clip(np.rint(W[i] / steps[i]), -LEVELS, LEVELS)
        W[i + 1 :] -= np.outer(U[i, i + 1 :], (W[i] - Q[i] * steps[i]) / U[i, i])
    return Q
