"""A fit's passes on a progress bar, through scikit-learn's callbacks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.progress import Progress, TaskID

if TYPE_CHECKING:
    from dcadl.estimators.base import Classifier
    from dcadl.model_files import AnyModel


class PassBar:
    """scikit-learn callback: one step of a Rich bar for each pass of a fit."""

    def __init__(self, bar: Progress, task: TaskID) -> None:
        self._bar = bar
        self._task = task

    def setup(self, estimator: Classifier, context: Any) -> None:
        """Learn how many passes there can be."""
        self._bar.update(self._task, total=context.max_subtasks, completed=0)

    def on_fit_task_begin(self, estimator: Classifier, context: Any) -> None:
        """Nothing to show yet."""

    def on_fit_task_end(self, estimator: Classifier, context: Any) -> bool:
        """One pass more, if this was one; never asks to stop."""
        if context.parent is not None:
            self._bar.advance(self._task)
        return False

    def teardown(self, estimator: Classifier, context: Any) -> None:
        """A fit that converged early is done all the same."""
        done = self._bar.tasks[self._task].completed
        self._bar.update(self._task, total=max(done, 1), completed=max(done, 1))


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
