"""A fit's passes on a progress bar, through scikit-learn's callbacks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.progress import Progress, TaskID

if TYPE_CHECKING:
    from dcadl.estimators.base import Classifier
    from dcadl.model_files import AnyModel


class PassBar:
    """scikit-learn callback: one step of a Rich bar for each pass of a fit, and words for what comes first.

    A method that chooses a structure tells of its passes when that is done, and of the first one when each
    half of the images has judged the other's filters.
    """

    def __init__(self, bar: Progress, task: TaskID) -> None:
        self._bar = bar
        self._task = task
        self._passes: int | None = None

    def setup(self, estimator: Classifier, context: Any) -> None:
        """Learn how many passes there can be."""
        self._passes = context.max_subtasks
        if _chooses(estimator):
            self._say(estimator, "judging filters")
        else:
            self._bar.update(self._task, total=self._passes, completed=0)

    def on_fit_task_begin(self, estimator: Classifier, context: Any) -> None:
        """Nothing to show yet."""

    def on_fit_task_end(self, estimator: Classifier, context: Any) -> bool:
        """One pass more, if this was one; never asks to stop."""
        if context.parent is not None:
            self._say(estimator, "passes")
            self._bar.update(self._task, total=self._passes)
            self._bar.advance(self._task)
        return False

    def teardown(self, estimator: Classifier, context: Any) -> None:
        """A fit that converged early is done all the same."""
        done = self._bar.tasks[self._task].completed
        self._bar.update(self._task, total=max(done, 1), completed=max(done, 1))

    def _say(self, estimator: Classifier, what: str) -> None:
        self._bar.update(self._task, description=f"{type(estimator).__name__}, {what}")


def first_words(model: AnyModel) -> str:
    """What a fit does before it tells of its passes."""
    return f"{type(model).__name__}, {'comparing structures' if _chooses(model) else 'passes'}"


def _chooses(model: AnyModel | Classifier) -> bool:
    return hasattr(type(model), "candidates_")


def fit_with_bar(model: AnyModel, X: Any, y: Any, bar: Progress, task: TaskID) -> None:
    """Fit, with a step per pass where the estimator tells of its passes, else in one step."""
    if not hasattr(model, "set_callbacks"):
        bar.update(task, total=1, completed=0)
        model.fit(X, y)
        bar.advance(task)
        return
    model.set_callbacks(PassBar(bar, task))
    try:
        model.fit(X, y)
    finally:
        model.set_callbacks()  # a bar cannot be copied or saved with the model
