"""Hard thresholding: the largest entries of each row, and nothing else."""

from __future__ import annotations

import numpy as np

from dcadl.arrays import Array, array_namespace, is_numpy


def hard_threshold(x: Array, keep: int) -> Array:
    """H_T(x): the `keep` entries of largest magnitude in each row (n, m), the others zero.

    The projection of each row onto the vectors with at most `keep` entries. Between entries of equal
    magnitude the choice is arbitrary, but never more than `keep` remain.
    """
    if keep >= x.shape[1]:
        return x
    xp = array_namespace(x)
    return xp.where(_largest(xp.abs(x), keep), x, xp.zeros_like(x))


def _largest(size: Array, keep: int) -> Array:
    """Which entries are among the `keep` largest of their row."""
    if is_numpy(size):  # a partition is several times as fast as the standard's sort
        chosen = np.zeros(size.shape, dtype=bool)
        order = np.argpartition(size, size.shape[1] - keep, axis=1)
        np.put_along_axis(chosen, order[:, -keep:], True, axis=1)
        return chosen
    xp = array_namespace(size)
    order = xp.argsort(size, axis=1, descending=True)
    return xp.argsort(order, axis=1) < keep  # the place of each entry in that order
