"""scikit-learn's callbacks around the passes of a fit, and its warning where passes ran out."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from dcadl.solvers.loop import Result


class _WithCallbacks(Protocol):
    """An estimator on scikit-learn's `CallbackSupportMixin`."""

    def _init_callback_context(
        self, task_name: str = ..., task_id: int = ..., max_subtasks: int | None = ...
    ) -> Any: ...


class _Predicts(Protocol):
    """A fitted classifier."""

    def predict(self, X: Any) -> np.ndarray: ...


class FitReport:
    """Tells scikit-learn's callbacks of a fit and of each pass in it; they may ask to stop."""

    def __init__(
        self, estimator: _WithCallbacks, passes: int, X: Any, y: Any, sample_weight: Any = None
    ) -> None:
        self._estimator = estimator
        self._context = estimator._init_callback_context(max_subtasks=passes)
        self._data = {"X": X, "y": y, "metadata": {"sample_weight": sample_weight}}
        self._context.call_on_fit_task_begin(estimator=estimator, **self._data)

    def after_pass(self, keep: Callable[[Any], None]) -> bool:
        """Tell of one finished pass; `keep(model)` assigns the fitted attributes as they stand.

        A callback that asks for them gets a copy of the estimator; nobody else pays for them.
        """
        task = self._context.subcontext(task_name="pass")
        task.call_on_fit_task_begin(estimator=self._estimator, **self._data)
        return task.call_on_fit_task_end(
            estimator=self._estimator, reconstruction_attributes=lambda: self._kept_by(keep), **self._data
        )

    def passes_done_before(self, count: int) -> None:
        """Tell of passes that an interrupted fit had made: progress is counted from there."""
        for _ in range(count):
            self.after_pass(lambda model: None)

    def end(self) -> None:
        """Tell of the finished fit."""
        self._context.call_on_fit_task_end(
            estimator=self._estimator, reconstruction_attributes=dict, **self._data
        )

    def _kept_by(self, keep: Callable[[Any], None]) -> dict[str, Any]:
        fitted = copy.copy(self._estimator)
        keep(fitted)
        return vars(fitted)


MUCH = 0.01  # share of the objective; what lowers it by less hardly moves the predictions


def _moved(change: float) -> str:
    return f"{'lowered' if change >= 0 else 'raised'} the objective by {abs(change):.1e}"


def _advice(change: float) -> str:
    """More passes only where the last one still changed much."""
    more = "Raise max_iter" if abs(change) > MUCH else "More passes would change little: raise tol"
    return f"{more}; tol=0 asks for exactly max_iter passes."


def warn_if_not_converged(name: str, result: Result, tol: float, stacklevel: int = 5) -> None:
    """scikit-learn's warning where the loop ran out of passes before its tolerance was met.

    It names the line that called `fit`: two frames of decorators lie between that and `fit` itself.
    """
    if not result.converged:
        warnings.warn(
            f"{name} ran all its {result.n_iter} passes; the last {_moved(result.last_change)} "
            f"of itself (tol={tol:g}). {_advice(result.last_change)}",
            ConvergenceWarning,
            stacklevel=stacklevel,
        )


def warn_of_better_passes(passes: int) -> None:
    """The same where passes ran out while the classifier was still getting better."""
    warnings.warn(
        f"DCADL ran all its {passes} passes, and the leave-one-out error still fell in the last ones. "
        "Raise max_iter or tol; tol=0 asks for exactly max_iter passes.",
        ConvergenceWarning,
        stacklevel=5,
    )


LOOKED_AT = 200  # training images; of fewer than the second number nothing is said
FEWEST = 20


def warn_if_blind(model: _Predicts, X: Any, y: Any = None, *_: Any) -> None:
    """Warn where the fit learned nothing: training images of all classes look alike to the model.

    Parameters far out of range do that without an error: a threshold or ridge may leave no code but zero.
    Judged by the mean share of each class that is named rightly: a model that names one class alone has 1/C.
    """
    if type(X) is not np.ndarray or y is None or len(X) < FEWEST:
        return  # what is read from disk or computed elsewhere is not read again
    some = np.unique(np.linspace(0, len(X) - 1, LOOKED_AT).astype(int))
    truth = np.ravel(y)[some]
    right = model.predict(X[some]) == truth
    shares = [right[truth == label].mean() for label in np.unique(truth)]
    chance = 1 / len(shares)
    if len(shares) > 1 and np.mean(shares) < chance + 2 * np.sqrt(chance * (1 - chance) / len(some)):
        warnings.warn(
            f"{type(model).__name__} learned nothing: of its own training images it names "
            f"{right.mean():.0%} rightly, as chance would. Parameters far from the default ones do that.",
            UserWarning,
            stacklevel=3,
        )
