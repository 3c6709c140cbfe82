"""The gradient of the exact leave-one-out error of ridge regression (`ops.ridge`) in the features.

Where features are fewer than samples, nothing but sums over the samples is needed: blocks of rows are walked
over three times (the Gram matrix; errors, with P₁ and P₂; the gradient) and once more to take out of it what
shifts or scales the features.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from dcadl.arrays import Array, array_namespace, as_float64
from dcadl.ops.ridge import (
    Dual,
    Gram,
    Primal,
    Rows,
    dual,
    gram,
    loss,
    mean_square,
    primal_errors,
    primal_solution,
    squared_length,
    uses_dual,
)

Visit = Callable[..., tuple[Any, tuple[Any, ...]]]  # a block -> what it keeps, and its part of the sums
Walk = Callable[..., tuple[Sequence[Any], tuple[Any, ...]]]  # such a function, blocks -> all kept, the sums


def _one_block(visit: Visit, *columns: Sequence[Any]) -> tuple[Sequence[Any], tuple[Any, ...]]:
    """The walk over a single block."""
    kept, sums = visit(*(column[0] for column in columns))
    return [kept], sums


def loss_and_gradient(
    rows: Rows, lam: float, slices: Sequence[slice] = (slice(None),), walk: Walk = _one_block
) -> tuple[float, Array]:
    """L and dL/dF, λ held and τ moving along: L does not change with the scale of F.

    `slices` cut the samples into the blocks that `walk` goes over, in the primal form.
    """
    if uses_dual(rows):
        shared = gram(rows)
        form = dual(shared.K, rows.Y, rows.v, lam)
        dF = _dual_gradient(rows, shared, form, lam)
        return loss(form.e, rows.total), dF - _along(rows.F, dF, shared.tau, rows.total) * rows.F
    blocks = [rows.part(one) for one in slices]
    value, parts = _primal(blocks, lam, walk)
    return value, array_namespace(rows.F).concat(list(parts), axis=0) if len(parts) > 1 else parts[0]


def _along(F: Array, dF: Array, tau: Array, total: float) -> Array:
    """⟨F, dF⟩/‖F‖²: the part of dF along F, as a multiple of F; ‖F‖² = τ·Σs."""
    xp = array_namespace(dF)
    return xp.astype(xp.sum(xp.vecdot(F, dF), dtype=xp.float64) / (tau * total), F.dtype)


def _dual_gradient(rows: Rows, shared: Gram, form: Dual, lam: float) -> Array:
    """2GF with G = (Z diag(w) Z − ½(a(ZB)ᵀ + (ZB)aᵀ))/τ."""
    xp = array_namespace(form.root)
    root, a, z, e = form
    F, v = rows.F, as_float64(rows.v)
    Z = xp.matrix_transpose(root) @ root - v[:, None] * (v / lam)
    B = (2 / rows.total) * e / z[:, None]
    w = (2 / rows.total) * xp.vecdot(e, e) / z
    short = xp.astype(Z, F.dtype)
    cross = xp.astype(a @ (Z @ B).T, F.dtype)
    G = (short * xp.astype(w, F.dtype)) @ short - 0.5 * (cross + cross.T)
    return (2 / xp.astype(shared.tau, F.dtype)) * (G @ F)


class _Errors(NamedTuple):
    """What a block knows of its errors, in F's precision."""

    FS: Array
    rho: Array
    u: Array  # (2/Σs) e/(1 − h)
    w: Array  # (2/Σs) ‖e‖²/(1 − h)


def _primal(blocks: Sequence[Rows], lam: float, walk: Walk) -> tuple[float, Sequence[Array]]:
    """L, and dL/dF of each block: rows −Wu − SP₁ρ + WP₁ᵀSf + 2wSf − 2SP₂Sf, P₁ = Σ f uᵀ, P₂ = Σ w f fᵀ."""
    xp, total, dtype = array_namespace(blocks[0].F), blocks[0].total, blocks[0].F.dtype
    _, (K, FY) = walk(_gram_sums, blocks)
    tau = mean_square(xp.linalg.trace(K), total)
    S64, W64 = primal_solution(Gram(K / tau, FY, tau), lam)
    S, W = (xp.astype(x, dtype) for x in (S64, W64))
    errors, (squares, P1, P2) = walk(lambda one: _errors(one, S, W), blocks)
    M, N = P1 @ W.T - 2 * (P2 @ S), P1.T @ S

    def gradient(one: Rows, known: _Errors) -> tuple[Array, tuple[Array, Array]]:
        FS, rho, u, w = known
        dF = FS @ M - u @ W.T - rho @ N
        FS *= 2 * w[:, None]
        dF += FS
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
    """Errors of a block; Σ‖e‖², P₁ and P₂ of it."""
    xp, F = array_namespace(rows.F), rows.F
    form: Primal = primal_errors(rows, S, W)
    u = xp.astype((2 / rows.total) * form.e / form.left[:, None], F.dtype)
    w = xp.astype((2 / rows.total) * xp.vecdot(form.e, form.e) / form.left, F.dtype)
    heavy = F * xp.sqrt(w)[:, None]
    known = _Errors(form.FS, xp.astype(form.rho, F.dtype), u, w)
    return known, (squared_length(form.e), F.T @ u, heavy.T @ heavy)
