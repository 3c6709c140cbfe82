"""Batch orthogonal matching pursuit: sparse codes of many samples at once, from Gram matrices alone."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dcadl.arrays import Array, array_namespace, device_of, is_numpy, on_host, zeros

CACHE_BYTES = 8_000_000  # orthogonalised Gram rows of the samples that are coded together
ROUNDING = 16  # a residual or pivot of fewer units of rounding is nothing


class SparseCodes(NamedTuple):
    """Codes of n samples: `value[i, t]` belongs to atom `atom[i, t]`; a pursuit that stopped leaves zeros."""

    atom: Array  # (n, T) whole numbers
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
    size = T * K * int(xp.finfo(B.dtype).bits) // 8
    b = max(8, CACHE_BYTES // size) if on_host(B) else max(n, 1)
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

    V holds the rows of the Gram matrix that a sample has chosen, orthogonalised: v_t·d = ⟨q_t, d⟩ for the
    t-th orthonormalised atom q_t and any atom d. So V's entries at the chosen atoms are the rows of each
    sample's Cholesky factor, and subtracting ⟨q_t, y⟩v_t keeps B the correlations with the residual.
    """
    xp = array_namespace(B)
    b, K = B.shape
    dust = ROUNDING * xp.finfo(B.dtype).eps
    V = zeros((b, T, K), B)  # filled in place, one step after the other: growing it would copy it each time
    squares = xp.linalg.diagonal(G)
    left, going = energy, energy > 0
    atoms, lengths, below, along = [], [], [], []
    for t in range(T):
        atom = xp.argmax(xp.abs(B), axis=1)
        row = _entries(V[:, :t, :], atom)  # (b, t)
        square = xp.take(squares, atom)
        pivot = square - xp.sum(row * row, axis=1)
        going = going & (left > dust * energy) & (pivot > dust * square)
        if not bool(xp.any(going)):
            break
        length = xp.sqrt(xp.where(going, pivot, xp.ones_like(pivot)))
        scale = xp.where(going, 1 / length, xp.zeros_like(length))
        v = scale[:, None] * (xp.take(G, atom, axis=0) - (row[:, None, :] @ V[:, :t, :])[:, 0, :])
        c = _entries(B[:, None, :], atom)[:, 0] * scale
        B = B - c[:, None] * v
        left = left - c * c
        V[:, t, :] = v
        atoms.append(atom)
        lengths.append(length)
        below.append(row)
        along.append(c)
    return _padded(atoms, _back_substituted(lengths, below, along), B, T)


def _entries(V: Array, atom: Array) -> Array:
    """V[i, t, atom[i]] for every sample i and step t."""
    if is_numpy(V):  # a fifth of the time, and there are two such calls in every step
        return V[np.arange(V.shape[0]), :, atom]
    xp = array_namespace(V)
    where = xp.broadcast_to(atom[:, None, None], (V.shape[0], V.shape[1], 1))
    return xp.take_along_axis(V, where, axis=2)[:, :, 0]


def _back_substituted(lengths: list[Array], below: list[Array], along: list[Array]) -> list[Array]:
    """Solutions of Lᵀx = c for all samples, L having `below` under its diagonal of `lengths`."""
    if not along:
        return []
    xp = array_namespace(along[0])
    values: list[Array] = []
    rest = xp.stack(along, axis=1)
    for length, row in zip(reversed(lengths), reversed(below)):
        value = rest[:, -1] / length
        rest = rest[:, :-1] - value[:, None] * row
        values.append(value)
    return values[::-1]


def _padded(atoms: list[Array], values: list[Array], B: Array, T: int) -> tuple[Array, Array]:
    """Both as (b, T), steps that no sample took filled with zeros."""
    xp = array_namespace(B)
    missing = T - len(atoms)
    none = xp.zeros((B.shape[0],), dtype=xp.int64, device=device_of(B))
    atom = xp.stack([xp.astype(a, xp.int64) for a in atoms] + [none] * missing, axis=1)
    return atom, xp.stack(values + [zeros((B.shape[0],), B)] * missing, axis=1)
