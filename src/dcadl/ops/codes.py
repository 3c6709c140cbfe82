"""Responses to atoms, shrinkage, the paper's reshapings as views of one array U (n, p, m), and sums."""

from __future__ import annotations

from dcadl.arrays import Array, array_namespace, as_float64

LONG = 16_384  # rows beyond which a sum over them is taken in runs
RUN = 1024


def respond(P: Array, Omega: Array) -> Array:
    """ΩX̄: the response of every patch to every atom, (n, p, d) → (n, p, m)."""
    xp = array_namespace(P)
    return xp.reshape(by_patch(P) @ Omega.T, (P.shape[0], P.shape[1], Omega.shape[0]))


def soft_threshold(x: Array, a: float) -> Array:
    """τ_a(x) = sign(x)·max(|x| − a, 0)."""
    return x - array_namespace(x).clip(x, -a, a)


def shrink(x: Array, a: float) -> Array:
    """The same in the place of x."""
    x -= array_namespace(x).clip(x, -a, a)
    return x


def by_patch(U: Array) -> Array:
    """Ū transposed: one row per patch, (n·p, m)."""
    return array_namespace(U).reshape(U, (-1, U.shape[-1]))


def by_image(U: Array) -> Array:
    """Ũ transposed: one row per image, (n, p·m), features ordered patch first, then atom."""
    return array_namespace(U).reshape(U, (U.shape[0], -1))


def as_codes(A: Array, shape: tuple[int, ...]) -> Array:
    """Undo `by_patch` or `by_image`."""
    return array_namespace(A).reshape(A, shape)


def weigh(U: Array, weight: Array | None) -> Array:
    """s_j U_j for each image j; without weights U itself."""
    if weight is None:
        return U
    xp = array_namespace(U)
    return U * xp.reshape(xp.astype(weight, U.dtype), (-1,) + (1,) * (U.ndim - 1))


def total(values: Array, weight: Array | None) -> Array:
    """Σ_j s_j·values_j, in float64: sums over chunks must not lose digits."""
    values = as_float64(values)
    return array_namespace(values).sum(values if weight is None else values * as_float64(weight))


def sum_over_rows(A: Array, B: Array) -> Array:
    """AᵀB in float64. Many rows are summed up in runs: one float32 sum over 60 000 loses digits."""
    xp = array_namespace(A)
    n = A.shape[0]
    if n <= LONG:
        return as_float64(A.T @ B)
    whole = n - n % RUN
    runs = [xp.reshape(part[:whole, :], (-1, RUN, part.shape[1])) for part in (A, B)]
    summed = xp.sum(xp.permute_dims(runs[0], (0, 2, 1)) @ runs[1], axis=0, dtype=xp.float64)
    return summed + as_float64(A[whole:, :].T @ B[whole:, :]) if whole < n else summed


def squared_norm(x: Array) -> Array:
    """‖x‖², the sum over all entries, as a 0-d array in float64 (sums over chunks must not lose digits)."""
    xp = array_namespace(x)
    flat = xp.reshape(x, (-1,))
    return xp.asarray(xp.vecdot(flat, flat), dtype=xp.float64)
