"""What the page's charts show, as plain values: errors and times, seeds, convergence, confusions."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from typing import Any

import numpy as np

from dcadl.bench.datasets import Dataset, is_picture, load_dataset
from dcadl.bench.methods import find_class
from dcadl.bench.pictures import data_uri, sheet, unpacked_atoms
from dcadl.bench.report.summary import DatasetSummary, Row

PAIRS = 6
RANGE = (1e-4, 1e3)  # of the convergence chart: a start at 10¹⁸ would leave all other lines flat
KINDS = {"RandomAtoms": "random", "PCAAtoms": "principal"}  # of atoms; others are learned
STARTS = {"LOOADL": "LOOADL-unlearned", "DCADL": "RandomAtoms"}  # rows whose atoms are another's first ones
LEAST_ERROR = 0.02  # per cent, drawn where there was none: a logarithm has no zero
TIMES = {
    "test_batch_s": "Time to classify an image, end to end",
    "train_s": "Time to train",
    "test_given_s": "Time to classify an image, patches given",
}


def chart_data(summary: DatasetSummary) -> dict[str, Any]:
    """Everything that the charts of one data set need."""
    run = [row for row in summary.rows if row.records]
    return {
        "name": summary.name,
        "title": summary.title,
        "times": {key: text for key, text in TIMES.items() if any(row.mean(key) for row in run)},
        "points": [_point(row) for row in run],
        "seeds": [_seeds(row) for row in run],
        "ablations": [_variant(row) for row in summary.ablations if row.records],
        "range": RANGE,
        "convergence": convergence(summary),
        "confusions": [_confusion(row) for row in run],
        "classes": _class_names(summary, run),
    }


def convergence(summary: DatasetSummary) -> list[dict[str, Any]]:
    """A line for each row whose objective has something to draw."""
    return [line for row in summary.rows if row.records and (line := _convergence(row))]


def not_drawn(summary: DatasetSummary) -> list[str]:
    """Labels of the iterative rows that have no such line."""
    iterative = [row for row in summary.rows if row.records and len(_objective(row)) > 1]
    return [row.name for row in iterative if _convergence(row) is None]


def atom_sheets(summary: DatasetSummary) -> list[tuple[str, str, str]]:
    """Name, picture, and number and kind of the atoms of each row that has some to show.

    Atoms that were learned stand first, each beside those that they started from.
    """
    packed = {row.label: found for row in summary.rows if (found := _packed(row))}
    order = list(dict.fromkeys([*chain.from_iterable(STARTS.items()), *packed]))
    began = {start: label for label, start in STARTS.items() if _began_alike(packed, summary, label, start)}
    sheets = []
    for row in sorted((r for r in summary.rows if r.label in packed), key=lambda r: order.index(r.label)):
        tiles = unpacked_atoms(packed[row.label])
        learned = row.records[0]["params"].get("learn", True)
        kind = KINDS.get(row.method, "learned" if learned else "unlearned")
        other = summary.row(began[row.label]) if row.label in began else None
        where = f", which {other.name} started from" if other else ""
        sheets.append((row.name, data_uri(sheet(tiles)), f"{len(tiles)} {kind} filters{where}"))
    return sheets


def _packed(row: Row) -> dict[str, Any] | None:
    return next((r["atoms"] for r in row.records if r.get("atoms")), None)


def _began_alike(packed: dict[str, Any], summary: DatasetSummary, label: str, start: str) -> bool:
    """Whether a row's atoms began as those of another: as many, as large, drawn from the same seed."""
    own, other = summary.row(label), summary.row(start)
    if own is None or other is None or not {label, start} <= set(packed):
        return False
    init = own.records[0]["params"].get("init", find_class(own.method)().get_params().get("init"))
    return init in (None, "gaussian") and packed[label]["shape"] == packed[start]["shape"]


def confused_pairs(summary: DatasetSummary, row: Row) -> list[dict[str, Any]]:
    """The pairs of classes that a row confuses most, with one example each where the data is here."""
    counts = _mistakes(row)
    data, names = _data(summary.name), _class_names(summary, [row])
    pairs = []
    for (true, found), count in counts.most_common(PAIRS):
        places = (i for r in row.records for i, t, f in r["errors"] if (t, f) == (true, found))
        place = next(places, None)
        pairs.append(
            {
                "true": names[true],
                "found": names[found],
                "count": count,
                "example": _example(data, place),
                "typical": _typical(data, found),
            }
        )
    return pairs


def loading_error(name: str) -> str | None:
    """What kind of error keeps the data set from being loaded here, if one does."""
    return _loaded(name)[1]


def _point(row: Row) -> dict[str, Any]:
    accuracy = row.mean("accuracy")
    error = None if accuracy is None else max(round(100 * (1 - accuracy), 4), LEAST_ERROR)
    return {"label": row.name, "group": row.group, "error": error, **{t: row.mean(t) for t in TIMES}}


def _seeds(row: Row) -> dict[str, Any]:
    """Every seed's accuracy, and their mean."""
    values = [_percent(v) for v in row.values("accuracy")]
    return {"label": row.name, "group": row.group, "values": values, "mean": _percent(row.mean("accuracy"))}


def _variant(row: Row) -> dict[str, Any]:
    """One point of the ablations: what was varied, and what it gave."""
    params = row.records[0]["params"]
    return {
        "method": row.records[0]["method"],
        "normalize": params.get("normalize") or "none",
        "atoms": params["n_atoms"],
        "codes": "shrunk" if params["lam1"] else "plain",
        "accuracy": _percent(row.mean("accuracy")),
    }


def _convergence(row: Row) -> dict[str, Any] | None:
    """How far the first seed's objective lies above its lowest value, as a share of it, step by step."""
    trace = _objective(row)
    if len(trace) < 2 or not trace.min() > 0:
        return None
    above = [float(f"{v:.4g}") for v in (trace / trace.min() - 1).tolist()]
    if not any(RANGE[0] <= v <= RANGE[1] for v in above):
        return None
    # a logarithm has no zero, JSON no infinity
    return {
        "label": row.name,
        "group": row.group,
        "values": [v if 0 < v < np.inf else None for v in above],
    }


def _objective(row: Row) -> np.ndarray:
    return np.asarray(row.records[0].get("objective") or [], dtype=float)


def _confusion(row: Row) -> dict[str, Any]:
    """True class, predicted class and share of the true class in per cent, over all seeds."""
    totals = np.sum([r["test_counts"] for r in row.records], axis=0)
    wrong = _mistakes(row)
    right = totals - np.bincount([t for (t, _), n in wrong.items() for _ in range(n)], minlength=len(totals))
    cells = [[t, f, n] for (t, f), n in wrong.items()] + [[c, c, int(n)] for c, n in enumerate(right)]
    return {
        "label": row.name,
        "cells": [[t, f, round(100 * n / max(int(totals[t]), 1), 2)] for t, f, n in cells],
    }


def _class_names(summary: DatasetSummary, rows: list[Row]) -> list[str]:
    data = _data(summary.name)
    count = len(rows[0].records[0]["test_counts"]) if rows else 0
    return list(data.names) if data and len(data.names) == count else [str(c) for c in range(count)]


def _data(name: str) -> Dataset | None:
    """The data set, if it can be loaded here: examples are shown only then."""
    return _loaded(name)[0]


def _loaded(name: str) -> tuple[Dataset | None, str | None]:
    try:
        return load_dataset(name), None
    except Exception as error:  # a missing file or library, a damaged file: the report does without
        return None, type(error).__name__


def _mistakes(row: Row) -> Counter[tuple[int, int]]:
    """How often each class was taken for another, over all seeds; older records keep places alone."""
    counts: Counter[tuple[int, int]] = Counter()
    for record in row.records:
        found = record.get("confusions", [[t, f, 1] for _, t, f in record["errors"]])
        for true, taken_for, n in found:
            counts[true, taken_for] += n
    return counts


def _example(data: Dataset | None, place: int | None) -> str | None:
    if data is None or place is None or not is_picture(data.X) or place >= len(data.X):
        return None
    grey = np.rint(255 * np.clip(data.X[place], 0, 1)).astype(np.uint8)
    zoom = max(1, 96 // max(grey.shape))
    return data_uri(grey.repeat(zoom, axis=0).repeat(zoom, axis=1))


def _typical(data: Dataset | None, label: int) -> str | None:
    if data is None or label not in data.y:
        return None
    return _example(data, int(np.flatnonzero(data.y == label)[0]))


def _percent(value: float | None) -> float | None:
    return None if value is None else round(100 * value, 4)
