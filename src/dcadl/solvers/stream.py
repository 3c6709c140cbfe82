"""DCADL on a stream: of each batch only sums are kept, of which atoms and classifier are made anew.

With the codes that each batch was given when it came, F of all batches, older ones weighed down by γ, is

F̂(Ω, W) = c + ½tr(ΩGΩᵀ) − tr(ΩBᵀ) + ½λ2(‖Y‖² − 2tr(WR) + tr(WSWᵀ)) + ½λ3‖W‖² + ½λ4‖Ω‖²,  ‖ω_i‖ ≤ 1

an upper bound of F at the best codes. Ω and W enter it apart, so that both are minimised exactly.

| here     | shape      |                                             |
|----------|------------|---------------------------------------------|
| `G`, `B` | (d, d), (m, d) | X̄X̄ᵀ, ŪX̄ᵀ                               |
| `S`, `R` | (p·m, p·m), (p·m, C) | ŨŨᵀ, ŨYᵀ with Y as it is, not centred |
| `u`, `y` | (p·m,), (C,) | sums of Ũ and of Y, to centre R with      |
| `c`      | ()         | ½‖U‖² + λ1‖U‖₁                              |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dcadl.arrays import Array, array_namespace, fetch, spd_solver
from dcadl.ops.codes import (
    MANY,
    CodeStep,
    ball_atoms,
    by_image,
    by_patch,
    respond,
    schedule_codes,
    shrink,
    smoothness,
)
from dcadl.ops.floors import RIDGE_DAMPING
from dcadl.ops.ridge import add_to_diagonal, from_contrasts
from dcadl.solvers import descent
from dcadl.solvers.walk import Chunk

MAX_FEATURES = 8192  # S then takes half a gigabyte


class Statistics(NamedTuple):
    """Weighted sums over all images so far, in float64."""

    G: np.ndarray
    B: np.ndarray
    S: np.ndarray
    R: np.ndarray
    u: np.ndarray
    y: np.ndarray
    c: np.ndarray


def codes_of(problem: descent.Problem, Omega: Array, W: Array | None) -> Sequence[Array]:
    """Codes of a batch under the atoms and the classifier so far; without one, a first is made of it."""
    if W is None:
        return descent.step(problem, descent.start(problem, Omega)).codes
    schedule = schedule_codes(float(smoothness(W, problem.lam2)), MANY)
    move = CodeStep(W, problem.lam1, problem.lam2, schedule, Omega.dtype, problem.split)

    def visit(chunk: Chunk) -> tuple[Array, tuple[()]]:
        xp, A = array_namespace(Omega), respond(chunk.patches(), Omega, problem.split)
        return move(shrink(xp.asarray(A, copy=True), problem.lam1, problem.split), A, chunk.Y).U, ()

    return problem.walk(visit, problem.chunks)[0]


def gather(problem: descent.Problem, codes: Sequence[Array], intercept: np.ndarray) -> Statistics:
    """The sums of one batch, whose labels come less `intercept`."""
    _, sums = problem.walk(lambda chunk, U: _sums(chunk, U, intercept, problem.lam1), problem.chunks, codes)
    return Statistics(fetch(problem.G), *sums)


def add(old: Statistics, new: Statistics, forgetting: float) -> Statistics:
    """Old sums, weighed down, and new ones."""
    return Statistics(*(forgetting * a + b for a, b in zip(old, new)))


def solve(sums: Statistics, lam2: float, lam3: float, lam4: float) -> tuple[np.ndarray, np.ndarray]:
    """Ω and W that minimise F̂."""
    floor = RIDGE_DAMPING * float(np.diagonal(sums.S).max())  # keeps S positive definite when λ3 = 0
    W = spd_solver(add_to_diagonal(lam2 * sums.S, max(lam3, lam2 * floor)))(lam2 * centred(sums)).T
    return ball_atoms(sums.G, lam4)(sums.B), W


def bound(sums: Statistics, Omega: np.ndarray, W: np.ndarray, lams: Sequence[float]) -> float:
    """F̂(Ω, W)."""
    _, lam2, lam3, lam4 = lams
    b = shares(sums.y)
    fit = float(sums.c) + 0.5 * np.vdot(Omega @ sums.G, Omega) - np.vdot(Omega, sums.B)
    labels = sums.y @ (1 - 2 * b + b @ b) - 2 * np.vdot(W.T, centred(sums)) + np.vdot(W @ sums.S, W)
    return float(fit + 0.5 * (lam2 * labels + lam3 * np.vdot(W, W) + lam4 * np.vdot(Omega, Omega)))


def shares(y: np.ndarray) -> np.ndarray:
    """The share of each class so far: the intercept."""
    return y / y.sum()


def centred(sums: Statistics) -> np.ndarray:
    """ŨYᵀ with the shares of the classes taken out of Y."""
    return sums.R - np.outer(sums.u, shares(sums.y))


def _sums(chunk: Chunk, U: Array, intercept: np.ndarray, lam1: float) -> tuple[None, Any]:
    Y = np.round(from_contrasts(fetch(chunk.Y)) + intercept).astype(np.float64)  # one-hot again, to the bit
    s = np.ones(len(Y)) if chunk.weight is None else fetch(chunk.weight).astype(np.float64)
    codes = fetch(U).astype(np.float64)
    heavy = codes * s[:, None, None]
    rows, heavy_rows = by_image(codes), by_image(heavy)
    B = by_patch(heavy).T @ by_patch(fetch(chunk.patches()))
    size = 0.5 * np.vdot(heavy, codes) + lam1 * np.abs(heavy).sum()
    return None, (B, heavy_rows.T @ rows, heavy_rows.T @ Y, heavy_rows.sum(axis=0), s @ Y, size)
