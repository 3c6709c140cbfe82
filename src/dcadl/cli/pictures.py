"""The pictures that commands write: a confusion matrix, and those of the demo."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dcadl.atomic import replacing
from dcadl.cli.terminal import times_text
from dcadl.ops.interval import interval
from dcadl.plot import AtomsDisplay, EvidenceDisplay
from dcadl.plot.atoms import drawn_atoms
from dcadl.plot.canvas import (
    BLOCKS,
    INK,
    QUIET,
    missing_letters_named,
    mosaic,
    new_figure,
    set_title,
    short_name,
    show_signed,
    tidy,
    with_fallback_fonts,
)

if TYPE_CHECKING:
    from dcadl.cli.evaluate import Evaluation
    from dcadl.model_files import AnyModel

DPI = 120
NUMBERS_UP_TO = 20  # classes; beyond this, numbers in the cells and all names would overlap
NAMES_SHOWN = 20
MARKED = (0.9, 0.99)  # of --reject, on the curve


def write_figure(figure: Any, path: Path) -> Path:
    """The figure at `path`, in the format of its ending."""
    if not path.resolve().parent.is_dir():
        raise ValueError(f"folder not found: {path.resolve().parent}")
    with replacing(path) as stream, missing_letters_named():
        with_fallback_fonts(figure).savefig(stream, dpi=DPI, format=path.suffix[1:] or None)
    return path


def evaluation_picture(evaluation: Evaluation) -> Any:
    """Confusions; with probabilities also the reliability diagram and the accuracy–coverage curve."""
    title = f"{evaluation.accuracy:.2%} right"
    if evaluation.confidence is None:
        return confusion_picture(evaluation.confusion, evaluation.classes, title)
    side = 4.6 if len(evaluation.classes) <= 10 else 7.0
    figure = new_figure(side + 8.6, side)
    left, middle, end = figure.subplots(1, 3, width_ratios=(side, 4, 4))
    draw_confusion(left, evaluation.confusion, evaluation.classes, title)
    draw_reliability(middle, evaluation.confidence, evaluation.right)
    draw_coverage(end, evaluation.confidence, evaluation.right)
    return figure


def confusion_picture(confusion: Any, classes: Any, title: str) -> Any:
    """A figure of the confusion matrix."""
    side = 4.6 if len(classes) <= 10 else 7.0
    figure = new_figure(side + 0.6, side)
    draw_confusion(figure.add_subplot(), confusion, classes, title)
    return figure


def draw_confusion(ax: Any, confusion: Any, classes: Any, title: str) -> None:
    """The confusion matrix on `ax`; cells without a case stay empty."""
    from sklearn.metrics import ConfusionMatrixDisplay

    few, classes = len(classes) <= NUMBERS_UP_TO, [short_name(str(name)) for name in classes]
    display = ConfusionMatrixDisplay(np.asarray(confusion), display_labels=classes)
    display.plot(ax=ax, cmap="Blues", colorbar=not few, include_values=few, text_kw={"fontsize": 8})
    for number in display.text_.ravel() if few else ():
        number.set_visible(number.get_text() != "0")
    if not few:
        shown = np.arange(0, len(classes), -(-len(classes) // NAMES_SHOWN))
        ax.set_xticks(shown, np.asarray(classes)[shown], fontsize=8)
        ax.set_yticks(shown, np.asarray(classes)[shown], fontsize=8)
    if max(len(str(c)) for c in classes) > 3:
        ax.tick_params(axis="x", rotation=90)
    ax.set(xlabel="predicted", ylabel="true")
    set_title(ax, title)


def overview(
    model: AnyModel, unlearned: AnyModel, examples: tuple[Any, Any], confusion: Any, title: str
) -> Any:
    """LOO-ADL on one page: filters before and after, structures compared, mistakes, evidence of examples."""
    heights = (4.6, 2.3 * len(examples[1]))
    figure = new_figure(13, sum(heights))
    top, bottom = figure.subfigures(2, 1, height_ratios=heights, hspace=0.04)
    filters, structures, mistakes = top.subfigures(1, 3, width_ratios=(1, 1.15, 1))
    words = ("where they started", "learned" if model.learned_ else "kept as they were")
    for ax, one, how in zip(filters.subplots(2, 1), (unlearned, model), words):
        wide = math.ceil(math.sqrt(2 * len(one.atoms_)))  # the panels are twice as wide as high
        show_signed(ax, mosaic(one.atoms_, columns=wide))
        set_title(ax, f"{len(one.atoms_)} filters of {times_text(one.atoms_.shape[1:])} pixels, {how}")
    draw_candidates(structures.subplots(), model.candidates_)
    draw_confusion(mistakes.subplots(), confusion, model.classes_, title)
    EvidenceDisplay.from_estimator(model, *examples, figure=bottom)
    return figure


def model_picture(model: AnyModel, name: str) -> Any:
    """A fitted model on one page: atoms, structures compared, confusions of left-out images."""
    draws: list[Callable[[Any], Any]] = []
    if drawn_atoms(model) is not None:
        draws.append(lambda ax: AtomsDisplay.from_estimator(model, ax=ax))
    if len(getattr(model, "candidates_", ())) > 1:
        draws.append(lambda ax: draw_candidates(ax, model.candidates_))
    if hasattr(model, "confusion_"):
        title = f"expected: {model.expected_accuracy_:.1%} of new images right"
        draws.append(
            lambda ax: draw_confusion(ax, np.rint(model.confusion_).astype(int), model.classes_, title)
        )
    if not draws:
        raise ValueError(f"{type(model).__name__} has neither atoms nor confusions to draw.")
    figure = new_figure(5.4 * len(draws), 5.2)
    for ax, draw in zip(np.atleast_1d(figure.subplots(1, len(draws))), draws):
        draw(ax)
    figure.suptitle(f"{name}: {type(model).__name__}", fontsize=12)
    return figure


def draw_candidates(ax: Any, candidates: list[dict[str, Any]], shown: int = 12) -> None:
    """The structures that were compared, best on top, by their leave-one-out error."""
    few = candidates[:shown]
    names = [
        f"{times_text(one['patch_shape'])} {one['normalize'] or 'as it is'} {'+'.join(map(str, one['pool']))}"
        for one in few
    ]
    places = np.arange(len(few))
    ax.barh(places, [one["loss"] for one in few], color=[INK] + [QUIET] * (len(few) - 1), height=0.7)
    ax.set_yticks(places, names, fontsize=8)
    ax.invert_yaxis()
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_xlabel("leave-one-out error before learning")
    set_title(ax, f"The best {len(few)} of {len(candidates)} structures: patch, normalisation, grids")


def draw_reliability(ax: Any, confidence: Any, right: Any) -> None:
    """How often answers of like confidence are right, with 95 % intervals; honest ones on the diagonal."""
    from dcadl.deploy.calibration import expected_calibration_error, reliability

    bins = reliability(confidence, right)
    low, high = np.transpose([interval(*pair) for pair in zip(bins.accuracy, bins.counts)])
    reach = np.abs(np.stack([low, high]) - bins.accuracy)
    ax.plot([0, 1], [0, 1], color=QUIET, linewidth=1, linestyle="--")
    ax.errorbar(bins.confidence, bins.accuracy, reach, color=INK, fmt="none", elinewidth=1)
    ax.scatter(
        bins.confidence, bins.accuracy, 12 + 160 * bins.counts / bins.counts.sum(), color=BLOCKS[0], zorder=3,
        clip_on=False,
    )  # fmt: skip
    tidy(ax)
    _percent_axes(ax, "probability of the answer", "answers that are right", (0, 1), (0, 1.02))
    error = expected_calibration_error(confidence, right)
    set_title(ax, f"Reliability: calibration error {error:.1%}\n(larger dots: more answers)")


def draw_coverage(ax: Any, confidence: Any, right: Any) -> None:
    """Accuracy of the surest answers against the share of answers given."""
    from dcadl.deploy.calibration import accuracy_by_coverage

    share, accuracy = accuracy_by_coverage(confidence, right)
    ax.step(share, accuracy, color=BLOCKS[0], where="post")
    for k, least in enumerate(MARKED):
        given = float(np.mean(confidence >= least))
        if given > 0:
            height = float(right[confidence >= least].mean())
            ax.plot([given], [height], marker="o", color=INK, markersize=4)
            ax.annotate(
                f"--reject {least:g}",
                (given, height),
                (0, -14 - 11 * k),  # near ones would overlap
                textcoords="offset points",
                fontsize=8,
                ha="right" if given > 0.4 else "left",
            )
    tidy(ax)
    _percent_axes(
        ax,
        "answers given, surest first",
        "of those, right",
        (0, 1.02),
        (min(accuracy.min(), 0.9) - 0.05, 1.01),
    )
    set_title(ax, "Accuracy of the surest answers")


def _percent_axes(ax: Any, x: str, y: str, across: tuple[float, float], up: tuple[float, float]) -> None:
    from matplotlib.ticker import PercentFormatter

    ax.set(xlabel=x, ylabel=y, xlim=across, ylim=up)
    ax.xaxis.set_major_formatter(PercentFormatter(1))
    ax.yaxis.set_major_formatter(PercentFormatter(1))
