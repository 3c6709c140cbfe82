"""Whitening of patches: ZCA with a floor on the eigenvalues."""

from __future__ import annotations

import numpy as np

from dcadl.arrays import tiny
from dcadl.ops.floors import WHITENING_FLOOR


def centring(d: int) -> np.ndarray:
    """C = I − 11ᵀ/d: a patch less its mean."""
    return np.eye(d) - 1 / d


def zca(S: np.ndarray) -> np.ndarray:
    """Z = (S + floor)^(−½), symmetric, for the second moment S (d, d) of centred patches of length one."""
    if not S.any():
        return np.eye(len(S))  # all patches are flat
    values, vectors = np.linalg.eigh(S)
    floor = WHITENING_FLOOR * values.mean() + tiny(S)
    return (vectors / np.sqrt(np.clip(values, 0, None) + floor)) @ vectors.T


def typical_length(Z: np.ndarray, S: np.ndarray) -> float:
    """Root mean square of ‖Zu‖ over patches u with second moment S."""
    return float(np.sqrt(np.trace(Z @ S @ Z)))


def signless_kmeans(U: np.ndarray, m: int, rng: np.random.RandomState, passes: int = 12) -> np.ndarray:
    """m directions of unit length, each the leading one of the rows of U nearest to it, signs ignored.

    A row and its negative are one to split codes. Directions without rows start anew from rows that their own
    direction explains worst.
    """
    Omega = U[rng.permutation(len(U))[:m]] if len(U) >= m else _filled_up(U, m, rng)
    for _ in range(passes):
        R = Omega @ U.T
        size = np.abs(R)
        fit = size.max(axis=0)
        nearest = size == fit
        if nearest.sum() > len(U):  # equal directions must not share their rows: they would stay equal
            nearest &= nearest.cumsum(axis=0) == 1
        members = np.sign(R) * nearest
        sums = members @ U
        lengths = np.linalg.norm(sums, axis=1)
        empty = np.flatnonzero(lengths <= 0)
        if len(empty):
            worst = np.argsort(fit, kind="stable")[: len(empty)]
            sums[empty[: len(worst)]] = U[worst]
        Omega = sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), tiny(sums))
    return Omega


def _filled_up(U: np.ndarray, m: int, rng: np.random.RandomState) -> np.ndarray:
    """Rows of U, then random directions: there are fewer rows than atoms."""
    return np.concatenate([U, rng.standard_normal((m - len(U), U.shape[1]))]).astype(U.dtype)
