"""Probabilities from scores: one temperature, fitted to samples that the model was not trained on."""

from __future__ import annotations

from typing import Any

import numpy as np

from dcadl.deploy.operations import Program, Softmax
from dcadl.deploy.reference import run
from dcadl.ops.softmax import best_temperature

BINS = 10


def expected_calibration_error(confidence: np.ndarray, right: np.ndarray) -> float:
    """How far confidence and accuracy lie apart on average, over ten bins of equal width."""
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    gaps = np.bincount(bins, weights=confidence - right, minlength=BINS)
    return float(np.abs(gaps).sum() / len(confidence))


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
