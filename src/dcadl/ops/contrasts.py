"""Centred labels by their C − 1 contrasts.

A one-hot label less the shares of the classes sums to zero, and so do the rows of a classifier that is
fitted to such labels. In all C coordinates one direction holds nothing but rounding, and steps that share
directions would follow it; in an orthonormal basis of the others every norm, and so the objective, is the
same.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy.linalg import helmert


def to_contrasts(x: np.ndarray) -> np.ndarray:
    """Labels (n, C), or a classifier transposed, that sum to zero along the classes: (n, C − 1)."""
    return x @ _basis(x.shape[1]).T.astype(x.dtype)


def from_contrasts(x: np.ndarray) -> np.ndarray:
    """The same undone: (n, C − 1) to (n, C)."""
    return x @ _basis(x.shape[1] + 1).astype(x.dtype)


@cache
def _basis(n_classes: int) -> np.ndarray:
    """(C − 1, C): orthonormal rows, each of which sums to zero."""
    return helmert(n_classes)
