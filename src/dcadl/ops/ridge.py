"""Ridge regression: exact, by a few conjugate-gradient steps, or with every row in the unit ball."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import NamedTuple

import numpy as np
from scipy.linalg import helmert

from dcadl.arrays import (
    Array,
    array_namespace,
    as_float64,
    device_of,
    inverse_factor,
    on_host,
    row_major,
    spd_solver,
    tiny,
)
from dcadl.ops.floors import PRECONDITIONER_DAMPING, RIDGE_DAMPING

NEWTON_STEPS = 10  # from μ = 0 the iteration climbs monotonically and doubles its digits; 8 were ever needed

Product = Callable[[Array], Array]  # a positive definite matrix times an array


def ridge(A: Array, T: Array, lam: float, weight: Array | None = None) -> Array:
    """argmin_B ½‖√s(T − AB)‖² + ½λ‖B‖², solved in float64: primal if A is tall, dual if it is wide."""
    xp = array_namespace(A)
    dtype, A, T = A.dtype, as_float64(A), as_float64(T)
    if weight is not None:
        root = xp.sqrt(as_float64(weight))[:, None]
        A, T = A * root, T * root
    if A.shape[0] < A.shape[1]:
        return xp.astype(A.T @ spd_solver(add_to_diagonal(A @ A.T, lam))(T), dtype)
    return xp.astype(spd_solver(add_to_diagonal(A.T @ A, lam))(A.T @ T), dtype)


def add_to_diagonal(G: Array, value: float | Array) -> Array:
    """G + value·I."""
    xp = array_namespace(G)
    return G + value * xp.eye(G.shape[0], dtype=G.dtype, device=device_of(G))


def block_conjugate_gradient(
    product: Product,
    X: Array,
    residual: Array,
    steps: int,
    *,
    precondition: Product = lambda residual: residual,
    damping: float = RIDGE_DAMPING,
    until: float = 0.0,
) -> tuple[Array, Array]:
    """`steps` steps towards product(X) = B from a warm start X, where `residual` is B − product(X): X and it.

    They end early once the residual is no longer than `until`.

    `product` is positive definite; `precondition` is close to its inverse. The columns share their
    directions: each step minimises ½⟨X, product(X)⟩ − ⟨B, X⟩ exactly over the span of as many new directions
    as there are columns, so that it is lower after every step.
    """
    eye = array_namespace(X).eye(X.shape[1], dtype=X.dtype, device=device_of(X))
    toward = precondition(residual)
    for left in range(steps - 1, -1, -1):
        D = toward @ inverse_factor(_damped(toward.T @ toward, damping, eye), eye).T  # orthonormal
        image = product(D)
        K = inverse_factor(_damped(D.T @ image, damping, eye), eye)  # KᵀK = (Dᵀ·product(D))⁻¹
        along = K.T @ (K @ (D.T @ residual))
        X = X + D @ along
        residual = residual - image @ along
        if left:  # directions of the next step, conjugate to those so far
            if until > 0 and float(_length(residual)) <= until:
                break
            toward = precondition(residual)
            toward = toward - D @ (K.T @ (K @ (image.T @ toward)))
    return X, residual


def _length(x: Array) -> Array:
    """√‖x‖², the root of the sum over all entries."""
    xp = array_namespace(x)
    return xp.sqrt(xp.sum(x * x))


def _damped(M: Array, damping: float, eye: Array) -> Array:
    """M positive definite where columns depend on each other; a factorisation reads one half of it only.

    A damped step still descends. Undamped, such columns would carry nothing but amplified rounding.
    """
    return M + (damping * array_namespace(M).linalg.trace(M) + tiny(M)) * eye


class KroneckerPreconditioner(NamedTuple):
    """An inverse of λ2(S⊗T)/tr S + λ3I by the eigenvectors of S (patches) and T (atoms)."""

    patches: Array  # (p, p), a column each
    atoms: Array  # (m, m)
    inverse: Array  # (p, m): one over the eigenvalues

    def solve(self, R: Array) -> Array:
        """The inverse times R (p·m, C)."""
        xp = array_namespace(R)
        rows = xp.reshape(R.T, (R.shape[1], *self.inverse.shape))
        turned = (self.patches.T @ rows @ self.atoms) * self.inverse
        return xp.reshape(self.patches @ turned @ self.atoms.T, (R.shape[1], R.shape[0])).T


def kronecker_preconditioner(S: Array, T: Array, lam2: float, lam3: float) -> KroneckerPreconditioner:
    """The preconditioner for codes with S = Σ_j U_jU_jᵀ and T = Σ_j U_jᵀU_j."""
    xp = array_namespace(S)
    (s, patches), (t, atoms) = xp.linalg.eigh(S), xp.linalg.eigh(T)
    trace = xp.linalg.trace(S) + tiny(S)
    products = xp.clip(s[:, None] * t[None, :] / trace, min=0.0)
    ridge = lam3 + PRECONDITIONER_DAMPING * lam2 * trace
    return KroneckerPreconditioner(patches, atoms, 1 / (lam2 * products + ridge))


def largest_eigenvalue(M: Array) -> Array:
    """At least the largest eigenvalue of a positive semidefinite C × C matrix, at most C^(1/256) times it.

    It is tr(M²⁵⁶)^(1/256): products alone, where an eigenvalue solver would keep a device waiting.
    """
    xp = array_namespace(M)
    bound, power = 1.0, 1
    for _ in range(2):
        size = xp.linalg.trace(M) + tiny(M)
        bound = bound * size ** (1 / power)
        M = M / size  # its eigenvalues lie below 1 and the largest above 1/C: powers keep their digits
        for _ in range(4):
            M = M @ M
        power *= 16
    return bound * xp.linalg.trace(M) ** (1 / power)


# --- the atom step: least squares, rescaled as the paper does or exactly inside the unit ball -----------


def clip_rows(Omega: Array) -> Array:
    """Rows longer than one scaled back to length one (line 13)."""
    xp = array_namespace(Omega)
    norms = _row_norms(Omega)
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
        if not bool(xp.any(_row_norms(Omega) > 1)):
            return row_major(Omega)
        if not eigen:
            eigen.append(_eigenpairs(G))
        return _in_ball(*eigen[0], lam4, B)

    return solve


def _eigenpairs(G: Array) -> tuple[Array, Array]:
    """Of G. Patches in coordinates of their span have a diagonal one, which LAPACK would take as long for."""
    xp = array_namespace(G)
    diagonal = xp.linalg.diagonal(G)
    eye = xp.eye(G.shape[0], dtype=G.dtype, device=device_of(G))
    if float(xp.max(xp.abs(G - diagonal * eye))) <= _jitter(G):
        return diagonal, eye
    g, V = xp.linalg.eigh(G)
    return g, V


def _in_ball(g: Array, V: Array, lam4: float, B: Array) -> Array:
    """Rows V(g + λ4 + μ)⁻¹Vᵀb of length at most one, μ from Newton's iteration on 1/‖ω(μ)‖ = 1."""
    xp, limits = array_namespace(g), array_namespace(g).finfo(g.dtype)
    g = xp.clip(g, min=0.0) + lam4
    g = xp.maximum(g, limits.eps * xp.max(g))  # λ4 = 0 and a direction no patch has: bounded all the same
    c = B @ V
    c2 = c * c + float(limits.smallest_normal) ** 0.5  # no 0/0 in a row of zeros
    mu = xp.zeros_like(c[:, :1])
    for _ in range(NEWTON_STEPS):
        shifted = g + mu
        squares = c2 / shifted / shifted
        s2 = xp.sum(squares, axis=1, keepdims=True)
        s3 = xp.sum(squares / shifted, axis=1, keepdims=True)
        mu = xp.clip(mu + (xp.sqrt(s2) - 1) * s2 / s3, min=0.0)
    Omega = (c / (g + mu)) @ V.T
    norms = xp.sqrt(xp.vecdot(Omega, Omega))[:, None]
    return Omega / xp.clip(norms, min=1.0)  # the last digit: Newton stops just outside the ball


def _row_norms(Omega: Array) -> Array:
    xp = array_namespace(Omega)
    return xp.sqrt(xp.vecdot(Omega, Omega))[..., None]


def _jitter(G: Array) -> float:
    """Ridge that keeps G positive definite when λ4 = 0 and patches leave directions empty."""
    xp = array_namespace(G)
    return float(xp.finfo(G.dtype).eps * xp.max(xp.abs(G)) * G.shape[0])


# --- labels by contrasts -----------------------------------------------------------------------------
#
# A one-hot label less the shares of the classes sums to zero, and so do the rows of a classifier that is
# fitted to such labels. In all C coordinates one direction holds nothing but rounding, and steps that share
# directions would follow it; in an orthonormal basis of the others every norm, and so the objective, is the
# same.


def to_contrasts(x: np.ndarray) -> np.ndarray:
    """Labels (n, C), or a classifier transposed, that sum to zero along the classes: (n, C − 1)."""
    return x @ _basis(x.shape[1]).T.astype(x.dtype)


def from_contrasts(x: np.ndarray) -> np.ndarray:
    """The same undone: (n, C − 1) to (n, C)."""
    return x @ _basis(x.shape[1] + 1).astype(x.dtype)


@cache
def _basis(n_classes: int) -> np.ndarray:
    """(C − 1, C): orthonormal rows, each of which sums to zero."""
    return helmert(n_classes)
