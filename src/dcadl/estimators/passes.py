"""scikit-learn's callbacks around the passes of a fit."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from sklearn.exceptions import ConvergenceWarning

from dcadl.solvers.loop import Result


class FitReport:
    """Tells scikit-learn's callbacks of a fit and of each pass in it; they may ask to stop."""

    def __init__(self, estimator: Any, passes: int, X: Any, y: Any, sample_weight: Any) -> None:
        self._estimator = estimator
        self._context = estimator._init_callback_context(max_subtasks=passes)
        self._data = {"X": X, "y": y, "metadata": {"sample_weight": sample_weight}}
        self._context.call_on_fit_task_begin(estimator=estimator, **self._data)

    def after_pass(self, attributes: Callable[[], dict[str, Any]]) -> bool:
        """Tell of one finished pass; `attributes` gives the fitted attributes as they stand."""
        task = self._context.subcontext(task_name="pass")
        task.call_on_fit_task_begin(estimator=self._estimator, **self._data)
        return task.call_on_fit_task_end(
            estimator=self._estimator, reconstruction_attributes=attributes, **self._data
        )

    def end(self) -> None:
        """Tell of the finished fit."""
        self._context.call_on_fit_task_end(
            estimator=self._estimator, reconstruction_attributes=dict, **self._data
        )


def _moved(change: float) -> str:
    return f"{'lowered' if change >= 0 else 'raised'} the objective by {abs(change):.1e}"


def warn_if_not_converged(name: str, result: Result, tol: float) -> None:
    """scikit-learn's warning where the loop ran out of passes before its tolerance was met."""
    if not result.converged:
        warnings.warn(
            f"{name} ran all its {result.n_iter} passes; the last {_moved(result.last_change)} "
            f"of itself (tol={tol:g}). Raise max_iter or tol; tol=0 asks for "
            "exactly max_iter passes.",
            ConvergenceWarning,
            stacklevel=3,
        )
