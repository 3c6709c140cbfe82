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
    ranked: bool = False  # whether every point has seeds enough to be compared


class LearningCurves(NamedTuple):
    """All methods on one data set."""

    name: str
    title: str
    images: list[int]
    lines: list[Line]


def learning_curves(summaries: list[DatasetSummary]) -> list[LearningCurves]:
    """Each data set that was run with two or more numbers of training images of each class."""
    families: dict[str, dict[int, DatasetSummary]] = {}
    for summary in summaries:
        known = dataset_config(summary.name)
        if isinstance(known.get("per_class"), int) and "size" not in known and not known.get("features"):
            families.setdefault(known.get("data", summary.name), {})[known["per_class"]] = summary
    several = {name: dict(sorted(found.items())) for name, found in families.items() if len(found) > 1}
    return [_curves(name, found) for name, found in several.items()]


def _curves(name: str, found: dict[int, DatasetSummary]) -> LearningCurves:
    labels = list(dict.fromkeys(row.label for summary in found.values() for row in summary.rows))
    lines = [_line({k: row for k, s in found.items() if (row := s.row(label))}) for label in labels]
    title = next(iter(found.values())).title.partition(" (")[0]
    return LearningCurves(name, title, list(found), [line for line in lines if len(line.images) > 1])


def _line(rows: dict[int, Row]) -> Line:
    first = next(iter(rows.values()), None)
    if first is None:
        return Line("", "", "", [], [])
    errors = [100 * (1 - (row.mean("accuracy") or 0.0)) for row in rows.values()]
    ranked = all(row.ranked for row in rows.values())
    return Line(first.label, first.name, first.group, list(rows), errors, ranked)
