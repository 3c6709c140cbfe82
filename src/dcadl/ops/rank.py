"""Atoms kept of full rank: redundant ones make way for what the samples have outside their span."""

from __future__ import annotations

from scipy.linalg import cholesky

from dcadl.arrays import Array, array_namespace, as_float64, device_of, is_numpy
from dcadl.ops.floors import RANK_ROUNDING
from dcadl.ops.patches import row_norms, unit_rows
from dcadl.ops.ridge import add_to_diagonal


def rank(A: Array) -> int:
    """The number of rows or columns of A, whichever are fewer, that do not depend on those before them."""
    return sum(_independent(A if A.shape[0] <= A.shape[1] else A.T))


def with_full_rank(Omega: Array, samples: Array, full: int) -> Array:
    """Rows of unit length, with as many redundant ones replaced as the rank falls short of `full`.

    They become the samples that lie farthest from the span of the others, less their projections onto it.
    """
    missing = full - rank(Omega)
    if missing <= 0:
        return Omega
    xp = array_namespace(Omega)
    redundant, basis = _split(as_float64(Omega))
    rest = _outside(as_float64(samples), basis)
    farthest = xp.argsort(row_norms(rest)[:, 0], descending=True)
    fresh = xp.astype(unit_rows(xp.take(rest, farthest, axis=0)), Omega.dtype)
    turn = {i: k for k, i in enumerate(redundant[:missing])}
    source = [Omega.shape[0] + turn[i] if i in turn else i for i in range(Omega.shape[0])]
    both = xp.concat([Omega, fresh], axis=0)
    return xp.take(both, xp.asarray(source, device=device_of(Omega)), axis=0)


def _split(Omega: Array) -> tuple[list[int], Array]:
    """Rows that depend on those before them, and an orthonormal basis of the others, one row each.

    Only as many rows as there are columns are looked at: these alone can span everything.
    """
    xp = array_namespace(Omega)
    head = Omega[: min(Omega.shape), :]
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
    A = unit_rows(as_float64(A))
    G = A @ A.T
    noise = G.shape[0] * float(xp.finfo(G.dtype).eps)
    G = add_to_diagonal(G, noise)  # keeps the matrix positive definite
    L = cholesky(G, lower=True, check_finite=False) if is_numpy(G) else xp.linalg.cholesky(G)
    pivots = xp.linalg.diagonal(L) ** 2
    return [float(pivots[i]) > RANK_ROUNDING * noise for i in range(G.shape[0])]


def _outside(samples: Array, basis: Array) -> Array:
    """Samples less their projections onto the rows of an orthonormal basis."""
    return samples - (samples @ basis.T) @ basis
