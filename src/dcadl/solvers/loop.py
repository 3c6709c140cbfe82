"""The loop that every iterative method shares: step, judge, stop, go on where it was left."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

TINY = np.finfo(np.float64).tiny  # an objective of zero is as low as it gets


class Progress(NamedTuple):
    """Where a loop is. A loop that is given one goes on from there."""

    state: Any
    n_iter: int = 0  # passes done so far
    value: float = np.inf  # the objective after the last of them
    last_change: float = np.inf  # its relative decrease in that pass

    @classmethod
    def after(cls, state: Any, values: Sequence[float]) -> Progress:
        """Where a loop was that had made a pass for each of these values of the objective."""
        change = _relative_decrease(*values[-2:]) if len(values) > 1 else np.inf
        return cls(state, len(values), values[-1], change)


class Result(NamedTuple):
    """Where a loop ended."""

    state: Any
    n_iter: int
    converged: bool
    last_change: float


def last_value(state: Any) -> float:
    """The objective after the last pass: what a pass is judged by."""
    return float(state.trace[-1])


def iterate(
    step: Callable[[Any], Any],
    begin: Any,
    *,
    max_iter: int,
    tol: float,
    watch: Callable[[int, Any], bool] | None = None,
) -> Result:
    """Repeat `step` until a pass changes the objective by less than `tol` of itself, or `watch` says stop.

    The objective is the last entry of the state's `trace`. `begin` is a state, or the `Progress` of a loop
    that was interrupted: its passes are counted and its last change is judged as if there had been no
    interruption. `tol=0` makes exactly `max_iter` passes, however the objective moves: a change that is
    rounding must not end them.
    """
    state, n_iter, before, change = begin if isinstance(begin, Progress) else Progress(begin)
    while n_iter < max_iter and not _settled(change, tol):
        state, n_iter = step(state), n_iter + 1
        now = last_value(state)
        if not np.isfinite(now):
            raise ValueError(
                f"The objective became {now} in pass {n_iter}. "
                "Scale the images to [0, 1] or raise the ridges."
            )
        change, before = _relative_decrease(before, now), now
        if watch is not None and watch(n_iter, state):
            return Result(state, n_iter, True, change)
    return Result(state, n_iter, tol <= 0 or _settled(change, tol), change)


def _relative_decrease(before: float, now: float) -> float:
    return (before - now) / max(abs(before), TINY) if np.isfinite(before) else np.inf


def _settled(change: float, tol: float) -> bool:
    """Whether a pass changed so little. An objective that may rise and fall has not settled when it rises."""
    return tol > 0 and abs(change) < tol
