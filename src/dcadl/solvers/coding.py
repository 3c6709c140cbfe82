"""The codes' block, lines 4-8: min over U of ½‖A − U‖² + λ1‖U‖₁ + ½λ2‖Y − WŨ‖², for each image alone.

Without λ1 the block has a closed solution, A + λ2Wᵀ(I + λ2WWᵀ)⁻¹(Y − WA), that costs one step. Shrunk by λ1
it is all but the solution while λ1 is small: the *leap*. An image keeps its old codes where the leap would
raise its objective, and where many images do, we take proximal-gradient steps: the block is 1-strongly convex
and L-smooth, L = 1 + λ2‖W‖², so K ≥ √L·ln 2 accelerated steps lower it for certain; where that is too many,
plain steps do, each of which lowers it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from dcadl.arrays import Array, array_namespace, device_of, inverse_factor, on_host
from dcadl.ops.codes import as_codes, by_image, shrink
from dcadl.ops.ridge import add_to_diagonal, largest_eigenvalue

STEPS = 3  # in a pass, where steps are taken: more lower the objective less than they cost
MAX_STEPS = 16
FEW, MANY = 0.05, 0.5  # shares of images that refuse the leap: then steps follow it, or replace it


class Pace(NamedTuple):
    """How the codes move in a pass."""

    leap: bool
    steps: int
    accelerate: bool


class Terms(NamedTuple):
    """The terms of each image, (b,): ½‖A − U‖², λ1‖U‖₁, ½λ2‖Y − WŨ‖²."""

    fit: Array
    sparsity: Array
    label: Array


class Coded(NamedTuple):
    """New codes, what they leave of the labels, and the terms before and after."""

    U: Array
    error: Array  # (b, C)
    before: Terms
    after: Terms
    refused: Array  # number of images that the leap did not serve


class Coder(NamedTuple):
    """What moves the codes of a chunk: all of it, and the leap alone."""

    move: Callable[[Array, Array, Array], Coded]  # of U, A, Y
    leap: Callable[[Array, Array], Array]  # of A, Y: no old codes enter


def smoothness(W: Array, lam2: float) -> Array:
    """L = 1 + λ2‖W‖², or a little more."""
    return 1 + (lam2 * (1 + 1e-6)) * largest_eigenvalue(W @ W.T)  # the bound carries rounding


def pace_for(L: float, refused: float) -> Pace:
    """Leap while all but a few images take it; else as many steps as lower the block for certain."""
    if refused <= FEW:
        return Pace(True, 0, False)
    needed = math.ceil(math.sqrt(L) * math.log(2))
    accelerate = needed <= MAX_STEPS
    return Pace(refused <= MANY, max(STEPS, needed) if accelerate else STEPS, accelerate)


def coder(W: Array, lam1: float, lam2: float, pace: Pace, L: float | Array, dtype: object) -> Coder:
    """What moves the codes of a chunk under the classifier W, which comes in float64."""
    xp = array_namespace(W)
    short_W, land = xp.astype(W, dtype), _leaper(W, lam1, lam2, dtype)
    advance = _stepper(short_W, lam1, lam2, pace, L)

    def missed(codes: Array, Y: Array) -> Array:
        return Y - by_image(codes) @ short_W.T

    def leap(A: Array, Y: Array) -> Array:
        return land(A, missed(A, Y))

    def move(U: Array, A: Array, Y: Array) -> Coded:
        error = missed(U, Y)
        before = after = terms_of(U, A, error, lam1, lam2)
        worse = xp.ones(Y.shape[0], dtype=xp.bool, device=device_of(Y))
        if pace.leap:
            landed = leap(A, Y)
            landed_error = missed(landed, Y)
            there = terms_of(landed, A, landed_error, lam1, lam2)
            slack = 4 * float(xp.finfo(U.dtype).eps)  # equal values are no reason to refuse
            worse = sum(there) > (1 + slack) * sum(before)
            U, error, *rest = _unless(worse, (landed, landed_error, *there), (U, error, *before))
            after = Terms(*rest)
        if pace.steps:
            U, error = advance(U, A, Y, error)
            after = terms_of(U, A, error, lam1, lam2)
        return Coded(U, error, before, after, xp.sum(xp.astype(worse, xp.float64)))

    return Coder(move, leap)


def terms_of(U: Array, A: Array, error: Array, lam1: float, lam2: float) -> Terms:
    """The terms of each image at codes U."""
    xp = array_namespace(U)
    gap, rows = by_image(U - A), by_image(U)
    ones = xp.ones(rows.shape[1], dtype=U.dtype, device=device_of(U))
    sizes = xp.abs(rows) @ ones  # a product: NumPy's sum takes twice as long
    return Terms(0.5 * xp.vecdot(gap, gap), lam1 * sizes, 0.5 * lam2 * xp.vecdot(error, error))


def _leaper(W: Array, lam1: float, lam2: float, dtype: object) -> Callable[[Array, Array], Array]:
    xp = array_namespace(W)
    eye = xp.eye(W.shape[0], dtype=W.dtype, device=device_of(W))
    K = inverse_factor(add_to_diagonal(lam2 * (W @ W.T), 1.0), eye)
    back = xp.astype(lam2 * (K.T @ (K @ W)), dtype)  # (C, p·m): λ2(I + λ2WWᵀ)⁻¹W

    def land(A: Array, error: Array) -> Array:
        landed = as_codes(error @ back, A.shape)
        landed += A
        return shrink(landed, lam1)

    return land


def _stepper(
    W: Array, lam1: float, lam2: float, pace: Pace, L: float | Array
) -> Callable[[Array, Array, Array, Array], tuple[Array, Array]]:
    root = L**0.5
    beta = (root - 1) / (root + 1) if pace.accelerate else 0.0
    length = 1 / L
    kept, shrinkage = 1 - length, lam1 * length
    scaled_W = (lam2 * length) * W

    def steps(U: Array, A: Array, Y: Array, error: Array) -> tuple[Array, Array]:
        pull = A * length

        def advance(V: Array, V_error: Array) -> tuple[Array, Array]:
            moved = as_codes(V_error @ scaled_W, V.shape)
            moved += pull  # in place: these arrays are new, and each further one costs a trip to memory
            moved += V * kept
            shrunk = shrink(moved, shrinkage)
            return shrunk, Y - by_image(shrunk) @ W.T

        before, before_error = U, error
        U, error = advance(U, error)
        for _ in range(pace.steps - 1):
            ahead = U - before
            ahead *= beta
            ahead += U
            ahead_error = error + beta * (error - before_error)  # the error is affine in the codes
            before, before_error = U, error
            U, error = advance(ahead, ahead_error)
        return U, error

    return steps


def _unless(worse: Array, new: tuple[Array, ...], old: tuple[Array, ...]) -> tuple[Array, ...]:
    """New rows, but old ones where they are worse."""
    xp = array_namespace(worse)
    if on_host(worse) and not bool(xp.any(worse)):  # a device would make us wait for the answer
        return new
    return tuple(xp.where(xp.reshape(worse, (-1,) + (1,) * (a.ndim - 1)), b, a) for a, b in zip(new, old))
