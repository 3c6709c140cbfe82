"""The loop that every iterative method shares: step, watch, stop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

TINY = np.finfo(np.float64).tiny  # an objective of zero is as low as it gets


class Result(NamedTuple):
    """Where a loop ended."""

    state: Any
    n_iter: int
    converged: bool
    last_change: float  # relative decrease of the objective in the last pass


def iterate(
    step: Callable[[Any], Any],
    state: Any,
    value: Callable[[Any], float],
    *,
    max_iter: int,
    tol: float,
    watch: Callable[[int, Any], bool] | None = None,
) -> Result:
    """Repeat `step` until a pass lowers `value` by less than `tol` of itself, or `watch` says stop."""
    before, change = np.inf, np.inf
    for t in range(1, max_iter + 1):
        state = step(state)
        now = value(state)
        if not np.isfinite(now):
            raise FloatingPointError(
                f"The objective became {now} in pass {t}. Scale the images to [0, 1] or raise the ridges."
            )
        change = (before - now) / max(abs(before), TINY) if np.isfinite(before) else np.inf
        before = now
        stop = watch is not None and watch(t, state)
        if stop or change < tol:
            return Result(state, t, True, change)
    return Result(state, max_iter, tol <= 0, change)
