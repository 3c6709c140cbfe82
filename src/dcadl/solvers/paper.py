"""DCADL by Algorithm 1: step length ρ = 1, T + 1 passes, no promise of descent.

With the ridge λ3 in line 10 in place of the printed λ3/λ2 (`w_ridge`) a pass is that of the authors' release.

Read with the errata (docs/errata.md): line 6 as printed climbs, so its sign is turned; `L` there is Y;
line 10 needs Ũᵀ. With ρ = 1 line 4 sets U to ΩX̄, so that the codes of a pass forget those before.

| paper | here    | shape      |                                              |
|-------|---------|------------|----------------------------------------------|
| X̄     | `P`     | (n, p, d)  | patches                                      |
| U     | `U`     | (n, p, m)  | codes; Ū, Ũ are the views `by_patch`, `by_image` |
| Ω, W  | `Omega`, `W` | (m, d), (C, p·m) |                                   |
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from dcadl.arrays import Array, array_namespace, as_float64, spd_solver
from dcadl.ops.closed_form import ridge
from dcadl.ops.codes import as_codes, by_image, by_patch, clip_rows, respond, soft_threshold, squared_norm
from dcadl.ops.ridge import add_to_diagonal


class Problem(NamedTuple):
    """What stays fixed while we iterate."""

    P: Array
    Y: Array
    lam1: float
    lam2: float
    lam3: float
    lam4: float
    rho: float
    w_ridge: float  # of line 10: λ3/λ2 as printed, λ3 as released
    fit_atoms: Callable[[Array], Array]  # ŪX̄ᵀ -> least-squares atoms, factored once


class State(NamedTuple):
    """What moves, and the objective after each block so far."""

    Omega: Array
    W: Array
    U: Array
    A: Array  # ΩX̄
    trace: tuple[float, ...]


def pose(
    P: Array,
    Y: Array,
    lams: tuple[float, float, float, float],
    rho: float = 1.0,
    w_ridge: float | None = None,
) -> Problem:
    """The problem, with X̄X̄ᵀ + λ4I factored once. `w_ridge` is the ridge of line 10, λ3/λ2 if None."""
    rows = by_patch(P)
    solve = spd_solver(add_to_diagonal(as_float64(rows.T @ rows), lams[3]))
    xp = array_namespace(P)
    printed = lams[2] / lams[1] if w_ridge is None else w_ridge
    return Problem(P, Y, *lams, rho, printed, lambda B: xp.astype(solve(as_float64(B).T).T, P.dtype))


def start(problem: Problem, Omega: Array, W: Array) -> State:
    """The given atoms and classifier; the codes of the first pass do not depend on those before it."""
    A = respond(problem.P, Omega)
    return State(Omega, W, A, A, ())


def step(problem: Problem, state: State) -> State:
    """One pass of Algorithm 1."""
    P, Y, lam1, lam2, _, _, rho, w_ridge, fit_atoms = problem
    Omega, W, U, A, trace = state

    U = U - rho * (U - A)  # line 4
    error = Y - by_image(U) @ W.T
    U = U + rho * lam2 * as_codes(error @ W, U.shape)  # line 6, with the sign that descends
    U = soft_threshold(U, rho * lam1)  # line 8
    trace = (*trace, value(problem, Omega, W, U, A))
    W = ridge(by_image(U), Y, w_ridge).T  # line 10
    trace = (*trace, value(problem, Omega, W, U, A))
    Omega = clip_rows(fit_atoms(by_patch(U).T @ by_patch(P)))  # lines 12-13
    A = respond(P, Omega)
    return State(Omega, W, U, A, (*trace, value(problem, Omega, W, U, A)))


def value(problem: Problem, Omega: Array, W: Array, U: Array, A: Array) -> float:
    """F of Eq. 4 with the ridges that lines 10 and 12 imply."""
    xp = array_namespace(U)
    return (
        0.5 * float(squared_norm(A - U))
        + problem.lam1 * float(xp.sum(xp.abs(U)))
        + 0.5 * problem.lam2 * float(squared_norm(problem.Y - by_image(U) @ W.T))
        + 0.5 * problem.lam3 * float(squared_norm(W))
        + 0.5 * problem.lam4 * float(squared_norm(Omega))
    )


def objective(problem: Problem, state: State) -> tuple[float, ...]:
    """F after each block of each pass: codes, classifier, atoms, codes, …"""
    return state.trace
