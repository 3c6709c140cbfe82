"""Target codes of classes: the hybrid of Walsh codes and blocks that DADL strives for."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.linalg import hadamard


class TargetCodes(NamedTuple):
    """One code per class, and how many entries of it are not zero."""

    codes: np.ndarray  # (C, r), of 0 and 1
    sparsity: int  # T0, the same for every class


class CodeSizes(NamedTuple):
    """How long the codes are and what they are made of, known before any is made."""

    order: int  # of the Walsh matrix, whose size is 2^order
    own: int  # entries that a class has alone
    length: int
    sparsity: int


def code_sizes(n_classes: int, d: int) -> CodeSizes:
    """Sizes of `hybrid_codes` for so many classes and values."""
    order = max(math.floor(math.log2((d + 1) / 3)), math.ceil(math.log2(n_classes + 1)))
    own = max(1, math.ceil((d + 2 - 2**order) / n_classes))
    return CodeSizes(order, own, n_classes * own + 2**order - 1, own + 2 ** (order - 1) - 1)


def hybrid_codes(n_classes: int, d: int) -> TargetCodes:
    """A block of ones that a class has alone, then its row of a Walsh matrix with −1 replaced by 0.

    With N = ⌊log2((d + 1)/3)⌋ the codes have r = C·⌈(d + 2 − 2^N)/C⌉ + 2^N − 1 entries, a little more than
    the data has values. Where 2^N − 1 rows are too few for the classes, N is raised until they suffice,
    and every class has at least one entry of its own; the publication leaves that case out.
    """
    order, own, _, sparsity = code_sizes(n_classes, d)
    blocks = np.kron(np.eye(n_classes), np.ones(own))
    # Row one and column one of a Walsh matrix are constant: they tell no classes apart.
    shared = (_walsh(order)[1 : n_classes + 1, 1:] > 0).astype(float)
    return TargetCodes(np.concatenate([blocks, shared], axis=1), sparsity)


def _walsh(order: int) -> np.ndarray:
    """Hadamard matrix of size 2^order, its rows in the order of their sign changes."""
    H = hadamard(2**order)
    return H[np.argsort(np.count_nonzero(np.diff(H, axis=1), axis=1))]
