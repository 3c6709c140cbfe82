"""K-SVD's dictionary update: atoms and their codes refitted one after the other, useless atoms replaced."""

from __future__ import annotations

import numpy as np

from dcadl.arrays import Array, array_namespace, device_of, fetch, zeros
from dcadl.ops.floors import USED_CODE
from dcadl.ops.patches import unit_rows

GROUP = 32  # atoms whose products are taken together
COHERENT = 0.99  # atoms closer than this are one too many
FEW_USERS = 4  # and so is an atom that fewer samples use


def refit_atoms(R: Array, X: Array, D: Array) -> tuple[Array, Array, Array]:
    """One sweep: each atom with its code becomes the rank-1 fit, by one power step, of what others leave.

    For j = 1 … K on the samples I that use atom j: E = R_I + x_jd_jᵀ, d_j ← Eᵀx_j scaled to unit length,
    x_j ← Ed_j. The sums over samples are taken for a group of atoms at a time: what the atoms of a group
    do to each other is known from their small Gram matrices, so that the result is that of the plain loop.

    Parameters
    ----------
    R : (n, p) residual of the samples, Y − XD
    X : (n, K) codes; zeros stay zero
    D : (K, p) atoms of unit length; one that no sample uses is left alone

    Returns
    -------
    R, X, D after the sweep
    """
    xp = array_namespace(R)
    codes, atoms = [], []
    for first in range(0, D.shape[0], GROUP):
        group = slice(first, min(first + GROUP, D.shape[0]))
        old_X, old_D = X[:, group], D[group, :]
        new_X, new_D = _refit_group(R, old_X.T, old_D)
        R = R + xp.concat([old_X, -new_X.T], axis=1) @ xp.concat([old_D, new_D], axis=0)
        codes.append(new_X.T)
        atoms.append(new_D)
    return R, xp.concat(codes, axis=1), xp.concat(atoms, axis=0)


def replace_atoms(D: Array, Y: Array, X: Array, errors: Array) -> Array:
    """D with every atom that doubles another, or that few samples use, replaced by a badly coded sample.

    Each sample of Y (n, p) serves once, those of the largest `errors` (n,) first, zero samples never.
    """
    xp = array_namespace(D)
    users = fetch(xp.sum(xp.astype(xp.abs(X) > USED_CODE, xp.int64), axis=0))
    chosen = _replacements(np.abs(fetch(D @ D.T)), users, _worst_first(fetch(errors), fetch(xp.vecdot(Y, Y))))
    if not chosen:
        return D
    sample = np.zeros(D.shape[0], dtype=np.int64)
    sample[list(chosen)] = list(chosen.values())
    taken = unit_rows(xp.take(Y, xp.asarray(sample, device=device_of(D)), axis=0))
    replaced = np.isin(np.arange(D.shape[0]), list(chosen))
    return xp.where(xp.asarray(replaced, device=device_of(D))[:, None], taken, D)


def _refit_group(R: Array, X: Array, D: Array) -> tuple[Array, Array]:
    """New codes (g, n) and atoms (g, p) of a group with codes X (g, n) and atoms D (g, p).

    Every new atom is a combination T of the rows of S = [XR; D], so that only R·Sᵀ and SSᵀ are needed.
    """
    xp = array_namespace(R)
    g = D.shape[0]
    S = xp.concat([X @ R, D], axis=0)  # (2g, p)
    gram, seen = S @ S.T, S @ R.T  # (2g, 2g), (2g, n)
    among = X @ X.T
    unit = xp.eye(2 * g, dtype=D.dtype, device=device_of(D))
    used = xp.astype(X != 0, X.dtype)
    T, new_X = zeros((g, 2 * g), D), zeros(X.shape, X)  # filled in place, an atom at a time
    for j in range(g):
        x = X[j, :]
        direction = unit[j, :] + among[j, : j + 1] @ unit[g : g + j + 1, :] - (new_X[:j, :] @ x) @ T[:j, :]
        square = float(direction @ (gram @ direction))
        if float(among[j, j]) == 0 or square <= 0:
            T[j, :] = unit[g + j, :]
            continue
        t = direction * (1 / square**0.5)
        T[j, :] = t
        touched = gram @ t
        fit = t @ seen + touched[g : g + j + 1] @ X[: j + 1, :] - (T[:j, :] @ touched) @ new_X[:j, :]
        new_X[j, :] = fit * used[j, :]
    return new_X, unit_rows(T @ S)


def _worst_first(errors: np.ndarray, energy: np.ndarray) -> list[int]:
    order = np.argsort(-errors, kind="stable")
    return [int(i) for i in order if energy[i] > 0]


def _replacements(coherence: np.ndarray, users: np.ndarray, samples: list[int]) -> dict[int, int]:
    """Which atom becomes which sample. Of two atoms that double each other the first goes."""
    np.fill_diagonal(coherence, 0)
    suspect = (coherence.max(axis=1) > COHERENT) | (users < FEW_USERS)
    chosen: dict[int, int] = {}
    for j, sample in zip(np.flatnonzero(suspect), samples):
        if users[j] < FEW_USERS or coherence[j].max() > COHERENT:
            chosen[int(j)] = sample
            coherence[:, j] = 0
    return chosen
