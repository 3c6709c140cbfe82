"""Linear discriminants of left-out scores: how images of each class score that the classifier has not seen.

Ridge regression to one-hot labels gives an image scores s that sum to 1. The largest of them need not be the
best name: of three classes on a line the one in the middle has the largest score nowhere, however far apart
the three lie. What left-out images of each class score tells them apart all the same, by linear discriminants
of the contrasts z = H(s − s̄) (Hastie, Tibshirani and Buja 1994):

    μ_c = (Σ_{j in c} z_j + ν μ°_c) / (n_c + ν),   μ°_c = κH(e_c − π)
    Σ   = (1 − α)S + (α tr S/(C − 1) + ε²)I,   S the mean of (z_j − μ_c)(z_j − μ_c)ᵀ, c the class of j
    δ_c = μ_cᵀΣ⁻¹z − ½μ_cᵀΣ⁻¹μ_c + log π_c

π are the shares of the classes and κ > 0 is that of least squares: with α = 1 and ν = ∞ the largest score
wins, but for log π. ε is a floor below which scores are moved by being left out itself. α and ν are those of
least log loss on images of folds that had no part in Σ and μ; the largest score stays where nothing is better
by a standard error. All of it is linear in s: a linear classifier that gives s gives δ by other coefficients.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
from scipy.special import log_softmax

from dcadl.ops.floors import LEAST_RISE, LEFT_OUT_FLOOR
from dcadl.ops.ridge import best_temperature, from_contrasts, to_contrasts

FOLDS = 10
ENOUGH, MOST_SCORES = 2_000, 200_000  # images that α and ν are chosen by, in whole folds, and their scores
ALPHAS = (1.0, 0.3, 0.1, 0.01)  # the first one with the first ν: the largest score wins
NUS = (np.inf, 10.0, 0.0)  # in images

Shrinkage = tuple[float, float]  # α and ν


class Discriminant(NamedTuple):
    """δ = As + b; columns of A sum to zero, and so does b."""

    A: np.ndarray  # (C, C)
    b: np.ndarray  # (C,)

    def __call__(self, scores: np.ndarray) -> np.ndarray:
        """δ of scores (n, C)."""
        return scores @ self.A.T + self.b


class Moments(NamedTuple):
    """Sums over images."""

    n: np.ndarray  # (C,) images of each class
    z: np.ndarray  # (C, C − 1) Σz of each class
    zz: np.ndarray  # (C − 1, C − 1) Σzzᵀ


def discriminant(
    scores: np.ndarray, numbers: np.ndarray, weight: np.ndarray
) -> tuple[Discriminant, np.ndarray]:
    """The discriminants of left-out scores (n, C), and δ of each image by folds that it is not in.

    The only image of a class says nothing of how its class scores: without it nothing was known of the class.
    """
    C = scores.shape[1]
    weight = weight * (np.count_nonzero(weight) / weight.sum())  # in images, whatever its unit
    shares = np.bincount(numbers, weights=weight, minlength=C) / weight.sum()
    weight = np.where(np.bincount(numbers, minlength=C)[numbers] == 1, 0.0, weight)
    if not weight.any():
        return Discriminant(np.eye(C) - 1 / C, np.zeros(C)), scores - scores.mean(axis=1, keepdims=True)
    middle = np.average(scores, axis=0, weights=weight)
    z, folds = to_contrasts(scores - middle), _folds(numbers)
    of_each = [_moments(z[fold], numbers[fold], weight[fold], C) for fold in folds]
    whole = Moments(*(np.sum(column, axis=0) for column in zip(*of_each)))
    others = [Moments(*(x - y for x, y in zip(whole, own))) for own in of_each]
    enough = min(ENOUGH, MOST_SCORES // C, len(z))
    judges = folds[: -(-len(folds) * enough // len(z))]
    judged = np.concatenate(judges)

    def held_out(folds: Sequence[np.ndarray], how: Shrinkage) -> np.ndarray:
        found = (_linear(rest, shares, *how) for rest in others)
        return np.concatenate([z[fold] @ K + b for fold, (K, b) in zip(folds, found)])

    compared = list(product(ALPHAS, NUS))
    losses = [_losses(held_out(judges, how), numbers[judged], weight[judged]) for how in compared]
    best = compared[_least(losses, weight[judged])]
    found = np.empty_like(scores)
    found[np.concatenate(folds)] = held_out(folds, best)
    K, b = _linear(whole, shares, *best)
    A = from_contrasts(K.T)
    return Discriminant(A, b - A @ middle), found


def _folds(numbers: np.ndarray) -> list[np.ndarray]:
    """Images of each fold, with as many of each class in all of them as can be."""
    order = np.argsort(numbers, kind="stable")
    return [order[k::FOLDS] for k in range(min(FOLDS, len(order)))]


def _losses(found: np.ndarray, numbers: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """The log loss of each image at the best temperature."""
    logs: np.ndarray = log_softmax(found / best_temperature(found, numbers, weight), axis=1)
    return -logs[np.arange(len(found)), numbers]


def _least(losses: Sequence[np.ndarray], weight: np.ndarray) -> int:
    """Which has the least mean; the first, where that is not better by more than a standard error."""
    best = int(np.argmin([np.average(one, weights=weight) for one in losses]))
    gain = losses[0] - losses[best]
    mean = np.average(gain, weights=weight)
    variance = np.average((gain - mean) ** 2, weights=weight)
    return best if mean > np.sqrt(variance / np.count_nonzero(weight)) else 0


def _moments(z: np.ndarray, numbers: np.ndarray, weight: np.ndarray, C: int) -> Moments:
    own, heavy = np.eye(C)[:, numbers], z * weight[:, None]
    return Moments(own @ weight, own @ heavy, z.T @ heavy)


def _linear(moments: Moments, shares: np.ndarray, alpha: float, nu: float) -> tuple[np.ndarray, np.ndarray]:
    """K (C − 1, C) and b (C,) of δ = zK + b."""
    n, z, zz = moments
    mu = _means(n[:, None], z, shares, nu)
    cross = z.T @ mu
    total = max(n.sum(), 1.0)  # a fold may hold all images of more than one class
    S = (zz - cross - cross.T + mu.T @ (n[:, None] * mu)) / total
    even = alpha * np.trace(S) / len(S) + (LEFT_OUT_FLOOR / total) ** 2
    K = np.linalg.solve((1 - alpha) * S + even * np.eye(len(S)), mu.T)
    b = np.log(np.where(shares > 0, shares, 1)) - 0.5 * (mu.T * K).sum(axis=0)
    return K - K.mean(axis=1, keepdims=True), b - b.mean()


def _means(n: np.ndarray, z: np.ndarray, shares: np.ndarray, nu: float) -> np.ndarray:
    """μ (C, C − 1), of n (C, 1) images of each class."""
    label = to_contrasts(np.eye(len(shares)) - shares)
    rise = np.sum(z * label) / max(np.sum(n * label**2), np.finfo(float).tiny)
    ideal = label * max(rise, LEAST_RISE)
    if nu == np.inf:
        return ideal
    count = n + nu
    return np.where(count > 0, (z + nu * ideal) / np.where(count > 0, count, 1.0), ideal)
