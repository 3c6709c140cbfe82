"""The objective after each block of each pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dcadl.plot.canvas import BLOCKS, QUIET, axes_on, set_title, tidy

if TYPE_CHECKING:
    from dcadl.estimators.base import Classifier

DCADL_BLOCKS = ("codes", "classifier", "atoms")
LOG_FROM = 30.0  # above this ratio of largest to smallest value a linear axis would hide the end


class ConvergenceDisplay:
    """The objective against passes: one line, with a dot of its own colour after each block.

    Parameters
    ----------
    objective : ndarray (passes * blocks,)
        The value after each block of each pass, in order.
    blocks : sequence of str
        The blocks of one pass.
    estimator_name : str or None
        Goes into the title.

    Attributes
    ----------
    ax_, figure_ : matplotlib's axes and figure, after `plot`
    """

    def __init__(
        self,
        objective: np.ndarray,
        *,
        blocks: Sequence[str] = DCADL_BLOCKS,
        estimator_name: str | None = None,
    ) -> None:
        self.objective = np.asarray(objective, dtype=float)
        self.blocks = tuple(blocks)
        self.estimator_name = estimator_name

    @classmethod
    def from_estimator(cls, estimator: Classifier, *, ax: Any = None) -> ConvergenceDisplay:
        """Draw how the objective of a fitted estimator fell."""
        check_is_fitted(estimator)
        name = type(estimator).__name__
        values = np.asarray(getattr(estimator, "objective_", ()), dtype=float)
        if not values.size:
            raise ValueError(f"{name} keeps no objective: it is not fitted pass by pass.")
        per_pass = max(1, len(values) // estimator.n_iter_)
        plain = ("pass",) if per_pass == 1 else tuple(f"block {i + 1}" for i in range(per_pass))
        blocks = DCADL_BLOCKS if per_pass == len(DCADL_BLOCKS) else plain
        return cls(values, blocks=blocks, estimator_name=name).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> ConvergenceDisplay:
        """Draw on `ax`, or on a figure of its own."""
        self.ax_ = axes_on(ax, 6.0, 3.8)
        self.figure_ = self.ax_.figure
        values, k = self.objective, len(self.blocks)
        passes = (1 + np.arange(len(values))) / k
        self.ax_.plot(passes, values, color=QUIET, linewidth=1.0, zorder=1)
        for i, block in enumerate(self.blocks):
            colour = BLOCKS[i % len(BLOCKS)]
            self.ax_.scatter(
                passes[i::k], values[i::k], s=14, color=colour, zorder=2, label=f"after the {block}"
            )
        self._dress(values)
        return self

    def _dress(self, values: np.ndarray) -> None:
        name = f" of {self.estimator_name}" if self.estimator_name else ""
        falls = bool((np.diff(values) <= 1e-9 * np.abs(values[:-1])).all())
        set_title(self.ax_, f"Objective{name}: {'never rises' if falls else 'rises at times'}")
        self.ax_.set_xlabel("pass over the training images")
        self.ax_.set_ylabel("objective")
        if values.min() > 0 and values.max() > LOG_FROM * values.min():
            self.ax_.set_yscale("log")
        self.ax_.legend(frameon=False)
        tidy(self.ax_)
