"""Why a picture was named as it was: where the evidence lies, and which atoms gave it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dcadl.plot.canvas import GREY, INK, bare, largest, new_figure, set_title, short_name, show_signed

if TYPE_CHECKING:
    from dcadl.estimators.base import Classifier

ATOMS_SHOWN = 6
LEGEND = (
    "maps: red speaks for the class, blue against it; each adds up to the score above it with the intercept"
)
FADED = 0.35  # of the picture under its evidence


class EvidenceDisplay:
    """Pictures in rows: the picture, the evidence for its two leading classes, what parts them, the atoms.

    Red is for, blue against. A map and the intercept add up to the score above it; the last map, one less
    the other, to the margin. The atoms are those that did most to part the two classes.

    Parameters
    ----------
    explanation : what `model.explain(X)` gives
    y : array-like (n,) or None
        The true labels, to mark what was wrong.

    Attributes
    ----------
    ax_ : ndarray (n, 5) of axes, after `plot`
    figure_ : matplotlib's figure
    """

    def __init__(self, explanation: Any, *, y: Any = None) -> None:
        self.explanation = explanation
        self.y = None if y is None else np.asarray(y)

    @classmethod
    def from_estimator(
        cls, estimator: Classifier, X: Any, y: Any = None, *, figure: Any = None
    ) -> EvidenceDisplay:
        """Draw why a fitted estimator names the pictures X as it does."""
        return cls(estimator.explain(X), y=y).plot(figure=figure)

    def plot(self, *, figure: Any = None) -> EvidenceDisplay:
        """Draw on a figure or subfigure, or on a figure of its own."""
        n = len(self.explanation.images)
        self.figure_ = new_figure(11.5, 0.6 + 2.5 * n) if figure is None else figure
        self.ax_ = self.figure_.subplots(n, 5, squeeze=False, gridspec_kw={"width_ratios": (1, 1, 1, 1, 1.3)})
        for i, row in enumerate(self.ax_):
            self._draw_row(i, row)
        self.figure_.supxlabel(LEGEND, fontsize=8, color=INK)
        return self

    def _draw_row(self, i: int, axes: Any) -> None:
        found = self.explanation
        first, second = np.argsort(-found.scores[i], kind="stable")[:2]
        names, scores = [short_name(str(name)) for name in found.classes], found.scores[i]
        picture = found.images[i]
        axes[0].imshow(shown(picture), cmap=GREY, interpolation="nearest")
        bare(axes[0])
        set_title(axes[0], self._title(i, str(found.classes[first])))
        parting = found.evidence[i, ..., first] - found.evidence[i, ..., second]
        maps = (found.evidence[i, ..., first], found.evidence[i, ..., second], parting)
        titles = (
            f"for {names[first]}: {scores[first]:.2f}",
            f"for {names[second]}: {scores[second]:.2f}",
            _broken(f"{names[first]} less", f"{names[second]}: {scores[first] - scores[second]:+.2f}"),
        )
        tops = (largest(np.stack(maps[:2])),) * 2 + (largest(parting),)
        for ax, one, title, top in zip(axes[1:4], maps, titles, tops):
            ax.imshow(_grey(picture), cmap=GREY, alpha=FADED, interpolation="nearest")
            show_signed(ax, one, top, alpha=0.75)
            set_title(ax, title)
        self._draw_atoms(
            axes[4], found.by_atom[i, :, first] - found.by_atom[i, :, second], names, first, second
        )

    def _title(self, i: int, name: str) -> str:
        if self.y is None:
            return short_name(name)
        right, true = str(self.y[i]) == name, short_name(str(self.y[i]))
        return f"{true}, recognised" if right else _broken(f"{true},", f"taken for {short_name(name)}")

    def _draw_atoms(self, ax: Any, parts: np.ndarray, names: Any, first: int, second: int) -> None:
        """Bars of the atoms that spoke loudest, each with its picture at its foot."""
        ax.spines[["top", "right", "left"]].set_visible(False)
        ax.set_yticks([])
        if not len(parts):
            bare(ax)
            set_title(ax, "this method has no atoms")
            return
        order = np.argsort(-np.abs(parts), kind="stable")[:ATOMS_SHOWN]
        places = np.arange(len(order))
        ax.barh(
            places, parts[order], color=["#b2182b" if v > 0 else "#2166ac" for v in parts[order]], height=0.7
        )
        ax.invert_yaxis()
        ax.locator_params(axis="x", nbins=5)
        ax.axvline(0, color=INK, linewidth=0.8)
        atoms = _small_pictures(self.explanation.atoms)
        for place, j in zip(places, order):
            inset = ax.inset_axes((-0.17, 1 - (place + 0.92) / len(order), 0.15, 0.84 / len(order)))
            show_signed(inset, atoms[j], largest(atoms[j]))
        set_title(ax, _broken(f"atoms: red for {names[first]},", f"blue for {names[second]}", 32))


def shown(picture: np.ndarray) -> np.ndarray:
    """A picture as matplotlib takes it: three channels in [0, 1], or one."""
    if picture.ndim == 2 or picture.shape[2] == 1:
        return picture.reshape(picture.shape[:2])
    if picture.shape[2] != 3:
        return picture.mean(axis=2)
    low, high = float(picture.min()), float(picture.max())
    inside = low >= 0 and high <= 1
    return picture if inside else (picture - low) / ((high - low) or 1.0)


def _broken(one: str, other: str, room: int = 26) -> str:
    """Two parts of a title, on two lines where one of `room` letters is too short."""
    return f"{one} {other}" if len(one) + len(other) < room else f"{one}\n{other}"


def _grey(picture: np.ndarray) -> np.ndarray:
    return picture if picture.ndim == 2 else picture.mean(axis=2)


def _small_pictures(atoms: np.ndarray) -> np.ndarray:
    """Atoms as (m, h, w): summed over channels; those of signals are one row high."""
    if atoms.ndim == 2:
        return atoms[:, None, :]
    return atoms if atoms.ndim == 3 else atoms.sum(axis=3)
