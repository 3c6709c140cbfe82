"""Features centred and brought to comparable size, as ridge regression wants them, and the way back."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dcadl.arrays import Array, array_namespace, device_of, tiny
from dcadl.ops.floors import DEVIATION_FLOOR, FEATURE_FLOOR


class Groups(NamedTuple):
    """Which features are alike (a pyramid's levels), and how much each group counts."""

    of: np.ndarray  # (D,) group of each feature
    gain: np.ndarray  # one number a group


class Standard(NamedTuple):
    """(F − mean)·gain, with what the way back needs."""

    mean: Array  # (D,)
    gain: Array  # (D,): the group's gain / divisor; 0 where the deviation is rounding
    deviation: Array  # (D,)
    divisor: Array  # (D,): deviation + 0.1 × the mean deviation of the group
    groups: Groups


def standard_of(F: Array, share: Array, groups: Groups) -> Standard:
    """Weighted means and deviations of F's columns; `share` (n,) sums to one."""
    return standardised(F, share, groups)[1]


def standardised(F: Array, share: Array, groups: Groups) -> tuple[Array, Standard]:
    """F by its own standard, and that."""
    mean = share @ F
    away = F - mean
    standard = standard_from(mean, array_namespace(F).sqrt(share @ (away * away)), groups)
    away *= standard.gain
    return away, standard


def standard_from(mean: Array, deviation: Array, groups: Groups) -> Standard:
    """The same of means and deviations that are known."""
    xp = array_namespace(mean)
    divisor = deviation + DEVIATION_FLOOR * _group_means(deviation, groups) + _no_deviation(mean)
    gain = xp.asarray(groups.gain[groups.of], dtype=mean.dtype, device=device_of(mean)) / divisor
    gain = gain * xp.astype(deviation > FEATURE_FLOOR, gain.dtype)
    return Standard(mean, gain, deviation, divisor, groups)


def standardise(F: Array, standard: Standard) -> Array:
    """(F − mean)·gain."""
    away = F - standard.mean
    away *= standard.gain
    return away


def standardise_back(A: Array, dA: Array, share: Array, standard: Standard) -> Array:
    """dL/dF from dL/dA, A the standardised F, means and deviations moving along; Σ_i dA_i must be zero."""
    xp = array_namespace(A)
    d_divisor = -xp.sum(dA * A, axis=0) / standard.divisor
    d_deviation = d_divisor + DEVIATION_FLOOR * _group_means(d_divisor, standard.groups)
    rate = d_deviation / (standard.deviation + _no_deviation(A))
    none = xp.astype(standard.gain == 0, A.dtype)
    dF = A * (rate / (standard.gain + none))  # (F − mean)·rate; A is zero where there is no gain
    dF *= share[:, None]
    dF += dA * standard.gain
    return dF


def _no_deviation(F: Array) -> float:
    """Added to deviations: where all are zero, neither a gain nor its square overflows."""
    return math.sqrt(tiny(F))


def _group_means(x: Array, groups: Groups) -> Array:
    """The mean over its group, for each feature. Its own transpose, too."""
    xp = array_namespace(x)
    members = np.eye(len(groups.gain))[groups.of]  # (D, groups)
    M = xp.asarray(members / np.sqrt(members.sum(axis=0)), dtype=x.dtype, device=device_of(x))
    return M @ (M.T @ x)
