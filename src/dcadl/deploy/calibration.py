"""Probabilities from scores: one temperature, fitted to samples that the model was not trained on."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dcadl.deploy.operations import Program, Softmax
from dcadl.deploy.reference import run
from dcadl.ops.ridge import best_temperature

BINS = 10


def expected_calibration_error(confidence: np.ndarray, right: np.ndarray) -> float:
    """How far confidence and accuracy lie apart on average, over ten bins of equal width."""
    gaps = np.bincount(_bins(confidence), weights=confidence - right, minlength=BINS)
    return float(np.abs(gaps).sum() / len(confidence))


class Reliability(NamedTuple):
    """How often answers of like confidence are right: bins of equal width that hold any."""

    confidence: np.ndarray  # mean of each bin
    accuracy: np.ndarray
    counts: np.ndarray


def reliability(confidence: np.ndarray, right: np.ndarray) -> Reliability:
    """Confidence and accuracy bin by bin; what `expected_calibration_error` averages the gaps of."""
    counts, sums, hits = (
        np.bincount(_bins(confidence), w, minlength=BINS) for w in (None, confidence, right)
    )
    held = counts > 0
    return Reliability(sums[held] / counts[held], hits[held] / counts[held], counts[held])


def accuracy_by_coverage(confidence: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Share of answers given, surest first, and the accuracy of those."""
    order = np.argsort(-confidence, kind="stable")
    given = np.arange(1, len(order) + 1)
    return given / len(order), np.cumsum(right[order]) / given


def with_temperature(program: Program, X: Any, y: Any) -> Program:
    """The program with the temperature of least log loss on (X, y), which training must not have seen."""
    place = np.searchsorted(program.classes, y).clip(max=len(program.classes) - 1)
    unknown = sorted({str(label) for label in np.asarray(y)[program.classes[place] != y]})
    if unknown:
        raise ValueError(f"y must hold the model's classes; got {', '.join(unknown[:5])}.")
    scores = run(program, X).scores
    return program._replace(
        operations=(*program.operations[:-1], Softmax(best_temperature(scores, place))),
        facts={**program.facts, "calibrated": True},
    )


def _bins(confidence: np.ndarray) -> np.ndarray:
    return np.minimum((confidence * BINS).astype(int), BINS - 1)
