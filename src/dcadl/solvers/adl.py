"""Analysis dictionary learning: sparse codes of the samples, least-squares atoms of unit length, in turn.

l0: ½‖X − ΩY‖² + ½β‖Ω‖²  with ‖x_i‖₀ ≤ T;    l1: the same + λ1‖X‖₁.   ‖ω_i‖ = 1, Ω of full rank

The codes are exact for given atoms. The atoms are exact but for their constraints: scaling them to unit
length and replacing redundant ones may raise the objective, and no descent is claimed.

| paper | here     | shape  |                                  |
|-------|----------|--------|----------------------------------|
| Y     | `Y`      | (n, d) | samples of unit length           |
| X     | `X`      | (n, m) | codes                            |
| Ω     | `Omega`  | (m, d) | atoms, one per row               |
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from dcadl.arrays import Array, array_namespace, device_of
from dcadl.ops.closed_form import ridge
from dcadl.ops.codes import squared_norm
from dcadl.ops.floors import DEAD_ATOM
from dcadl.ops.patches import row_norms, unit_rows
from dcadl.ops.rank import rank, with_full_rank


class Problem(NamedTuple):
    """What stays fixed while we iterate."""

    Y: Array
    sparsify: Callable[[Array], Array]  # responses -> codes: hard (l0) or soft (l1) thresholding
    lam1: float  # weight of ‖X‖₁; 0 for l0
    beta: float
    regress: Array  # (d, n): codes -> Ωᵀ = (YᵀY + βI)⁻¹YᵀX, taken once
    full: int  # the rank that the samples allow


class State(NamedTuple):
    """What moves, and the objective after the codes of each pass so far."""

    Omega: Array
    trace: tuple[float, ...]


def pose(Y: Array, sparsify: Callable[[Array], Array], lam1: float, beta: float) -> Problem:
    """The problem, with its one factorisation."""
    xp = array_namespace(Y)
    identity = xp.eye(Y.shape[0], dtype=Y.dtype, device=device_of(Y))
    return Problem(Y, sparsify, lam1, beta, ridge(Y, identity, beta), rank(Y))


def start(problem: Problem, Omega: Array) -> State:
    """The given atoms."""
    return State(Omega, ())


def step(problem: Problem, state: State) -> State:
    """One pass: codes, then atoms."""
    Y, sparsify, lam1, beta, regress, full = problem
    xp = array_namespace(Y)
    responses = Y @ state.Omega.T
    X = sparsify(responses)
    value = (
        0.5 * float(squared_norm(X - responses))
        + lam1 * float(xp.sum(xp.abs(X)))
        + 0.5 * beta * float(squared_norm(state.Omega))
    )
    Omega = _revived((regress @ X).T, Y, row_norms(X - responses)[:, 0])
    Omega = with_full_rank(unit_rows(Omega), Y, min(full, Omega.shape[0]))
    return State(Omega, (*state.trace, value))


def _revived(Omega: Array, Y: Array, misfit: Array) -> Array:
    """Atoms that no code uses replaced by the samples whose codes fit worst, a different one each."""
    xp = array_namespace(Omega)
    dead = row_norms(Omega)[:, 0] < DEAD_ATOM
    worst = xp.argsort(misfit, descending=True)
    turn = (xp.cumulative_sum(xp.astype(dead, worst.dtype)) - 1) % Y.shape[0]  # −1 is of no dead atom
    return xp.where(dead[:, None], xp.take(Y, xp.take(worst, turn), axis=0), Omega)
