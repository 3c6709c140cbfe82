"""Ridge regression: exact by Cholesky in its cheaper form, or a few conjugate-gradient steps."""

from __future__ import annotations

from collections.abc import Callable

from dcadl.arrays import Array, array_namespace, device_of, spd_solver, wide

DUST = 1e-6  # share of a system's trace below which its directions are rounding


def ridge(A: Array, T: Array, lam: float, weight: Array | None = None) -> Array:
    """argmin_B ½‖√s(T − AB)‖² + ½λ‖B‖², solved in float64: primal if A is tall, dual if it is wide."""
    xp = array_namespace(A)
    dtype, A, T = A.dtype, wide(A), wide(T)
    if weight is not None:
        root = xp.sqrt(wide(weight))[:, None]
        A, T = A * root, T * root
    if A.shape[0] < A.shape[1]:
        B = A.T @ spd_solver(add_to_diagonal(A @ A.T, lam))(T)
    else:
        B = spd_solver(add_to_diagonal(A.T @ A, lam))(A.T @ T)
    return xp.astype(B, dtype)


def add_to_diagonal(G: Array, value: float) -> Array:
    """G + value·I."""
    xp = array_namespace(G)
    return G + value * xp.eye(G.shape[0], dtype=G.dtype, device=device_of(G))


def block_conjugate_gradient(
    product: Callable[[Array], Array], X: Array, residual: Array, steps: int
) -> Array:
    """`steps` steps towards product(X) = B from a warm start X, where residual = B − product(X).

    The columns share their directions: each step minimises ½⟨X, product(X)⟩ − ⟨B, X⟩ exactly over the
    span of as many new directions as there are columns, so that it is lower after every step.
    """
    toward = residual
    for left in reversed(range(steps)):
        D = _scaled(toward)
        image = product(D)
        project = spd_solver(_damped(D.T @ image))
        along = project(D.T @ residual)
        X = X + D @ along
        if left:
            residual = residual - image @ along
            toward = residual - D @ project(image.T @ residual)  # conjugate to the directions so far
    return X


def _scaled(R: Array) -> Array:
    """Another basis of R's columns, orthonormal but for directions that are dust beside the others."""
    xp = array_namespace(R)
    return R @ xp.linalg.inv(xp.linalg.cholesky(_damped(R.T @ R))).T  # damped: safe to invert


def _damped(M: Array) -> Array:
    """M made symmetric, and positive definite where columns depend on each other.

    A damped step still descends. Undamped, such columns would carry nothing but amplified rounding.
    """
    xp = array_namespace(M)
    dust = DUST * xp.sum(xp.linalg.diagonal(M)) + xp.finfo(M.dtype).smallest_normal
    return add_to_diagonal((M + M.T) / 2, dust)
