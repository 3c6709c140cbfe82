"""What makes an estimate of accuracy too good: pictures that repeat, classes that differ by accident."""

from __future__ import annotations

from typing import Any

import numpy as np

SIDE = 16  # of the small copies that pictures are compared by
ALIKE = 0.01  # mean gap between small copies that range from 0 to 1, below which pictures count as one
MOST_COMPARED = 20_000
FOLDS = 5
TELLING = 0.8  # share of the way from always naming the largest class to perfection
ROWS_AT_ONCE = 256


def small_copies(X: Any) -> Any:
    """Pictures (n, H, W[, c]) as rows of SIDE × SIDE grey averages, each picture's from 0 to 1."""
    grey = X.mean(axis=3) if X.ndim == 4 else X
    small = _bands(_bands(grey, axis=1), axis=2).reshape(len(X), -1)
    low, high = small.min(axis=1, keepdims=True), small.max(axis=1, keepdims=True)
    return (small - low) / np.maximum(high - low, np.finfo(np.float32).tiny)


def near_duplicates(copies: Any, others: Any = None) -> Any:
    """For each picture one of `others` that it nearly repeats, -1 where there is none.

    Without `others` the pictures before it are looked at, and exact repeats are passed by: a picture and
    its copies count as one in LOO-ADL.
    """
    among = copies if others is None else others
    copies, among = copies[:MOST_COMPARED], among[:MOST_COMPARED]
    squares = (among * among).sum(axis=1)
    match = np.full(len(copies), -1)
    for start in range(0, len(copies), ROWS_AT_ONCE):
        part = copies[start : start + ROWS_AT_ONCE]
        distances = (part * part).sum(axis=1)[:, None] + squares - 2 * part @ among.T
        # first those whose squared gaps are small, then the mean gap itself
        for i, j in np.argwhere(distances < part.shape[1] * (3 * ALIKE) ** 2):
            gap = np.abs(part[i] - among[j]).mean()
            before = others is not None or (j < start + i and gap > 0)
            if before and gap < ALIKE and match[start + i] < 0:
                match[start + i] = j
    return match


def tells_apart(values: Any, y: Any) -> float | None:
    """Cross-validated accuracy of a small tree on `values` (n, k) alone, if that is near perfection.

    None where it is not, or where a class has too few samples to say.
    """
    from sklearn.model_selection import StratifiedKFold, cross_val_score
    from sklearn.tree import DecisionTreeClassifier

    _, counts = np.unique(y, return_counts=True)
    if counts.min() < FOLDS:
        return None
    tree = DecisionTreeClassifier(max_leaf_nodes=4 * len(counts), random_state=0)
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0)
    accuracy = float(cross_val_score(tree, values, y, cv=folds).mean())
    share = counts.max() / counts.sum()
    return accuracy if accuracy - share > TELLING * (1 - share) else None


def _bands(images: Any, axis: int) -> Any:
    """Averages over at most SIDE bands along an axis."""
    length = images.shape[axis]
    edges = np.unique(np.linspace(0, length, min(SIDE, length) + 1).astype(int))
    sums = np.add.reduceat(images, edges[:-1], axis=axis, dtype=np.float32)
    shape = [1] * images.ndim
    shape[axis] = -1
    return sums / np.diff(edges).reshape(shape).astype(np.float32)
