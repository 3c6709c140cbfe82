"""Descriptors → few weighted words of a codebook."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

RIDGE = 1e-2  # of LLC, relative to the trace
BLOCK = 512  # descriptors coded at once: their table of products stays in the cache


class Codes(NamedTuple):
    """Words that describe each descriptor, and how much of each."""

    words: Any  # (N, k) indices into the codebook
    weights: Any  # (N, k)


Coder = Callable[[Any], Codes]


def hard_coder(codebook: Any) -> Coder:
    """Coder that gives each descriptor its nearest word, with weight one."""

    def code(descriptors: Any) -> Codes:
        words = np.concatenate([_nearest(block, codebook, 1)[0] for block in _blocks(descriptors)])
        return Codes(words, np.ones(words.shape, dtype=np.float32))

    return code


def llc_coder(codebook: Any, neighbours: int = 5) -> Coder:
    """
    Coder by locality-constrained linear coding: the k nearest words, with weights that sum to one.

    The words rebuild the descriptor: min ‖x - Σ w_i b_i‖² with Σ w_i = 1 and a small ridge.
    """
    gram = codebook @ codebook.T

    def code(descriptors: Any) -> Codes:
        parts = [_llc_block(block, codebook, gram, neighbours) for block in _blocks(descriptors)]
        return Codes(*(np.concatenate(part) for part in zip(*parts)))

    return code


def _llc_block(X: Any, codebook: Any, gram: Any, k: int) -> Codes:
    words, products = _nearest(X, codebook, k)
    # (b_i - x)·(b_j - x) from products computed above
    squares = np.einsum("nd,nd->n", X, X)[:, None, None]
    local = gram[words[:, :, None], words[:, None, :]] - products[:, :, None] - products[:, None, :] + squares
    trace = np.einsum("nii->n", local)
    local += (RIDGE * trace + np.finfo(np.float32).eps)[:, None, None] * np.eye(k, dtype=np.float32)
    weights = _solve_ones(local)
    return Codes(words, weights / weights.sum(axis=1, keepdims=True))


def _nearest(X: Any, codebook: Any, k: int) -> tuple[Any, Any]:
    """The k nearest words (N, k), nearest first, and their products with the descriptors (N, k)."""
    half = 0.5 * np.einsum("kd,kd->k", codebook, codebook)
    closeness = X @ codebook.T
    closeness -= half
    rows = np.arange(len(X))
    words = np.empty((len(X), k), dtype=np.intp)
    near = np.empty((len(X), k), dtype=closeness.dtype)
    for i in range(k):  # k passes of argmax beat one partition of the rows several times over
        words[:, i] = closeness.argmax(axis=1)
        near[:, i] = closeness[rows, words[:, i]]
        closeness[rows, words[:, i]] = -np.inf
    return words, near + half[words]


def _solve_ones(A: Any) -> Any:
    """Solutions of A w = 1 for many small positive definite A, by elimination over all of them at once."""
    k = A.shape[-1]
    A = np.moveaxis(A, 0, -1).copy()  # (k, k, N): contiguous over the systems
    b = np.ones_like(A[0])
    for i in range(k):
        for j in range(i + 1, k):
            factor = A[j, i] / A[i, i]
            A[j, i:] -= factor * A[i, i:]
            b[j] -= factor * b[i]
    for i in reversed(range(k)):
        b[i] = (b[i] - (A[i, i + 1 :] * b[i + 1 :]).sum(axis=0)) / A[i, i]
    return b.T


def _blocks(descriptors: Any) -> list[Any]:
    return [descriptors[i : i + BLOCK] for i in range(0, len(descriptors), BLOCK)]
