"""The codes' block, lines 4-8: min over U of ½‖A − U‖² + λ1‖U‖₁ + ½λ2‖Y − WŨ‖², for each image alone.

Without λ1 the block has a closed form, A + λ2Wᵀ(I + λ2WWᵀ)⁻¹(Y − WA), that costs one step. Shrunk by λ1 it is
all but the solution while λ1 is small. An image rejects it, and keeps its old codes, where it would raise the
image's objective; where many images do, we take proximal-gradient steps: the block is 1-strongly convex and
L-smooth, L = 1 + λ2‖W‖², so K ≥ √L·ln 2 accelerated steps lower it for certain; where that is too many, plain
steps do, each of which lowers it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from dcadl.arrays import Array, array_namespace, device_of, inverse_factor, on_host
from dcadl.ops.floors import ROUNDING_SLACK, SMOOTHNESS_SLACK
from dcadl.ops.ridge import add_to_diagonal, largest_eigenvalue

STEPS = 3  # in a pass, where steps are taken: more lower the objective less than they cost
MAX_STEPS = 16
FEW, MANY = 0.05, 0.5  # shares of images that reject the closed form: then steps follow it, or replace it


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
            rows, error, *terms = _unless(worse, (found, found_error, *there), (rows, error, *before))
            after = ImageTerms(*terms)
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
    if on_host(worse) and not bool(xp.any(worse)):  # a device would make us wait for the answer
        return new
    return tuple(xp.where(xp.reshape(worse, (-1,) + (1,) * (a.ndim - 1)), b, a) for a, b in zip(new, old))
