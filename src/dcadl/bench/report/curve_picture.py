"""The learning curves drawn for a README: error on a logarithmic axis, every line named at its end."""

from __future__ import annotations

import io
from typing import Any

from dcadl.bench.report.curves import LearningCurves, Line
from dcadl.plot.canvas import BLOCKS, INK, QUIET, new_figure, set_title, tidy

STYLES = {  # by group: colour, width
    "ours": (BLOCKS[5], 2.4),
    "controls": (QUIET, 1.3),
    "published": (BLOCKS[0], 1.1),
    "outsiders": (BLOCKS[2], 1.6),
}
ROOM = 0.043  # of the axis' height for the name of one line
LEAST_ERROR = 0.02  # per cent, drawn where there was none: a logarithm has no zero
DPI = 150
ROUNDS = 200  # of moving names apart
LOWEST, HIGHEST = 0.02, 0.98  # places of names on the axis


def curve_picture(curves: list[LearningCurves]) -> bytes:
    """A PNG with one panel for each data set."""
    figure = new_figure(6.2 * len(curves), 5.2)
    panels = figure.subplots(1, len(curves), squeeze=False)[0]
    for ax, found in zip(panels, curves):
        _draw(ax, found)
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=DPI, metadata={"Software": None})
    return stream.getvalue()


def _draw(ax: Any, curves: LearningCurves) -> None:
    for line in curves.lines:
        colour, width = STYLES.get(line.group, STYLES["published"])
        dashes = "--" if line.group == "controls" else "-"
        errors = [max(error, LEAST_ERROR) for error in line.errors]
        ax.plot(line.images, errors, dashes, color=colour, lw=width, marker="o", ms=3.5)
    ax.set(xscale="log", yscale="log", xlabel="training images of each class", ylabel="error, %")
    ax.set_xticks(curves.images, [str(k) for k in curves.images])
    ax.minorticks_off()
    low, high = ax.get_ylim()
    ticks = [t for t in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50) if low <= t <= high]
    ax.set_yticks(ticks, [f"{t:g}" for t in ticks])
    ax.set_xlim(curves.images[0] * 0.9, curves.images[-1] * (curves.images[-1] / curves.images[0]) ** 0.45)
    tidy(ax)
    set_title(ax, curves.title)
    _name_lines(ax, curves)


def _name_lines(ax: Any, curves: LearningCurves) -> None:
    """Each line's name beside its last point; names that would overlap are moved apart."""
    ends = sorted(curves.lines, key=lambda line: line.errors[-1])
    heights = _spread([_height(ax, line) for line in ends], ROOM)
    last = curves.images[-1]
    for line, height in zip(ends, heights):
        colour, _ = STYLES.get(line.group, STYLES["published"])
        ax.annotate(
            line.name,
            (line.images[-1], max(line.errors[-1], LEAST_ERROR)),
            xytext=(last * 1.18, height),
            textcoords=("data", "axes fraction"),
            va="center",
            fontsize=8,
            color=INK if line.group == "controls" else colour,
            weight="bold" if line.group == "ours" else "normal",
            arrowprops={"arrowstyle": "-", "color": "#d8d8d8", "lw": 0.6, "shrinkA": 0, "shrinkB": 2},
        )


def _height(ax: Any, line: Line) -> float:
    """Where the line ends, as a share of the axis."""
    x, y = ax.transData.transform((line.images[-1], max(line.errors[-1], LEAST_ERROR)))
    return float(ax.transAxes.inverted().transform((x, y))[1])


def _spread(heights: list[float], room: float) -> list[float]:
    """Ascending heights at least `room` apart: those too close push each other away, both ways alike."""
    placed = list(heights)
    for _ in range(ROUNDS):
        placed[0], placed[-1] = max(placed[0], LOWEST), min(placed[-1], HIGHEST)
        for i in range(1, len(placed)):
            push = max(0.0, room - (placed[i] - placed[i - 1])) / 2
            placed[i - 1], placed[i] = placed[i - 1] - push, placed[i] + push
    return placed
