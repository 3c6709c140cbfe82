"""Scores of images that were left out, under atoms that have not seen them: what to expect of new images."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from dcadl.arrays import Array, fetch
from dcadl.estimators.loo_adl.images import Images
from dcadl.ops.ridge import least_log_loss

TIE = 1e-6  # of scores that lie between 0 and 1: rounding of features in float32


class HeldOut(NamedTuple):
    """Scores of images that were left out, under atoms that have not seen them."""

    scores: np.ndarray  # (k, C)
    numbers: np.ndarray  # (k,) class of each
    weight: np.ndarray  # (k,)

    @property
    def accuracy(self) -> float:
        """Weighted share of images whose class is right."""
        return float(np.trace(self.confusion) / self.weight.sum())

    @property
    def loss(self) -> float:
        """Weighted mean of ‖y − score‖²: what atoms are learned by."""
        away = self.scores - np.eye(self.scores.shape[1])[self.numbers]
        return float(np.average((away**2).sum(axis=1), weights=self.weight))

    @property
    def confusion(self) -> np.ndarray:
        """Weight of images, true class in rows, named class in columns.

        Where scores are equal but for rounding, each of their classes is named in part: rounding would name
        the right one of two blank images always, or never.
        """
        best = self.scores >= self.scores.max(axis=1, keepdims=True) - TIE
        named = best / best.sum(axis=1, keepdims=True)
        return (np.eye(self.scores.shape[1])[self.numbers] * self.weight[:, None]).T @ named

    def shifted(self) -> tuple[HeldOut, np.ndarray]:
        """With what makes up for unequal shares of classes added to the scores, and that."""
        shift = share_shift(self.scores, self.numbers, self.weight)
        return self._replace(scores=self.scores + shift), shift


class CrossFitted(NamedTuple):
    """What two halves of the images say of each other's atoms."""

    scores: np.ndarray  # (k, C) left-out scores of each half under atoms learned from the other
    lam: float  # of the ridge regression that suits such scores
    learning_lam: float | None  # of the one whose error they lowered, where all images do it alike


def honest_scores(
    images: Images, positions: np.ndarray, scores: Array, total: float | None = None
) -> HeldOut:
    """Left-out scores of images, the shares of classes as they are with all `total` weight.

    Whoever leaves out one of two equal classes finds the other one larger. Where pictures tell nothing, every
    image would be named wrongly, by a share of 1/n. The only image of a class is left as it is: without it
    nothing is known of its class, so that it cannot be right.
    """
    numbers, weight = images.numbers[positions], images.weight[positions]
    found, total = fetch(scores), float(weight.sum()) if total is None else total
    C = found.shape[1]
    shares = np.bincount(images.numbers, weights=images.weight, minlength=C) / images.weight.sum()
    alone = np.bincount(images.numbers, minlength=C)[numbers] == 1
    rest = np.where(alone, np.inf, total - weight)
    return HeldOut(found + (weight / rest)[:, None] * (np.eye(C)[numbers] - shares), numbers, weight)


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
