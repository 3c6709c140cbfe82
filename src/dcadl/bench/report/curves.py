"""Learning curves: error against training images of each class, over the protocols of one data set."""

from __future__ import annotations

from typing import NamedTuple

from dcadl.bench.report.summary import DatasetSummary, Row
from dcadl.bench.settings import dataset_config

CURVES_FILE = "learning_curves.png"


class Line(NamedTuple):
    """One method: where it was run, and its error there."""

    label: str
    name: str
    group: str
    images: list[int]  # of each class
    errors: list[float]  # per cent, means over seeds


class LearningCurves(NamedTuple):
    """All methods on one data set."""

    name: str
    title: str
    images: list[int]
    lines: list[Line]


def learning_curves(summaries: list[DatasetSummary]) -> list[LearningCurves]:
    """Each data set that was run with two or more numbers of training images of each class."""
    return [_curves(name, found) for name, found in by_images(summaries).items()]


def by_images(summaries: list[DatasetSummary]) -> dict[str, dict[int, DatasetSummary]]:
    """The protocols of each such data set, by the number of images of each class, fewest first."""
    families: dict[str, dict[int, DatasetSummary]] = {}
    for summary in summaries:
        known = dataset_config(summary.name)
        if isinstance(known.get("per_class"), int) and "size" not in known and not known.get("features"):
            families.setdefault(known.get("data", summary.name), {})[known["per_class"]] = summary
    return {name: dict(sorted(found.items())) for name, found in families.items() if len(found) > 1}


def _curves(name: str, found: dict[int, DatasetSummary]) -> LearningCurves:
    labels = list(dict.fromkeys(row.label for summary in found.values() for row in summary.rows))
    lines = [_line({k: row for k, s in found.items() if (row := s.row(label))}) for label in labels]
    title = family_title(next(iter(found.values())))
    return LearningCurves(name, title, list(found), [line for line in lines if len(line.images) > 1])


def family_title(summary: DatasetSummary) -> str:
    """A data set's name, without the number of images."""
    return summary.title.partition(" (")[0]


def _line(rows: dict[int, Row]) -> Line:
    first = next(iter(rows.values()), None)
    if first is None:
        return Line("", "", "", [], [])
    errors = [100 * (1 - (row.mean("accuracy") or 0.0)) for row in rows.values()]
    return Line(first.label, first.name, first.group, list(rows), errors)
