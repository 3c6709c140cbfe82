"""The exact leave-one-out error of ridge regression, and its gradient in the features.

F (n, D) and Y (n, C) come centred, rows times the root of their weight s_i; v (n,) is that root, of length
one: the direction of the intercept, which is not penalised. With μ = λτ, τ = ‖F‖²/Σs, the residual of sample
i when it is left out, intercept refitted, is in two equal forms

    dual   (n × n)  Z = (FFᵀ/τ + λI)⁻¹ − vvᵀ/λ,  a = ZY:          e_i = a_i / Z_ii
    primal (D × D)  S = (FᵀF/τ + λI)⁻¹/τ, W = SFᵀY, ρ = Y − FW:   e_i = ρ_i / (1 − v_i² − f_iᵀSf_i)

and L = Σ‖e_i‖²/Σs (rows e_i carry the root of s_i too). Without −vvᵀ/λ the constant direction would dominate
Z_ii at small λ, every sample would look predicted, and λ → 0 would be chosen.
"""

from __future__ import annotations

from typing import NamedTuple

from dcadl.arrays import Array, array_namespace, as_float64, spd_inverse, spd_inverse_root
from dcadl.ops.ridge import add_to_diagonal


class Rows(NamedTuple):
    """Centred rows, each times the root of its weight."""

    F: Array  # (n, D)
    Y: Array  # (n, C)
    v: Array  # (n,) roots of the weights, over the root of their sum
    total: float  # Σs


class Gram(NamedTuple):
    """What all λ share, in float64: FFᵀ/τ or FᵀF/τ, the smaller one, with FᵀY and τ."""

    K: Array
    FY: Array
    tau: Array


class Dual(NamedTuple):
    """The n × n form at one λ. Z itself is made for the gradient alone: errors need no more than its root."""

    root: Array  # L⁻¹ of FFᵀ/τ + λI = LLᵀ, so that Z = L⁻ᵀL⁻¹ − vvᵀ/λ
    a: Array
    z: Array  # diagonal of Z
    e: Array  # residuals of samples left out


class Primal(NamedTuple):
    """The D × D form at one λ. Rows may be some of the samples that the Gram matrix is made of."""

    S: Array
    W: Array
    rho: Array
    left: Array  # 1 − h: what a sample leaves to the others
    e: Array
    FS: Array  # (n, D) in F's precision


def uses_dual(rows: Rows) -> bool:
    """Whether the n × n form is the smaller one."""
    return rows.F.shape[0] <= rows.F.shape[1]


def gram(rows: Rows) -> Gram:
    """The Gram matrix of all samples."""
    F = rows.F
    tau = mean_square(squared_length(F), rows.total)
    K = centred(as_float64(F @ F.T), rows.v) if uses_dual(rows) else as_float64(F.T @ F)
    return Gram(K / tau, as_float64(F.T @ rows.Y), tau)


def mean_square(squares: Array, total: float) -> Array:
    """τ = ‖F‖²/Σs, in which λ is measured; features that are all zero have one of 1."""
    return array_namespace(squares).where(squares > 0, squares / total, 1.0)


def centred(K: Array, v: Array) -> Array:
    """(I − vvᵀ)K(I − vvᵀ): what float32 left of the constant direction taken out in float64.

    As little as 1e-7 of it beside λ = 1e-5 would add to Z_ii what the samples themselves have there.
    """
    v = as_float64(v)
    Kv = K @ v
    outer = v[:, None] * (Kv - 0.5 * (v @ Kv) * v)
    return K - outer - outer.T


def left_out(rows: Rows, shared: Gram, lam: float) -> Dual | Primal:
    """Residuals e, and what else the form knows, at λ."""
    if shared.K.shape[0] == rows.F.shape[0] and uses_dual(rows):
        return dual(shared.K, rows.Y, rows.v, lam)
    return primal(rows, shared, lam)


def dual(K: Array, Y: Array, v: Array, lam: float) -> Dual:
    """The n × n form, of K = FFᵀ/τ."""
    xp, v, Y = array_namespace(K), as_float64(v), as_float64(Y)
    root = spd_inverse_root(add_to_diagonal(K, lam))
    columns = xp.matrix_transpose(root)
    a = columns @ (root @ Y) - v[:, None] * ((v @ Y) / lam)
    z = xp.vecdot(columns, columns) - v * v / lam
    return Dual(root, a, z, a / z[:, None])


def primal(rows: Rows, shared: Gram, lam: float) -> Primal:
    """The D × D form."""
    xp = array_namespace(shared.K)
    F, v = rows.F, as_float64(rows.v)
    S = spd_inverse(add_to_diagonal(shared.K, lam)) / shared.tau
    W = S @ shared.FY
    rho = as_float64(rows.Y - F @ xp.astype(W, F.dtype))
    FS = F @ xp.astype(S, F.dtype)
    left = 1 - v * v - as_float64(xp.vecdot(FS, F))
    return Primal(S, W, rho, left, rho / left[:, None], FS)


def coefficients(rows: Rows, shared: Gram, form: Dual | Primal) -> Array:
    """W (D, C) of the ridge regression on all samples, in float64."""
    if isinstance(form, Primal):
        return form.W
    xp = array_namespace(rows.F)
    return as_float64(rows.F.T @ xp.astype(form.a, rows.F.dtype)) / shared.tau


def loss(e: Array, total: float) -> float:
    """L = Σ‖e_i‖²/Σs."""
    return float(squared_length(e)) / total


def loss_and_gradient(rows: Rows, lam: float) -> tuple[float, Array]:
    """L and dL/dF, λ held and τ moving along: L does not change with the scale of F."""
    shared = gram(rows)
    form = left_out(rows, shared, lam)
    F = rows.F
    dF = _dual_gradient(rows, shared, form, lam) if isinstance(form, Dual) else _primal_gradient(rows, form)
    xp = array_namespace(dF)
    along = xp.sum(xp.vecdot(F, dF), dtype=xp.float64) / (shared.tau * rows.total)
    return loss(form.e, rows.total), dF - xp.astype(along, F.dtype) * F


def squared_length(A: Array) -> Array:
    """‖A‖², summed in float64."""
    xp = array_namespace(A)
    return xp.sum(xp.vecdot(A, A), dtype=xp.float64)


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


def _primal_gradient(rows: Rows, form: Primal) -> Array:
    """Rows −Wu − SP₁ρ + WP₁ᵀSf + 2wSf − 2SP₂Sf, with P₁ = Σ f uᵀ and P₂ = Σ w f fᵀ."""
    xp = array_namespace(form.S)
    F, FS = rows.F, form.FS
    u = (2 / rows.total) * form.e / form.left[:, None]
    w = (2 / rows.total) * xp.vecdot(form.e, form.e) / form.left
    S, W, rho, u, w = (xp.astype(x, F.dtype) for x in (form.S, form.W, form.rho, u, w))
    P1 = F.T @ u
    P2 = F.T @ (F * w[:, None])
    near = (FS @ P1 - u) @ W.T - rho @ (P1.T @ S)
    dF = near + 2 * w[:, None] * FS - 2 * FS @ (P2 @ S)
    return dF - rows.v[:, None] * (rows.v @ dF)  # columns stay centred; the dual form sees to that by itself
