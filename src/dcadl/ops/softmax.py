"""Probabilities from scores: a softmax, and the temperature that makes it honest."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize_scalar

LOG_RANGE = (-7.0, 7.0)  # of the temperature's natural logarithm, beside the spread of the scores


def softmax(scores: np.ndarray, temperature: float) -> np.ndarray:
    """exp(s/temperature), scaled to sum to one; the largest s is taken off first: nothing overflows."""
    scaled = np.exp((scores - scores.max(axis=1, keepdims=True)) / temperature)
    return scaled / scaled.sum(axis=1, keepdims=True)


def best_temperature(scores: np.ndarray, numbers: np.ndarray, weight: np.ndarray | None = None) -> float:
    """The temperature of least log loss on scores (n, C) of images that the model has not seen.

    `numbers` are their classes. Scores are measured in units of their own spread, so that any scale will do.
    """
    return least_log_loss(scores, numbers, weight)[0]


def share_shift(scores: np.ndarray, numbers: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """What to add to the scores of each class, a multiple of the logarithm of its share, for least log loss.

    Ridge regression shrinks the scores of a class the more, the fewer images it has. Where all classes have
    the same share nothing is added.
    """
    C = scores.shape[1]
    shares = np.bincount(numbers, weights=weight, minlength=C)
    present = shares > 0
    logs = np.log(np.where(present, shares, shares.max()) / shares.max())
    if np.allclose(logs, 0.0):
        return np.zeros(C)

    def loss(gain: float) -> float:
        return least_log_loss(scores + gain * logs, numbers, weight)[1]

    most = float(scores.std()) / float(np.ptp(logs))
    gain = minimize_scalar(loss, bounds=(-most, most), method="bounded", options={"xatol": most / 50}).x
    return gain * logs if loss(gain) < loss(0.0) else np.zeros(C)


def least_log_loss(
    scores: np.ndarray, numbers: np.ndarray, weight: np.ndarray | None = None
) -> tuple[float, float]:
    """That temperature, and the log loss at it: how well scores tell classes apart, whatever their scale."""
    scores = scores.astype(np.float64) - scores.max(axis=1, keepdims=True)
    away = scores - scores.mean(axis=1, keepdims=True)
    spread = float(np.sqrt(np.mean(away**2))) or 1.0
    scores = scores / spread
    own = scores[np.arange(len(scores)), numbers]

    def log_loss(log_temperature: float) -> float:
        beta = np.exp(-log_temperature)
        return float(np.average(np.log(np.exp(beta * scores).sum(axis=1)) - beta * own, weights=weight))

    found = minimize_scalar(log_loss, bounds=LOG_RANGE, method="bounded")
    return spread * float(np.exp(found.x)), float(found.fun)
