"""The gradient of the exact leave-one-out error of ridge regression (`ops.ridge`) in the features."""

from __future__ import annotations

from dcadl.arrays import Array, array_namespace, as_float64
from dcadl.ops.ridge import Dual, Gram, Primal, Rows, gram, left_out, loss


def loss_and_gradient(rows: Rows, lam: float) -> tuple[float, Array]:
    """L and dL/dF, λ held and τ moving along: L does not change with the scale of F."""
    shared = gram(rows)
    form = left_out(rows, shared, lam)
    F = rows.F
    dF = _dual_gradient(rows, shared, form, lam) if isinstance(form, Dual) else _primal_gradient(rows, form)
    xp = array_namespace(dF)
    along = xp.sum(xp.vecdot(F, dF), dtype=xp.float64) / (shared.tau * rows.total)
    return loss(form.e, rows.total), dF - xp.astype(along, F.dtype) * F


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
