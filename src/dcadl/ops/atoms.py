"""The atom step: least-squares atoms, rescaled as the paper does or exactly inside the unit ball."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from dcadl.arrays import Array, array_namespace, on_host, row_major, spd_solver
from dcadl.ops.floors import tiny
from dcadl.ops.patches import row_norms
from dcadl.ops.ridge import add_to_diagonal

NEWTON_STEPS = 10  # from μ = 0 the iteration climbs monotonically and doubles its digits; 8 were ever needed


def clip_rows(Omega: Array) -> Array:
    """Rows longer than one scaled back to length one (line 13)."""
    xp = array_namespace(Omega)
    norms = row_norms(Omega)
    return Omega / xp.where(norms > 1, norms, xp.ones_like(norms))


def ball_atoms(G: Array, lam4: float) -> Callable[[Array], Array]:
    """B ↦ argmin_Ω ½tr(ΩGΩᵀ) − tr(ΩBᵀ) + ½λ4‖Ω‖² with every row in the unit ball.

    Rows are independent: ω(μ) = (G + (λ4 + μ)I)⁻¹b with the least μ ≥ 0 for which ‖ω(μ)‖ ≤ 1.
    The eigendecomposition that finds μ is made once: on the host when a row first needs it, on a device
    at once, since the question whether one does would make it wait.
    """
    xp = array_namespace(G)
    if not on_host(G):
        g, V = xp.linalg.eigh(G)
        return partial(_in_ball, g, V, lam4)
    free = spd_solver(add_to_diagonal(G, max(lam4, _jitter(G))))
    eigen: list[tuple[Array, Array]] = []

    def solve(B: Array) -> Array:
        Omega = free(B.T).T
        if not bool(xp.any(row_norms(Omega) > 1)):
            return row_major(Omega)
        if not eigen:
            eigen.append(tuple(xp.linalg.eigh(G)))
        return _in_ball(*eigen[0], lam4, B)

    return solve


def _in_ball(g: Array, V: Array, lam4: float, B: Array) -> Array:
    xp = array_namespace(g)
    return _secular(xp.clip(g, min=0.0) + lam4, V, B)


def _secular(g: Array, V: Array, B: Array) -> Array:
    """Rows V(g + μ)⁻¹Vᵀb with μ from Newton's iteration on 1/‖ω(μ)‖ = 1."""
    xp = array_namespace(g)
    c = B @ V
    c2 = c * c + tiny(g) ** 0.5  # no 0/0 in a row of zeros
    floor = xp.finfo(g.dtype).eps * xp.max(g)
    g = xp.maximum(g, floor)  # λ4 = 0 and a direction no patch has: bounded all the same
    mu = xp.zeros_like(c[:, :1])
    for _ in range(NEWTON_STEPS):
        shifted = g + mu
        squares = c2 / shifted / shifted
        s2 = xp.sum(squares, axis=1, keepdims=True)
        s3 = xp.sum(squares / shifted, axis=1, keepdims=True)
        mu = xp.clip(mu + (xp.sqrt(s2) - 1) * s2 / s3, min=0.0)
    return clip_rows((c / (g + mu)) @ V.T)  # the last digit: Newton stops just outside the ball


def _jitter(G: Array) -> float:
    """Ridge that keeps G positive definite when λ4 = 0 and patches leave directions empty."""
    xp = array_namespace(G)
    return float(xp.finfo(G.dtype).eps * xp.max(xp.abs(G)) * G.shape[0])
