"""Atoms kept of full rank: redundant ones make way for what the samples have outside their span."""

from __future__ import annotations

from scipy.linalg import cholesky

from dcadl.arrays import Array, array_namespace, device_of, is_numpy, wide
from dcadl.ops.normalise import row_norms, unit_rows
from dcadl.ops.ridge import add_to_diagonal

SHIFT = 1e-13  # share of a Gram matrix's diagonal that keeps its Cholesky factor alive
PIVOT_TOL = 1e-10  # share of a row's squared length below which its distance to the others' span is dust


def rank(A: Array) -> int:
    """The number of rows or columns of A, whichever are fewer, that do not depend on those before them."""
    return sum(_independent(A if A.shape[0] <= A.shape[1] else A.T))


def with_full_rank(Omega: Array, samples: Array, full: int) -> Array:
    """Rows of unit length, with redundant ones replaced until the rank is `full`.

    A row is replaced by the sample that lies farthest from the span of the others, less its projection
    onto it. `full` must not exceed the rank of rows and samples together.
    """
    missing = full - rank(Omega)
    if missing <= 0:
        return Omega
    xp = array_namespace(Omega)
    redundant, basis = _split(wide(Omega))
    rest = _outside(wide(samples), basis)
    row = xp.arange(Omega.shape[0], device=device_of(Omega))[:, None]
    for i in redundant[:missing]:
        farthest = xp.argmax(row_norms(rest)[:, 0])
        direction = unit_rows(xp.take(rest, xp.reshape(farthest, (1,)), axis=0))
        Omega = xp.where(row == i, xp.astype(direction, Omega.dtype), Omega)
        rest = _outside(rest, direction)
    return Omega


def _split(Omega: Array) -> tuple[list[int], Array]:
    """Rows that depend on those before them, and an orthonormal basis of the others, one row each.

    Only as many rows as there are columns are looked at: these alone can span everything.
    """
    xp = array_namespace(Omega)
    head = Omega[: Omega.shape[1], :]
    free = _independent(head)
    kept = xp.asarray([i for i, f in enumerate(free) if f], device=device_of(Omega))
    basis = xp.linalg.qr(xp.take(head, kept, axis=0).T)[0].T
    return [i for i, f in enumerate(free) if not f], basis


def _independent(A: Array) -> list[bool]:
    """Whether each row lies outside the span of those before it.

    The squared pivots of the Cholesky factor of AAᵀ are the rows' squared distances to that span: a
    fraction of the work of singular values.
    """
    xp = array_namespace(A)
    A = wide(A)
    G = A @ A.T
    top = float(xp.max(xp.linalg.diagonal(G)))
    G = add_to_diagonal(G, SHIFT * G.shape[0] * top + float(xp.finfo(G.dtype).tiny))
    L = cholesky(G, lower=True, check_finite=False) if is_numpy(G) else xp.linalg.cholesky(G)
    pivots = xp.linalg.diagonal(L) ** 2
    return [float(pivots[i]) > max(PIVOT_TOL, 10 * SHIFT * G.shape[0]) * top for i in range(G.shape[0])]


def _outside(samples: Array, basis: Array) -> Array:
    """Samples less their projections onto the rows of an orthonormal basis."""
    return samples - (samples @ basis.T) @ basis
