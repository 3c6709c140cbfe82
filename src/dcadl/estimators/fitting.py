"""What every fit shares: all or nothing, passes that stop and resume, callbacks, and what a model keeps."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, NamedTuple, ParamSpec, Protocol, TypeVar, cast

import numpy as np
from sklearn.callback import with_callbacks
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from dcadl.arrays import Array, fetch, one_blas_thread
from dcadl.ops.patches import unit_rows

if TYPE_CHECKING:
    from dcadl.estimators.base import Classifier

TINY = np.finfo(np.float64).tiny  # an objective of zero is as low as it gets
LOOKED_AT = 200  # training images; of fewer than the second number nothing is said
FEWEST = 20
MUCH = 0.01  # share of the objective; what lowers it by less hardly moves the predictions
OF_ONE_FIT = ("training_", "temperature_", "refit_lam_", "best_iter_")  # the next one begins without them

P = ParamSpec("P")
Model = TypeVar("Model", bound="Classifier")


def fitting(fit: Callable[Concatenate[Model, P], Model]) -> Callable[Concatenate[Model, P], Model]:
    """Decorates `fit` and `partial_fit`: all or nothing, on one BLAS thread, with scikit-learn's callbacks.

    A fit that fails or is interrupted leaves the model as it was. Some attributes are set before the
    end whatever we do: scikit-learn's `validate_data` notes the number and names of features first.
    """
    with_teardown = with_callbacks(fit)

    @wraps(fit)
    def all_or_nothing(self: Model, *args: P.args, **kwargs: P.kwargs) -> Model:
        before = dict(vars(self))
        for name in OF_ONE_FIT:
            self.__dict__.pop(name, None)
        try:
            with one_blas_thread():
                fitted = _with_finite_arrays(with_teardown(self, *args, **kwargs))
                warn_if_blind(fitted, *args, *kwargs.values())
                return fitted
        except BaseException as error:
            self.__dict__ = before  # at once: a second interruption finds no half of it
            if isinstance(error, np.linalg.LinAlgError):
                raise ValueError(
                    f"{type(self).__name__} met a matrix that it could not factor ({error}). "
                    "Raise the ridges, or scale the images to [0, 1]."
                ) from None
            raise

    return cast("Callable[Concatenate[Model, P], Model]", all_or_nothing)


def _with_finite_arrays(model: Model) -> Model:
    """The model, unless its fit overflowed."""
    for name, value in vars(model).items():
        if isinstance(value, np.ndarray) and value.dtype.kind == "f" and not np.isfinite(value).all():
            raise ValueError(
                f"{type(model).__name__} overflowed: {name} holds NaN or infinity. "
                "Scale the images to [0, 1], or raise the ridges."
            )
    return model


def fitted_array(x: Array, dtype: Any = None) -> np.ndarray:
    """`x` as a fitted attribute: a NumPy array in C order.

    Model files keep C order. An array kept in another one would be multiplied by other kernels after
    it was loaded, and the last bits of its products would differ.
    """
    return np.ascontiguousarray(fetch(x), dtype=dtype)


def gaussian_atoms(m: int, d: int, random_state: Any) -> np.ndarray:
    """Atoms of unit length in random directions."""
    return unit_rows(check_random_state(random_state).standard_normal((m, d)))


# --- passes -------------------------------------------------------------------------------------------


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
    judge: Callable[[Any], Any] | None = None,
    watch: Callable[[int, Any], bool] | None = None,
) -> Result:
    """Repeat `step` until a pass changes the objective by less than `tol` of itself, or `watch` says stop.

    The objective is the last entry of the state's `trace`. `begin` is a state, or the `Progress` of a loop
    that was interrupted: its passes are counted and its last change is judged as if there had been no
    interruption. `tol=0` makes exactly `max_iter` passes, however the objective moves: a change that is
    rounding must not end them. `judge` gives the state with what it found of it.
    """
    state, n_iter, before, change = begin if isinstance(begin, Progress) else Progress(begin)
    while n_iter < max_iter and not _settled(change, tol):
        state, n_iter = step(state), n_iter + 1
        state = state if judge is None else judge(state)
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


# --- scikit-learn's callbacks around them, and its warning where they ran out ------------------------


class _WithCallbacks(Protocol):
    """An estimator on scikit-learn's `CallbackSupportMixin`."""

    def _init_callback_context(
        self, task_name: str = ..., task_id: int = ..., max_subtasks: int | None = ...
    ) -> Any: ...


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


def warn_if_blind(model: Classifier, X: Any, y: Any = None, *_: Any) -> None:
    """Warn where the fit learned nothing: training images of all classes look alike to the model.

    Parameters far out of range do that without an error: a threshold or ridge may leave no code but zero.
    """
    if model._ridge_on_codes:
        said = "every code of its training images is zero" if not model.coef_.any() else ""
    else:
        said = _named_by_chance(model, X, y)
    if said:
        warnings.warn(
            f"{type(model).__name__} learned nothing: {said}. Blank images do that, and parameters far from "
            "the default ones.",
            UserWarning,
            stacklevel=3,
        )


def _named_by_chance(model: Classifier, X: Any, y: Any) -> str:
    """What the model makes of its own training images, where that is no better than chance.

    Judged by the mean share of each class that is named rightly: a model that names one class alone has 1/C.
    """
    if type(X) is not np.ndarray or y is None or len(X) < FEWEST:
        return ""  # what is read from disk or computed elsewhere is not read again
    if hasattr(model, "confusion_") and _beats_chance(_shares_of(model.confusion_), model.n_judged_):
        return ""  # images that were left out have shown more already
    some = np.unique(np.linspace(0, len(X) - 1, LOOKED_AT).astype(int))
    truth = np.ravel(y)[some]
    right = model.predict(X[some]) == truth
    shares = [right[truth == label].mean() for label in np.unique(truth)]
    if len(shares) < 2 or _beats_chance(shares, len(some)):
        return ""
    return f"of its own training images it names {right.mean():.0%} rightly, as chance would"


def _shares_of(confusion: np.ndarray) -> np.ndarray:
    """The share of each class that is named rightly, of those that have images."""
    weights = confusion.sum(axis=1)
    return np.diag(confusion)[weights > 0] / weights[weights > 0]


def _beats_chance(shares: Sequence[float] | np.ndarray, n: int) -> bool:
    """Whether classes are named rightly more often than n images named at random would be."""
    chance = 1 / len(shares)
    return bool(np.mean(shares) >= chance + 2 * np.sqrt(chance * (1 - chance) / n))
