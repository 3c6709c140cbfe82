"""Ridge regression: exact by Cholesky in its cheaper form, or a few conjugate-gradient steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from dcadl.arrays import Array, array_namespace, device_of, inverse_factor, plainly, spd_solver, wide

DUST = 1e-12  # share of a system's trace below which its directions are rounding, in float64


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


def add_to_diagonal(G: Array, value: float | Array) -> Array:
    """G + value·I."""
    xp = array_namespace(G)
    return G + value * xp.eye(G.shape[0], dtype=G.dtype, device=device_of(G))


class System(NamedTuple):
    """product(X, *held) = B, to be solved by steps."""

    product: Callable[..., Array]  # positive definite
    precondition: Callable[[Array], Array] = lambda residual: residual  # close to the inverse of `product`
    dust: float = DUST


def block_conjugate_gradient(
    system: System,
    X: Array,
    residual: Array,
    steps: int,
    held: Sequence[Any] = (),
    run: Callable[..., tuple[Array, ...]] = plainly,
) -> Array:
    """`steps` steps from a warm start X, where `residual` is B − product(X, *held).

    The columns share their directions: each step minimises ½⟨X, product(X)⟩ − ⟨B, X⟩ exactly over the
    span of as many new directions as there are columns, so that it is lower after every step. `run` is
    given every step but the last: a pure function, and its arrays, `held` among them.
    """
    toward = system.precondition(residual)
    for _ in range(steps - 1):
        X, residual, toward = run(partial(_conjugate_step, system), X, residual, toward, *held)
    return _move(system, X, residual, toward, held)[0] if steps else X


def _conjugate_step(
    system: System, X: Array, residual: Array, toward: Array, *held: Any
) -> tuple[Array, Array, Array]:
    """One step, the residual after it, and the directions of the next: conjugate to those so far."""
    X, D, image, K, along = _move(system, X, residual, toward, held)
    residual = residual - image @ along
    toward = system.precondition(residual)
    return X, residual, toward - D @ (K.T @ (K @ (image.T @ toward)))


def _move(
    system: System, X: Array, residual: Array, toward: Array, held: Sequence[Any]
) -> tuple[Array, Array, Array, Array, Array]:
    """X at its best over the span of `toward`; D, its product, K with KᵀK = (DᵀMD)⁻¹; the step along D."""
    eye = array_namespace(X).eye(X.shape[1], dtype=X.dtype, device=device_of(X))
    factor = inverse_factor(_damped(toward.T @ toward, system.dust, eye), eye)
    D = toward @ factor.T  # orthonormal, but for dust
    image = system.product(D, *held)
    K = inverse_factor(_damped(D.T @ image, system.dust, eye), eye)
    along = K.T @ (K @ (D.T @ residual))
    return X + D @ along, D, image, K, along


def _damped(M: Array, dust: float, eye: Array) -> Array:
    """M positive definite where columns depend on each other; a factorisation reads one half of it only.

    A damped step still descends. Undamped, such columns would carry nothing but amplified rounding.
    """
    xp = array_namespace(M)
    return M + (dust * xp.linalg.trace(M) + float(xp.finfo(M.dtype).smallest_normal)) * eye


def largest_eigenvalue(M: Array) -> Array:
    """At least the largest eigenvalue of a positive semidefinite C × C matrix, at most C^(1/256) times it.

    It is tr(M²⁵⁶)^(1/256): products alone, where an eigenvalue solver would keep a device waiting.
    """
    xp = array_namespace(M)
    bound, power = 1.0, 1
    for _ in range(2):
        size = xp.linalg.trace(M) + float(xp.finfo(M.dtype).smallest_normal)
        bound = bound * size ** (1 / power)
        M = M / size  # its eigenvalues lie below 1 and the largest above 1/C: powers keep their digits
        for _ in range(4):
            M = M @ M
        power *= 16
    return bound * xp.linalg.trace(M) ** (1 / power)
