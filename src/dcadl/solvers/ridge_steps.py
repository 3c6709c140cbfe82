"""Ridge regression on codes that are too many to be solved for: conjugate gradients to a stated residual.

    (ŨŨᵀ + λI)Wᵀ = ŨYᵀ

The caller preconditions by some of the images as if they stood for all: their own ŨŨᵀ, as many times as there
are more images than they. Forty steps are usual; the preconditioner of the passes takes hundreds.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from dcadl.arrays import Array, array_namespace, as_float64, spd_solver
from dcadl.ops.codes import by_image, squared_norm
from dcadl.ops.floors import RESIDUAL
from dcadl.ops.ridge import ConjugateGradient, Samples, System, add_to_diagonal
from dcadl.solvers.walk import Chunk, Recomputable, Walk

STEPS, RESTARTS = 100, 5


def solve_by_steps(
    chunks: Sequence[Chunk],
    walk: Walk,
    code: Callable[[Array], Array],
    W: Array,
    lam: float,
    precondition: Callable[[Array], Array],
) -> Array:
    """Wᵀ (D, C), from one that is given, to a residual of 1e-6 of ŨYᵀ; a warning says where it is more."""
    codes, (FY,) = walk(partial(_kept_codes, code), chunks)
    xp = array_namespace(FY)

    def product(D: Array) -> Array:
        _, (image,) = walk(partial(_code_image, D), chunks, codes)
        return image + lam * D

    wanted = RESIDUAL * float(xp.sqrt(squared_norm(FY)))
    for _ in range(RESTARTS):
        residual = FY - product(W)
        length = float(xp.sqrt(squared_norm(residual)))
        if length <= wanted:
            break
        solution = ConjugateGradient(W, residual, precondition)
        for _ in range(STEPS):
            D = solution.directions()
            solution.move(D, product(D))
            if float(xp.sqrt(squared_norm(solution.residual))) <= 0.5 * wanted:
                break
        W = solution.X
    else:
        warnings.warn(
            f"The classifier solves its equations to {length / wanted * RESIDUAL:.0e} only; a larger ridge "
            "makes them easier.",
            RuntimeWarning,
            stacklevel=2,
        )
    return W


def _kept_codes(code: Callable[[Array], Array], chunk: Chunk) -> tuple[Recomputable, tuple[Array]]:
    def compute() -> Array:
        return code(chunk.patches())

    U, Y, s = compute(), as_float64(chunk.Y), chunk.weight
    heavy = Y if s is None else Y * as_float64(s)[:, None]
    return Recomputable(U, compute), (as_float64(by_image(U)).T @ heavy,)


def _code_image(D: Array, chunk: Chunk, U: Array) -> tuple[None, tuple[Any]]:
    rows, s = as_float64(by_image(U)), chunk.weight
    responses = rows @ D
    return None, (rows.T @ (responses if s is None else responses * as_float64(s)[:, None]),)


def preconditioner(samples: Samples, own: System, lam: float, share: float) -> Callable[[Array], Array]:
    """(FᵀF/share + λI)⁻¹ of the judged images, a share of all; by Woodbury's identity where they are few."""
    if own.FY is not None:
        return spd_solver(add_to_diagonal(own.K * (own.tau / share), lam))
    F, inverse = samples.block(slice(None)), spd_solver(add_to_diagonal(own.K * own.tau, lam * share))
    return lambda R: (R - F.T @ inverse(F @ R)) / lam
