"""When passes end: by the leave-one-out error of the classifier that predictions would use.

The objective goes on falling while atoms shrink to nothing, and accuracy falls with it (docs/errata.md): a
lower objective is not a better classifier.
"""

from __future__ import annotations

from dcadl.arrays import Array
from dcadl.ops.codes import code_responses, shrunk
from dcadl.solvers import descent
from dcadl.solvers.code_ridge import leave_one_out_error
from dcadl.solvers.descent import BLOCKS, Best, Problem, State
from dcadl.solvers.loop import Progress

EVERY = 3  # passes between two looks
PATIENCE = 9  # passes after the best one, in which none was better, until we believe that none will be
JUDGES = 512  # images looked at, about: the error of fewer is higher, and moves in the same way


def judged_step(problem: Problem, tol: float, state: State) -> State:
    """One pass; where a look is due, with the best pass so far: its error is lower by a share of `tol`."""
    state = descent.step(problem, state)
    n_iter = len(state.trace) // BLOCKS
    if tol == 0 or n_iter % EVERY:
        return state
    Omega, best = state.Omega, state.best

    def code(P: Array) -> Array:
        return shrunk(code_responses(P, Omega, problem.split), problem.lam1, problem.split)

    error = leave_one_out_error(problem.chunks, problem.walk, code, state.W.shape[1], judges=JUDGES)
    if best is None or error < (1 - tol) * best.error:
        return state._replace(best=Best(Omega, state.W, n_iter, error))
    return state


def settled(state: State) -> bool:
    """Whether the best pass lies long enough behind."""
    return state.best is not None and len(state.trace) // BLOCKS - state.best.n_iter >= PATIENCE


def last_pass(begin: Progress, max_iter: int) -> int:
    """The number of the last pass that may be made: none, where a fit that was interrupted had settled."""
    return begin.n_iter if settled(begin.state) else max_iter


def best_of(state: State) -> State:
    """The atoms and the classifier of the best pass that was looked at, or of the last one."""
    return state if state.best is None else state._replace(Omega=state.best.Omega, W=state.best.W)
