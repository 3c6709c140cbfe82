"""Ridge regression: exact by Cholesky in its cheaper form, or a few conjugate-gradient steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from dcadl.arrays import Array, array_namespace, as_float64, device_of, inverse_factor, spd_solver
from dcadl.ops.floors import PRECONDITIONER_DAMPING, RIDGE_DAMPING, tiny

Product = Callable[[Array], Array]  # a positive definite matrix times an array


def ridge(A: Array, T: Array, lam: float, weight: Array | None = None) -> Array:
    """argmin_B ½‖√s(T − AB)‖² + ½λ‖B‖², solved in float64: primal if A is tall, dual if it is wide."""
    xp = array_namespace(A)
    dtype, A, T = A.dtype, as_float64(A), as_float64(T)
    if weight is not None:
        root = xp.sqrt(as_float64(weight))[:, None]
        A, T = A * root, T * root
    if A.shape[0] < A.shape[1]:
        B = A.T @ spd_solver(add_to_diagonal(A @ A.T, lam))(T)
    else:
        B = spd_solver(add_to_diagonal(A.T @ A, lam))(A.T @ T)
    return xp.astype(B, dtype)


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
) -> Array:
    """`steps` steps towards product(X) = B from a warm start X, where `residual` is B − product(X).

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
        if left:  # directions of the next step, conjugate to those so far
            residual = residual - image @ along
            toward = precondition(residual)
            toward = toward - D @ (K.T @ (K @ (image.T @ toward)))
    return X


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
