"""Codes: responses to atoms, shrinkage, the paper's reshapings as views of one array U; the steps of both.

The codes' block, lines 4-8: min over U of ½‖A − U‖² + λ1‖U‖₁ + ½λ2‖Y − WŨ‖², for each image alone.

Without λ1 the block has a closed form, A + λ2Wᵀ(I + λ2WWᵀ)⁻¹(Y − WA), that costs one step. Shrunk by λ1 it is
all but the solution while λ1 is small. An image rejects it where it would raise the image's objective, and
takes a proximal-gradient step from its old codes instead; where many do, more follow it in the next pass, or
take its place: the block is 1-strongly convex and L-smooth, L = 1 + λ2‖W‖², so K ≥ √L·ln 2 accelerated
steps lower it for certain; where that is too many, plain steps do, each of which lowers it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

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
from dcadl.ops.floors import ROUNDING_SLACK, SMOOTHNESS_SLACK
from dcadl.ops.patches import row_norms
from dcadl.ops.ridge import add_to_diagonal

LONG = 16_384  # rows beyond which a sum over them is taken in runs
RUN = 1024
STEPS = 3  # in a pass, where steps are taken: more lower the objective less than they cost
MAX_STEPS = 16
NEWTON_STEPS = 10  # from μ = 0 the iteration climbs monotonically and doubles its digits; 8 were ever needed
FEW, MANY = 0.05, 0.5  # shares of images that reject the closed form: then steps follow it, or replace it


def respond(P: Array, Omega: Array, split: bool = False) -> Array:
    """ΩX̄: the response of every patch to every atom, (n, p, d) → (n, p, m); or that split by sign."""
    xp = array_namespace(P)
    rows = xp.reshape(P, (-1, P.shape[-1]))
    A = xp.reshape(rows @ Omega.T, (P.shape[0], P.shape[1], Omega.shape[0]))
    return split_signs(A) if split else A


def encode(Omega: Array, lam1: float, split: bool, P: Array) -> Array:
    """τ_λ1(ΩX̄): codes that know no labels, as those of a new image."""
    return shrink(respond(P, Omega, split), lam1, split)


def soft_threshold(x: Array, a: float) -> Array:
    """τ_a(x) = sign(x)·max(|x| − a, 0)."""
    return x - array_namespace(x).clip(x, -a, a)


def shrink(x: Array, a: float, split: bool = False) -> Array:
    """The same in the place of x; of split responses, whose codes are not negative, max(x − a, 0)."""
    x -= array_namespace(x).clip(x, None if split else -a, a)
    return x


def split_signs(A: Array) -> Array:
    """(max(A, 0), max(−A, 0)) along the atoms, (…, m) → (…, 2m)."""
    xp = array_namespace(A)
    return xp.concat([xp.clip(A, min=0.0), xp.clip(-A, min=0.0)], axis=-1)


def rejoin_signs(gap: Array, A: Array) -> Array:
    """What gaps (…, 2m) to split responses A ask of the responses themselves, (…, m): of the active half.

    ½(max(r, 0) − u)² + ½(max(−r, 0) − v)² is ½r² less u·max(r, 0) + v·max(−r, 0), and a constant. The latter
    is convex for codes u, v ≥ 0 and lies above its tangents: ½(r − t)² with t = u where r > 0 and −v where
    r < 0 is an upper bound that touches.
    """
    xp, m = array_namespace(A), A.shape[-1] // 2
    zero = xp.zeros_like(gap[..., :m])
    return xp.where(A[..., :m] > 0, gap[..., :m], zero) - xp.where(A[..., m:] > 0, gap[..., m:], zero)


def per_atom(values: Array, split: bool) -> Array:
    """Values of codes (m,); of split ones (2m,) both halves of an atom together."""
    m = values.shape[0] // 2
    return values[:m] + values[m:] if split else values


def per_code(values: Array, split: bool) -> Array:
    """Values of atoms (m,) as those of its codes, (m,) or (2m,)."""
    return array_namespace(values).concat([values, values]) if split else values


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
        return xp.astype(A.T @ B, xp.float64)
    whole = n - n % RUN
    runs = [xp.reshape(part[:whole, :], (-1, RUN, part.shape[1])) for part in (A, B)]
    summed = xp.sum(xp.permute_dims(runs[0], (0, 2, 1)) @ runs[1], axis=0, dtype=xp.float64)
    return summed + xp.astype(A[whole:, :].T @ B[whole:, :], xp.float64) if whole < n else summed


def sum_per_code(values: Array, weight: Array | None) -> Array:
    """(n, p, m) → (m,) over images, weighed, and patches; over images by a product, quicker than a sum."""
    xp, rows = array_namespace(values), by_image(values)
    s = xp.ones_like(rows[:, 0]) if weight is None else xp.astype(weight, rows.dtype)
    return xp.sum(xp.reshape(as_float64(s @ rows), (-1, values.shape[-1])), axis=0)


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


class NewCodes(NamedTuple):
    """New codes, and what they leave of the labels."""

    U: Array
    error: Array  # (b, C)
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
        self, W: Array, lam1: float, lam2: float, schedule: CodeSchedule, dtype: object, split: bool = False
    ) -> None:
        xp = array_namespace(W)
        eye = xp.eye(W.shape[0], dtype=W.dtype, device=device_of(W))
        K = inverse_factor(add_to_diagonal(lam2 * (W @ W.T), 1.0), eye)
        self._W = xp.astype(W, dtype)
        self._back = xp.astype(lam2 * (K.T @ (K @ W)), dtype)  # (C, p·m): λ2(I + λ2WWᵀ)⁻¹W
        self._lam1, self.lam2, self.schedule = lam1, lam2, schedule
        self._split = split
        self._L = xp.astype(smoothness(W, lam2), dtype)

    def __call__(self, U: Array, A: Array, Y: Array) -> NewCodes:
        """Codes U (b, p, m) with responses A to codes of which no image's objective is higher."""
        xp = array_namespace(U)
        shape, rows, A = U.shape, xp.reshape(U, (U.shape[0], -1)), xp.reshape(A, (U.shape[0], -1))
        error = Y - rows @ self._W.T
        worse = xp.ones(Y.shape[0], dtype=xp.bool, device=device_of(Y))
        if self.schedule.closed_form:
            found = self.closed_form(A, Y)
            found_error = Y - found @ self._W.T
            before, there = self._values(rows, A, error), self._values(found, A, found_error)
            slack = ROUNDING_SLACK * float(xp.finfo(U.dtype).eps)
            worse = there > (1 + slack) * before
            if not on_host(worse) or bool(xp.any(worse)):  # a device would make us wait for the answer
                stepped = self._proximal_steps(rows, A, Y, error, 1)
                found, found_error = _unless(worse, (found, found_error), stepped)
            rows, error = found, found_error
        if self.schedule.steps:
            rows, error = self._proximal_steps(rows, A, Y, error, self.schedule.steps)
        rejected = xp.sum(xp.astype(worse, xp.float64))
        return NewCodes(xp.reshape(rows, shape), error, rejected)

    def _values(self, rows: Array, A: Array, error: Array) -> Array:
        """The objective of each image, (b,), at codes whose responses are A."""
        xp = array_namespace(rows)
        gap = rows - A
        ones = xp.ones(rows.shape[1], dtype=rows.dtype, device=device_of(rows))
        sizes = xp.abs(rows) @ ones  # a product: NumPy's sum takes twice as long
        return 0.5 * xp.vecdot(gap, gap) + self._lam1 * sizes + 0.5 * self.lam2 * xp.vecdot(error, error)

    def closed_form(self, A: Array, Y: Array) -> Array:
        """The closed form, shrunk, one row per image: no old codes enter it."""
        xp = array_namespace(A)
        rows = xp.reshape(A, (A.shape[0], -1))
        found = (Y - rows @ self._W.T) @ self._back
        found += rows
        found -= xp.clip(found, None if self._split else -self._lam1, self._lam1)
        return found

    def _proximal_steps(self, U: Array, A: Array, Y: Array, error: Array, steps: int) -> tuple[Array, Array]:
        """Steps of length 1/L, accelerated where the schedule says so."""
        xp, root, length = array_namespace(U), self._L**0.5, 1 / self._L
        beta = (root - 1) / (root + 1) if self.schedule.accelerate else 0.0
        threshold, toward = self._lam1 * length, A * length
        scaled_W = (self.lam2 * length) * self._W
        ahead, ahead_error = U, error
        for k in range(steps):
            old, old_error = U, error
            U = ahead_error @ scaled_W
            U += toward  # in place: these arrays are new, and each further one costs a trip to memory
            U += ahead * (1 - length)
            U -= xp.clip(U, None if self._split else -threshold, threshold)
            error = Y - U @ self._W.T
            if k + 1 < steps:
                ahead = U - old
                ahead *= beta
                ahead += U
                ahead_error = error + beta * (error - old_error)  # the error is affine in the codes
        return U, error


def _unless(worse: Array, new: tuple[Array, ...], old: tuple[Array, ...]) -> tuple[Array, ...]:
    """New rows, but old ones where they are worse."""
    xp = array_namespace(worse)
    return tuple(xp.where(xp.reshape(worse, (-1,) + (1,) * (a.ndim - 1)), b, a) for a, b in zip(new, old))


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


# --- the atoms' block, lines 12-13: rescaled as the paper does, or exactly inside the unit ball -------------


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


def _jitter(G: Array) -> float:
    """Ridge that keeps G positive definite when λ4 = 0 and patches leave directions empty."""
    xp = array_namespace(G)
    return float(xp.finfo(G.dtype).eps * xp.max(xp.abs(G)) * G.shape[0])
