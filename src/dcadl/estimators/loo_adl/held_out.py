"""Scores of images that were left out, under atoms that have not seen them: what to expect of new images."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dcadl.arrays import Array, fetch
from dcadl.estimators.loo_adl.images import Images
from dcadl.ops.discriminant import Discriminant, discriminant
from dcadl.ops.ridge import best_temperature

TIE = 1e-6  # of scores, beside their range where that is above 1: rounding of features in float32
LEAST_TEMPERATURE = 0.1  # of log odds: blank images, whose scores differ by rounding, are not told apart


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
        alike = TIE * max(1.0, float(np.ptp(self.scores)))
        best = self.scores >= self.scores.max(axis=1, keepdims=True) - alike
        named = best / best.sum(axis=1, keepdims=True)
        return (np.eye(self.scores.shape[1])[self.numbers] * self.weight[:, None]).T @ named

    def discriminated(self) -> tuple[HeldOut, Discriminant]:
        """Log odds of the classes instead of scores, each image's by others; and what gives them.

        The only image of a class cannot be right: without it nothing was known of its class.
        """
        linear, found = discriminant(self.scores, self.numbers, self.weight)
        alone = np.flatnonzero(np.bincount(self.numbers)[self.numbers] == 1)
        found[alone, self.numbers[alone]] = found[alone].min(axis=1) - 1.0
        temperature = max(best_temperature(found, self.numbers, self.weight), LEAST_TEMPERATURE)
        return self._replace(scores=found / temperature), Discriminant(*(x / temperature for x in linear))


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
    scores = found + (weight / rest)[:, None] * (np.eye(C)[numbers] - shares)
    order = np.lexsort((images.rank[positions], numbers))  # whatever order they came in
    return HeldOut(scores[order], numbers[order], weight[order])
