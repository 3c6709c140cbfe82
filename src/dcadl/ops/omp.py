"""Batch orthogonal matching pursuit: sparse codes of many samples at once, from Gram matrices alone."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from dcadl.arrays import Array, array_namespace, batch_rows, device_of, is_numpy, zeros
from dcadl.ops.floors import PURSUIT_ROUNDING

CACHE_BYTES = 600_000  # correlations of the samples that are coded together


class SparseCodes(NamedTuple):
    """Codes of n samples: `value[i, t]` belongs to atom `atom[i, t]`; a pursuit that stopped leaves zeros."""

    atom: Array  # (n, T) integers
    value: Array  # (n, T)


def batch_omp(G: Array, B: Array, energy: Array, sparsity: int) -> SparseCodes:
    """Codes with at most `sparsity` atoms each, chosen greedily and refitted by least squares.

    A sample takes no more atoms once its residual vanishes or its best atom depends on those it has.

    Parameters
    ----------
    G : (K, K) Gram matrix of the atoms
    B : (n, K) inner products of samples and atoms
    energy : (n,) squared lengths of the samples
    sparsity : most atoms in a code
    """
    xp = array_namespace(B)
    n, K = B.shape
    T = min(sparsity, K)
    size = K * int(xp.finfo(B.dtype).bits) // 8
    b = batch_rows(B, max(16, CACHE_BYTES // size))
    b = max(1, -(-n // max(1, -(-n // b))))  # no small rest at the end
    slices = [slice(i, min(i + b, n)) for i in range(0, n, b)]
    parts = [_pursue(G, B[part, :], energy[part], T) for part in slices]
    return SparseCodes(*(xp.concat(list(column), axis=0) for column in zip(*parts)))


def dense_codes(codes: SparseCodes, n_atoms: int) -> Array:
    """The codes as one array (n, K)."""
    atom, value = codes
    if is_numpy(value):  # sums, since a pursuit that stopped names an atom again, with value 0
        place = np.arange(len(atom))[:, None] * n_atoms + atom
        X = np.bincount(place.ravel(), weights=value.ravel(), minlength=len(atom) * n_atoms)
        return X.reshape(len(atom), n_atoms).astype(value.dtype, copy=False)
    xp = array_namespace(value)
    each = xp.arange(n_atoms, device=device_of(value))[None, :]
    X = zeros((atom.shape[0], n_atoms), value)
    for t in range(atom.shape[1]):
        X = X + xp.where(each == atom[:, t][:, None], value[:, t][:, None], xp.zeros_like(X))
    return X


def _pursue(G: Array, B: Array, energy: Array, T: int) -> tuple[Array, Array]:
    """Codes of one chunk of samples.

    M holds the inverse of each sample's Cholesky factor: its row t writes the t-th orthonormalised atom
    q_t in the atoms chosen so far. Subtracting ⟨q_t, y⟩⟨q_t, d⟩ keeps B the correlations with the residual.
    """
    xp = array_namespace(B)
    rounding = PURSUIT_ROUNDING * xp.finfo(B.dtype).eps
    M = zeros((B.shape[0], T, T), B)
    chosen = xp.zeros((B.shape[0], T), dtype=xp.int64, device=device_of(B))
    along = zeros((B.shape[0], T), B)
    squares = xp.linalg.diagonal(G)
    left, going = energy, energy > 0
    for t in range(T):
        atom = xp.argmax(xp.abs(B), axis=1)
        row = (M[:, :t, :t] @ _gram_entries(G, atom, chosen[:, :t])[:, :, None])[:, :, 0]  # (b, t)
        square = xp.take(squares, atom)
        pivot = square - xp.vecdot(row, row)
        going = going & (left > rounding * energy) & (pivot > rounding * square)
        if not bool(xp.any(going)):
            break
        pivot = xp.where(going, pivot, xp.ones_like(pivot))
        scale = xp.where(going, 1 / xp.sqrt(pivot), xp.zeros_like(pivot))
        M[:, t, :t] = -scale[:, None] * (row[:, None, :] @ M[:, :t, :t])[:, 0, :]
        M[:, t, t] = scale
        chosen[:, t] = atom
        c = xp.take_along_axis(B, atom[:, None], axis=1)[:, 0] * scale
        along[:, t] = c
        left = left - c * c
        B = B - _combined(c[:, None] * M[:, t, : t + 1], chosen[:, : t + 1], G)
    return chosen, (along[:, None, :] @ M)[:, 0, :]


def _gram_entries(G: Array, atom: Array, chosen: Array) -> Array:
    """G[atom[i], chosen[i, s]] for every sample i."""
    if is_numpy(G):
        return G[atom[:, None], chosen]
    xp = array_namespace(G)
    return xp.take_along_axis(xp.take(G, atom, axis=0), chosen, axis=1)


def _combined(weight: Array, chosen: Array, G: Array) -> Array:
    """Σ_s weight[i, s]·G[chosen[i, s]] for every sample i."""
    b, t = chosen.shape
    if is_numpy(G):  # a sparse product reads each row of G once and gathers nothing
        start = np.arange(0, b * t + 1, t)
        return csr_array((weight.ravel(), chosen.ravel(), start), shape=(b, G.shape[0])) @ G
    xp = array_namespace(G)
    rows = xp.reshape(xp.take(G, xp.reshape(chosen, (-1,)), axis=0), (b, t, G.shape[0]))
    return (weight[:, None, :] @ rows)[:, 0, :]
