"""Codes: responses to atoms, shrinkage, the paper's reshapings as views of one array U, and their step.

The codes' block, lines 4-8: min over U of ½‖A − U‖² + λ1‖U‖₁ + ½λ2‖Y − WŨ‖², for each image alone.

Without λ1 the block has a closed form, A + λ2Wᵀ(I + λ2WWᵀ)⁻¹(Y − WA), that costs one step. Shrunk by λ1 it is
all but the solution while λ1 is small. An image rejects it, and keeps its old codes, where it would raise the
image's objective; where many images do, we take proximal-gradient steps: the block is 1-strongly convex and
L-smooth, L = 1 + λ2‖W‖², so K ≥ √L·ln 2 accelerated steps lower it for certain; where that is too many, plain
steps do, each of which lowers it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from dcadl.arrays import Array, array_namespace, as_float64, device_of, inverse_factor, on_host
from dcadl.ops.floors import ROUNDING_SLACK, SMOOTHNESS_SLACK
from dcadl.ops.ridge import add_to_diagonal, largest_eigenvalue

LONG = 16_384  # rows beyond which a sum over them is taken in runs
RUN = 1024
STEPS = 3  # in a pass, where steps are taken: more lower the objective less than they cost
MAX_STEPS = 16
FEW, MANY = 0.05, 0.5  # shares of images that reject the closed form: then steps follow it, or replace it


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


# --- the codes' block, lines 4-8 ----------------------------------------------------------------------


class CodeSchedule(NamedTuple):
    """How the codes move in a pass: by the closed form, by so many steps, or by both."""

    closed_form: bool
    steps: int
    accelerate: bool


class ImageTerms(NamedTuple):
    """The terms of each image, (b,): ½‖A − U‖², λ1‖U‖₁, ½λ2‖Y − WŨ‖²."""

    fit: Array
    sparsity: Array
    label: Array


class NewCodes(NamedTuple):
    """New codes, what they leave of the labels, and the terms before and after."""

    U: Array
    error: Array  # (b, C)
    before: ImageTerms
    after: ImageTerms
    rejected: Array  # number of images that the closed form did not serve


def smoothness(W: Array, lam2: float) -> Array:
    """L = 1 + λ2‖W‖², or a little more."""
    return 1 + (lam2 * (1 + SMOOTHNESS_SLACK)) * largest_eigenvalue(W @ W.T)


def schedule_codes(L: float, rejected: float) -> CodeSchedule:
    """The closed form while all but a few images take it; else steps that lower the block for certain."""
    if rejected <= FEW:
        return CodeSchedule(True, 0, False)
    needed = math.ceil(math.sqrt(L) * math.log(2))
    accelerate = needed <= MAX_STEPS
    return CodeSchedule(rejected <= MANY, max(STEPS, needed) if accelerate else STEPS, accelerate)


class CodeStep:
    """What moves the codes of a chunk under the classifier W, which comes in float64."""

    def __init__(
        self, W: Array, lam1: float, lam2: float, schedule: CodeSchedule, L: float | Array, dtype: object
    ) -> None:
        xp = array_namespace(W)
        eye = xp.eye(W.shape[0], dtype=W.dtype, device=device_of(W))
        K = inverse_factor(add_to_diagonal(lam2 * (W @ W.T), 1.0), eye)
        self._W = xp.astype(W, dtype)
        self._back = xp.astype(lam2 * (K.T @ (K @ W)), dtype)  # (C, p·m): λ2(I + λ2WWᵀ)⁻¹W
        self._lam1, self._lam2, self.schedule, self._L = lam1, lam2, schedule, L

    def __call__(self, U: Array, A: Array, Y: Array) -> NewCodes:
        """Codes U (b, p, m) with responses A to codes of which no image's objective is higher."""
        xp = array_namespace(U)
        shape, rows, A = U.shape, xp.reshape(U, (U.shape[0], -1)), xp.reshape(A, (U.shape[0], -1))
        error = Y - rows @ self._W.T
        before = after = image_terms(rows, A, error, self._lam1, self._lam2)
        worse = xp.ones(Y.shape[0], dtype=xp.bool, device=device_of(Y))
        if self.schedule.closed_form:
            found = self.closed_form(A, Y)
            found_error = Y - found @ self._W.T
            there = image_terms(found, A, found_error, self._lam1, self._lam2)
            slack = ROUNDING_SLACK * float(xp.finfo(U.dtype).eps)
            worse = sum(there) > (1 + slack) * sum(before)
            new, old = (found, found_error, *there), (rows, error, *before)
            if not on_host(worse) or bool(xp.any(worse)):  # a device would make us wait for the answer
                new = _unless(worse, new, old)
            rows, error, after = new[0], new[1], ImageTerms(*new[2:])
        if self.schedule.steps:
            rows, error = self._proximal_steps(rows, A, Y, error)
            after = image_terms(rows, A, error, self._lam1, self._lam2)
        rejected = xp.sum(xp.astype(worse, xp.float64))
        return NewCodes(xp.reshape(rows, shape), error, before, after, rejected)

    def closed_form(self, A: Array, Y: Array) -> Array:
        """The closed form, shrunk, one row per image: no old codes enter it."""
        xp = array_namespace(A)
        rows = xp.reshape(A, (A.shape[0], -1))
        found = (Y - rows @ self._W.T) @ self._back
        found += rows
        found -= xp.clip(found, -self._lam1, self._lam1)
        return found

    def _proximal_steps(self, U: Array, A: Array, Y: Array, error: Array) -> tuple[Array, Array]:
        """Steps of length 1/L, accelerated where the schedule says so."""
        xp, root, length = array_namespace(U), self._L**0.5, 1 / self._L
        beta = (root - 1) / (root + 1) if self.schedule.accelerate else 0.0
        threshold, toward = self._lam1 * length, A * length
        scaled_W = (self._lam2 * length) * self._W
        ahead, ahead_error = U, error
        for k in range(self.schedule.steps):
            old, old_error = U, error
            U = ahead_error @ scaled_W
            U += toward  # in place: these arrays are new, and each further one costs a trip to memory
            U += ahead * (1 - length)
            U -= xp.clip(U, -threshold, threshold)
            error = Y - U @ self._W.T
            if k + 1 < self.schedule.steps:
                ahead = U - old
                ahead *= beta
                ahead += U
                ahead_error = error + beta * (error - old_error)  # the error is affine in the codes
        return U, error


def image_terms(rows: Array, A: Array, error: Array, lam1: float, lam2: float) -> ImageTerms:
    """The terms of each image at codes, one row per image, whose responses are A."""
    xp = array_namespace(rows)
    gap = rows - A
    ones = xp.ones(rows.shape[1], dtype=rows.dtype, device=device_of(rows))
    sizes = xp.abs(rows) @ ones  # a product: NumPy's sum takes twice as long
    return ImageTerms(0.5 * xp.vecdot(gap, gap), lam1 * sizes, 0.5 * lam2 * xp.vecdot(error, error))


def _unless(worse: Array, new: tuple[Array, ...], old: tuple[Array, ...]) -> tuple[Array, ...]:
    """New rows, but old ones where they are worse."""
    xp = array_namespace(worse)
    return tuple(xp.where(xp.reshape(worse, (-1,) + (1,) * (a.ndim - 1)), b, a) for a, b in zip(new, old))
