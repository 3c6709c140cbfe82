"""The learned atoms as one picture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dcadl.plot.canvas import axes_on, largest, mosaic, near_square, set_title, show_signed

if TYPE_CHECKING:
    from dcadl.estimators.base import Classifier


class AtomsDisplay:
    """Atoms side by side, in the order of `atoms_`; one colour scale for all, white at zero.

    Atoms of several channels are drawn in colour about a middle grey; atoms of signals as one row each.

    Parameters
    ----------
    atoms : ndarray (n_atoms, height, width[, channels]) or (n_atoms, length)
    estimator_name : str or None
        Goes into the title.

    Attributes
    ----------
    ax_, figure_ : matplotlib's axes and figure, after `plot`
    """

    def __init__(self, atoms: np.ndarray, *, estimator_name: str | None = None) -> None:
        self.atoms = np.asarray(atoms)
        self.estimator_name = estimator_name

    @classmethod
    def from_estimator(cls, estimator: Classifier, *, ax: Any = None) -> AtomsDisplay:
        """Draw the atoms of a fitted estimator, or the filters of a network."""
        check_is_fitted(estimator)
        atoms = drawn_atoms(estimator)
        if atoms is None:
            raise ValueError(f"{type(estimator).__name__} has no atoms to draw.")
        return cls(atoms, estimator_name=type(estimator).__name__).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> AtomsDisplay:
        """Draw on `ax`, or on a figure of its own."""
        rows, columns = near_square(len(self.atoms))
        self.ax_ = axes_on(ax, 5.2, 0.9 + 4.4 * rows / columns)
        self.figure_ = self.ax_.figure
        if self.atoms.ndim == 2:
            shown = show_signed(self.ax_, self.atoms, aspect="auto")
            self.ax_.set_ylabel("atom")
        elif self.atoms.ndim == 4 and self.atoms.shape[3] == 3:
            return self._plot_colour()
        else:
            # atoms over other than three channels: their sum over channels is what a grey patch meets
            shown = show_signed(self.ax_, mosaic(self._grey()))
        bar = self.figure_.colorbar(shown, ax=self.ax_, fraction=0.04, pad=0.03, shrink=0.75)
        bar.outline.set_visible(False)
        bar.set_label("value")
        self._title()
        return self

    def _grey(self) -> np.ndarray:
        return self.atoms.sum(axis=3) if self.atoms.ndim == 4 else self.atoms

    def _plot_colour(self) -> AtomsDisplay:
        tiles = 0.5 + 0.5 * self.atoms / largest(self.atoms)
        self.ax_.imshow(np.nan_to_num(mosaic(tiles), nan=1.0), interpolation="nearest")
        self.ax_.set_axis_off()
        self._title()
        return self

    def _title(self) -> None:
        m, *shape = self.atoms.shape
        size = "×".join(map(str, shape[:2]))
        name = f" of {self.estimator_name}" if self.estimator_name else ""
        set_title(self.ax_, f"The {m} atoms{name}, {size} {'pixels' if len(shape) > 1 else 'values'} each")


def drawn_atoms(estimator: Classifier) -> np.ndarray | None:
    """Atoms, or the first filters of a network as pictures; None where there are none."""
    if hasattr(estimator, "atoms_"):
        return np.asarray(estimator.atoms_)
    filters = getattr(estimator, "filters_", None)
    if filters is None or np.ndim(filters) > 2:
        return filters
    height, width = estimator.grid_.patch
    return np.reshape(filters, (len(filters), height, width, -1))
