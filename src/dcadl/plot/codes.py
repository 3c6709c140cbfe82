"""From an image to its label: responses, codes, and what each place said for the class chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dcadl.estimators.validation import predict_rows
from dcadl.ops.codes import respond
from dcadl.ops.patches import Grid, normalised_patches, patch_table
from dcadl.plot.canvas import GREY, INK, QUIET, bare, largest, mosaic, new_figure, set_title, show_signed

if TYPE_CHECKING:
    from dcadl.estimators.base import Classifier

SCORES_SHOWN = 5  # classes in the bar chart beside an image
PANELS = ("image", "responses", "codes", "evidence", "scores")


class CodeExplanation(NamedTuple):
    """What the model makes of some images."""

    images: np.ndarray  # (n, H, W) or (n, H, W, 3)
    responses: np.ndarray  # (n, rows, columns, m)  one map per atom
    codes: np.ndarray  # (n, rows, columns, m)  the responses shrunk
    evidence: np.ndarray  # (n, H, W)  each pixel's part of the predicted class's score
    scores: np.ndarray  # (n, C)
    classes: np.ndarray  # (C,)


class CodesDisplay:
    """Some images in rows: the image, its responses and codes atom by atom, the evidence, the scores.

    The evidence is the score of the predicted class, less its intercept, spread over the pixels: every
    patch's part lies evenly on the pixels of that patch, so that the map sums to the score.

    Parameters
    ----------
    explanation : CodeExplanation
    y : array-like (n,) or None
        The true labels, to mark what was wrong.

    Attributes
    ----------
    ax_ : ndarray (n, 5) of axes, after `plot`
    figure_ : matplotlib's figure
    """

    def __init__(self, explanation: CodeExplanation, *, y: Any = None) -> None:
        self.explanation = explanation
        self.y = None if y is None else np.asarray(y)

    @classmethod
    def from_estimator(
        cls, estimator: Classifier, X: Any, y: Any = None, *, figure: Any = None
    ) -> CodesDisplay:
        """Draw what a fitted estimator with atoms makes of the images X."""
        return cls(explain_codes(estimator, X), y=y).plot(figure=figure)

    def plot(self, *, figure: Any = None) -> CodesDisplay:
        """Draw on a figure or subfigure, or on a figure of its own."""
        n = len(self.explanation.images)
        self.figure_ = new_figure(10.5, 0.5 + 2.0 * n) if figure is None else figure
        ratios = {"width_ratios": (1, 1.5, 1.5, 1, 1.1)}
        self.ax_ = self.figure_.subplots(n, len(PANELS), squeeze=False, gridspec_kw=ratios)
        tops = {name: largest(getattr(self.explanation, name)) for name in ("responses", "evidence")}
        for i, row in enumerate(self.ax_):
            self._draw_row(i, dict(zip(PANELS, row)), tops)
        zero = float((self.explanation.codes == 0).mean())
        m = self.explanation.codes.shape[3]
        titles = (
            "image",
            f"responses to {m} atoms",
            f"codes ({zero:.1%} zero)",
            "evidence (red: for)",
            "highest scores",
        )
        for ax, title in zip(self.ax_[0], titles):
            set_title(ax, title)
        return self

    def _draw_row(self, i: int, panel: dict[str, Any], tops: dict[str, float]) -> None:
        explanation = self.explanation
        panel["image"].imshow(explanation.images[i], cmap=GREY, interpolation="nearest")
        bare(panel["image"])
        for name in ("responses", "codes"):
            maps = mosaic(np.moveaxis(getattr(explanation, name)[i], -1, 0))
            show_signed(panel[name], maps, tops["responses"])
        show_signed(panel["evidence"], explanation.evidence[i], tops["evidence"])
        chosen = explanation.classes[explanation.scores[i].argmax()]
        panel["evidence"].set_xlabel(f"for “{chosen}”", color=INK)
        if self.y is not None:
            right = str(self.y[i]) == str(chosen)
            panel["image"].set_xlabel(f"{self.y[i]}, {'recognised' if right else 'mistaken'}", color=INK)
        _draw_scores(panel["scores"], explanation.scores[i], explanation.classes)


def explain_codes(estimator: Classifier, X: Any) -> CodeExplanation:
    """Responses, codes, evidence and scores of images under a fitted estimator with atoms."""
    check_is_fitted(estimator)
    if not hasattr(estimator, "atoms_") or not hasattr(estimator, "grid_"):
        raise ValueError(f"{type(estimator).__name__} has no atoms; give DCADL or RandomAtoms.")
    grid: Grid = estimator.grid_
    rows = predict_rows(estimator, X, estimator.image_shape_)
    Omega = estimator.atoms_.reshape(len(estimator.atoms_), -1)
    maps = (len(rows), *grid.counts, len(Omega))
    codes = estimator.transform(X)  # (n, p·m)
    scores = codes @ estimator.coef_.T + estimator.intercept_
    height, width, channels = grid.image
    shape = (height, width) if channels == 1 else grid.image
    return CodeExplanation(
        images=rows.reshape(-1, *shape),
        responses=respond(normalised_patches(rows, grid, estimator.normalize_), Omega).reshape(maps),
        codes=codes.reshape(maps),
        evidence=_evidence(codes, estimator.coef_[scores.argmax(axis=1)], grid),
        scores=scores,
        classes=estimator.classes_,
    )


def _evidence(codes: np.ndarray, W: np.ndarray, grid: Grid) -> np.ndarray:
    """(n, H, W): each patch's part of the score w·u, laid evenly on its pixels; one row w per image."""
    by_patch = (codes * W).reshape(len(codes), grid.p, -1).sum(axis=2)  # (n, p)
    spread = np.zeros((grid.p, np.prod(grid.image)))
    np.put_along_axis(spread, patch_table(grid), 1.0 / grid.d, axis=1)
    return (by_patch @ spread).reshape(-1, *grid.image).sum(axis=3)


def _draw_scores(ax: Any, scores: np.ndarray, classes: np.ndarray) -> None:
    """Bars of the highest scores, the winner in ink."""
    order = np.argsort(-scores, kind="stable")[:SCORES_SHOWN]
    places = np.arange(len(order))
    ax.barh(places, scores[order], color=[INK] + [QUIET] * (len(order) - 1), height=0.7)
    ax.set_yticks(places, [str(c) for c in classes[order]])
    ax.invert_yaxis()
    ax.axvline(0, color=QUIET, linewidth=0.8)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(axis="y", length=0)
    ax.set_xticks([])
    ax.spines["bottom"].set_visible(False)
