"""Ridge regression of one matrix on another, in closed form."""

from __future__ import annotations

from dcadl.arrays import Array, array_namespace, as_float64, spd_solver
from dcadl.ops.ridge import add_to_diagonal


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
