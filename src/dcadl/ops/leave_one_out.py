"""The exact leave-one-out error of ridge regression, and its gradient in the features.

F (n, D) and Y (n, C) come centred, rows times the root of their weight s_i; v (n,) is that root, of length
one: the direction of the intercept, which is not penalised. With μ = λτ, τ = ‖F‖²/Σs, the residual of
sample i when it is left out, intercept refitted, is in two equal forms

    dual   (n × n)  Z = (FFᵀ/τ + λI)⁻¹ − vvᵀ/λ,  a = ZY:          e_i = a_i / Z_ii
    primal (D × D)  S = (FᵀF/τ + λI)⁻¹/τ, W = SFᵀY, ρ = Y − FW:   e_i = ρ_i / (1 − v_i² − f_iᵀSf_i)

and L = Σ‖e_i‖²/Σs (rows e_i carry the root of s_i too). Without −vvᵀ/λ the constant direction would
dominate Z_ii at small λ, every sample would look predicted, and λ → 0 would be chosen.

For the gradient where features are fewer than samples, nothing but sums over the samples is needed: blocks of
rows are walked over three times (the Gram matrix; errors, with FᵀE and UᵀFS; the gradient) and once more to
take out of it what shifts or scales the features.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from itertools import combinations_with_replacement
from typing import Any, NamedTuple

from dcadl.arrays import Array, SpdFactor, array_namespace, as_float64, batch_rows, empty
from dcadl.arrays.inverses import spd_inverse
from dcadl.ops.ridge import Walk, add_to_diagonal, loss, mean_square, slices_of, squared_length

TILE = 416  # rows and columns of a Gram matrix that a thread makes at once
Visit = Callable[..., tuple[Any, tuple[Any, ...]]]  # a block -> what it keeps, and its part of the sums


class Rows(NamedTuple):
    """Centred rows, each times the root of its weight."""

    F: Array  # (n, D)
    Y: Array  # (n, C)
    v: Array  # (n,) roots of the weights, over the root of their sum
    total: float  # Σs

    def part(self, which: slice) -> Rows:
        """Some of them; the total stays that of all."""
        return Rows(self.F[which, :], self.Y[which, :], self.v[which], self.total)


def weigh_alike(root: Array) -> bool:
    """Whether all weights are 1: to multiply by their roots would cost a pass over memory for nothing."""
    return bool(array_namespace(root).all(root == 1))


def weighed(A: Array, root: Array) -> Array:
    """Rows of A times the roots of their weights; A itself where all are 1."""
    return A if weigh_alike(root) else A * root[:, None]


class Gram(NamedTuple):
    """What all λ share, in float64: FFᵀ/τ or FᵀF/τ, the smaller one, and τ; FᵀY in the primal form alone."""

    K: Array
    FY: Array | None
    tau: Array


class Dual(NamedTuple):
    """The n × n form at one λ: errors need no more of Z than its diagonal."""

    a: Array
    e: Array  # residuals of samples left out


class Primal(NamedTuple):
    """The D × D form at one λ. Rows may be some of the samples that the Gram matrix is made of."""

    W: Array
    rho: Array
    left: Array  # 1 − h: what a sample leaves to the others
    e: Array
    FS: Array  # (n, D) in F's precision


def uses_dual(rows: Rows) -> bool:
    """Whether the n × n form is the smaller one."""
    return rows.F.shape[0] <= rows.F.shape[1]


def in_turn(visit: Visit, *columns: Iterable[Any]) -> tuple[Any, tuple[Any, ...]]:
    """The walk that makes one visit after the other."""
    kept, parts = zip(*(visit(*row) for row in zip(*columns)))
    return kept, tuple(reduce(operator.add, column) for column in zip(*parts))


def gram(rows: Rows, walk: Walk = in_turn) -> Gram:
    """The Gram matrix of all samples, made in tiles."""
    F, dual = rows.F, uses_dual(rows)
    A = F if dual else F.T
    K = symmetric(lambda i, j: A[i, :] @ A[j, :].T, A.shape[0], as_float64(rows.v), walk)
    K = centred(K, rows.v) if dual else K
    tau = mean_square(array_namespace(K).linalg.trace(K), rows.total)
    K /= tau
    return Gram(K, None if dual else as_float64(F.T @ rows.Y), tau)


def symmetric(tile_of: Callable[[slice, slice], Array], side: int, like: Array, walk: Walk) -> Array:
    """A matrix in the dtype of `like`, each tile made once and mirrored."""
    xp, K = array_namespace(like), empty((side, side), like)

    def visit(i: slice, j: slice) -> tuple[None, tuple[()]]:
        tile = xp.astype(tile_of(i, j), K.dtype)
        K[i, j], K[j, i] = tile, tile.T
        return None, ()

    walk(visit, *zip(*combinations_with_replacement(slices_of(side, batch_rows(like, TILE)), 2)))
    return K


def centred(K: Array, v: Array) -> Array:
    """(I − vvᵀ)K(I − vvᵀ): what float32 left of the constant direction taken out in float64.

    As little as 1e-7 of it beside λ = 1e-5 would add to Z_ii what the samples themselves have there.
    """
    v = as_float64(v)
    Kv = K @ v
    u = Kv - 0.5 * (v @ Kv) * v
    found = K - v[:, None] * u
    found -= u[:, None] * v
    return found


def left_out(rows: Rows, shared: Gram, lam: float) -> Dual | Primal:
    """Residuals e, and what else the form knows, at λ."""
    if shared.K.shape[0] == rows.F.shape[0] and uses_dual(rows):
        return dual(shared.K, rows.Y, rows.v, lam)
    return primal(rows, shared, lam)


def dual(K: Array, Y: Array, v: Array, lam: float) -> Dual:
    """The n × n form, of K = FFᵀ/τ."""
    v, Y = as_float64(v), as_float64(Y)
    factor = SpdFactor(add_to_diagonal(K, lam))
    a = factor.solve(Y) - v[:, None] * ((v @ Y) / lam)
    return Dual(a, a / (factor.inverse_diagonal() - v * v / lam)[:, None])


def primal(rows: Rows, shared: Gram, lam: float) -> Primal:
    """The D × D form."""
    return primal_errors(rows, *primal_solution(shared, lam))


def primal_solution(shared: Gram, lam: float) -> tuple[Array, Array]:
    """S and W, of K = FᵀF/τ."""
    S = spd_inverse(add_to_diagonal(shared.K, lam)) / shared.tau
    return S, S @ shared.FY


def primal_errors(rows: Rows, S: Array, W: Array) -> Primal:
    """What the rows, or some of them, are missed by."""
    xp, F, v = array_namespace(rows.F), rows.F, as_float64(rows.v)
    rho = as_float64(rows.Y - F @ xp.astype(W, F.dtype))
    FS = F @ xp.astype(S, F.dtype)
    left = 1 - v * v - as_float64(xp.vecdot(FS, F))
    return Primal(W, rho, left, rho / left[:, None], FS)


def coefficients(rows: Rows, shared: Gram, form: Dual | Primal) -> Array:
    """W (D, C) of the ridge regression on all samples, in float64."""
    if isinstance(form, Primal):
        return form.W
    return _of_dual(rows, shared, form.a)


def solution(rows: Rows, shared: Gram, lam: float) -> Array:
    """The same at a λ at which nobody asks for residuals."""
    factor = SpdFactor(add_to_diagonal(shared.K, lam))
    if shared.FY is None:
        return _of_dual(rows, shared, factor.solve(as_float64(rows.Y)))
    return factor.solve(shared.FY) / shared.tau


def _of_dual(rows: Rows, shared: Gram, a: Array) -> Array:
    xp = array_namespace(rows.F)
    return as_float64(rows.F.T @ xp.astype(a, rows.F.dtype)) / shared.tau


# --- the gradient -------------------------------------------------------------------------------------


def loss_and_gradient(
    rows: Rows, lam: float, slices: Sequence[slice] = (slice(None),), walk: Walk = in_turn
) -> tuple[float, Array]:
    """L and dL/dF, λ held and τ moving along: L does not change with the scale of F.

    `slices` cut the samples into the blocks that `walk` goes over.
    """
    value, parts = _dual(rows, lam, slices, walk) if uses_dual(rows) else _primal(rows, lam, slices, walk)
    return value, array_namespace(rows.F).concat(list(parts), axis=0) if len(parts) > 1 else parts[0]


def _dual(rows: Rows, lam: float, slices: Sequence[slice], walk: Walk) -> tuple[float, Sequence[Array]]:
    """L, and dL/dF of each block: of 2GF with G = (Z diag(w) Z − ½(a(ZB)ᵀ + (ZB)aᵀ))/τ."""
    xp, F, v, shared = array_namespace(rows.F), rows.F, as_float64(rows.v), gram(rows, walk)
    Z = spd_inverse(add_to_diagonal(shared.K, lam)) - v[:, None] * (v / lam)
    a, z = Z @ as_float64(rows.Y), xp.linalg.diagonal(Z)
    e = a / z[:, None]
    B = (2 / rows.total) * e / z[:, None]
    w = (2 / rows.total) * xp.vecdot(e, e) / z
    a, P, A = (xp.astype(x, F.dtype) for x in (a, Z @ B, Z))
    A *= xp.astype(xp.sqrt(xp.clip(w, min=0.0)), F.dtype)  # Z diag(w) Z = AAᵀ; rounding may leave w below 0

    def tile(i: slice, j: slice) -> Array:
        return A[i, :] @ A[j, :].T - 0.5 * (a[i, :] @ P[j, :].T + P[i, :] @ a[j, :].T)

    G = symmetric(tile, F.shape[0], F, walk)

    def gradient(part: slice) -> tuple[Array, tuple[Array]]:
        dF = G[part, :] @ F
        dF *= 2 / xp.astype(shared.tau, F.dtype)
        return dF, (xp.sum(xp.vecdot(F[part, :], dF), dtype=xp.float64),)

    found, (rise,) = walk(gradient, slices)
    along = xp.astype(rise / (shared.tau * rows.total), F.dtype)
    return loss(e, rows.total), [dF - along * F[part, :] for part, dF in zip(slices, found)]


class _Errors(NamedTuple):
    """What a block knows of its errors, in F's precision."""

    FS: Array
    rho: Array
    E: Array  # rows Wu − 2wSf: what dL/dF would be less, were W and S held


def _primal(rows: Rows, lam: float, slices: Sequence[slice], walk: Walk) -> tuple[float, Sequence[Array]]:
    """L, and dL/dF of each block: FS·FᵀE − E − ρ·UᵀFS, E = UWᵀ − 2diag(w)FS, sums over all samples."""
    xp, total, dtype = array_namespace(rows.F), rows.total, rows.F.dtype
    blocks = [rows.part(one) for one in slices]
    _, (K, FY) = walk(_gram_sums, blocks)
    tau = mean_square(xp.linalg.trace(K), total)
    S, W = (xp.astype(x, dtype) for x in primal_solution(Gram(K / tau, FY, tau), lam))
    errors, (squares, FE, UFS) = walk(lambda one: _errors(one, S, W), blocks)

    def gradient(one: Rows, known: _Errors) -> tuple[Array, tuple[Array, Array]]:
        dF = known.FS @ FE
        dF -= known.E
        dF -= known.rho @ UFS
        return dF, (one.v @ dF, xp.sum(xp.vecdot(one.F, dF), dtype=xp.float64))

    found, (shift, rise) = walk(gradient, blocks, errors)
    along = xp.astype(rise / (tau * total), dtype)

    def taken_out(one: Rows, dF: Array) -> tuple[Array, tuple[()]]:
        dF -= one.v[:, None] * shift  # columns stay centred; the dual form sees to that by itself
        dF -= along * one.F
        return dF, ()

    parts, _ = walk(taken_out, blocks, found)
    return float(squares) / total, parts


def _gram_sums(rows: Rows) -> tuple[None, tuple[Array, Array]]:
    """FᵀF and FᵀY of a block, in float64."""
    F = rows.F
    return None, (as_float64(F.T @ F), as_float64(F.T @ rows.Y))


def _errors(rows: Rows, S: Array, W: Array) -> tuple[_Errors, tuple[Array, Array, Array]]:
    """Errors of a block; Σ‖e‖², FᵀE and UᵀFS of it, rows u = (2/Σs) e/(1 − h) and w = (2/Σs) ‖e‖²/(1 − h)."""
    xp, F = array_namespace(rows.F), rows.F
    form: Primal = primal_errors(rows, S, W)
    u = xp.astype((2 / rows.total) * form.e / form.left[:, None], F.dtype)
    w = xp.astype((2 / rows.total) * xp.vecdot(form.e, form.e) / form.left, F.dtype)
    E = u @ W.T - (2 * w)[:, None] * form.FS
    known = _Errors(form.FS, xp.astype(form.rho, F.dtype), E)
    return known, (squared_length(form.e), F.T @ E, u.T @ form.FS)
