"""Which method suits a user's own data: folds, controls, and a verdict that says ties."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dcadl.bench.methods import ESTIMATORS, method
from dcadl.bench.own import count_folds, own_config, own_fold, read_own
from dcadl.bench.records import Record
from dcadl.bench.report.summary import paired_difference
from dcadl.bench.runner import Run, planned_runs
from dcadl.bench.settings import settings
from dcadl.ops.interval import interval

CLEAR = 0.05  # p of the corrected paired t-test below which one method is clearly better
SIMPLE = ("PatchRidge",)
LEAST_FOLDS = 2  # without which nothing is said of a method where others have them


class Rival(NamedTuple):
    """One method over the folds that it has run."""

    label: str
    method: str
    records: list[Record]

    @property
    def n(self) -> int:
        """Samples that it was tested on."""
        return sum(r["n_test"] for r in self.records)

    @property
    def accuracy(self) -> float:
        """Share of them that it named rightly."""
        return sum(r["accuracy"] * r["n_test"] for r in self.records) / self.n

    @property
    def train_s(self) -> float:
        """Median time of a fit."""
        return float(np.median([r["train_s"] for r in self.records]))

    @property
    def ours(self) -> bool:
        """Whether `dcadl fit` fits it."""
        return method(self.method).home == ESTIMATORS or bool(method(self.method).typed)


class Verdict(NamedTuple):
    """What the folds say: all who ran them, best first, and who is not clearly worse than the best."""

    rivals: list[Rival]
    tied: list[Rival]  # the best first
    majority: float  # accuracy of always naming the largest class
    folds: int  # of the cross-validation, if there is time
    absent: tuple[str, ...] = ()  # methods that have run too few of them

    @property
    def use(self) -> Rival | None:
        """What to use: of those not clearly worse than the best, one that `dcadl fit` fits, the simplest."""
        ours = [rival for rival in self.tied if rival.ours]
        simple = [rival for label in SIMPLE for rival in ours if rival.label == label]
        return next(iter([*simple, *ours]), None)


def compared_runs(name: str) -> list[Run]:
    """Folds of the sensible methods, fold by fold: what is interrupted has complete pairs.

    Slow methods are a fold behind, so that a budget which one of them eats up leaves two folds of the others.
    """
    there = {row.label for row in settings(name)}
    labels = [label for label in own_config()["compare"] if label in there]
    order = {label: place for place, label in enumerate(labels)}
    runs = planned_runs([name], labels, count_folds(read_own(name).y))
    slow = own_config()["slow"]
    return sorted(runs, key=lambda run: (run.seed + (run.setting.label in slow), order[run.setting.label]))


def verdict(name: str, records: list[Record]) -> Verdict:
    """Who is best on the folds that all of them have run, and who is not clearly worse.

    A method that has run fewer than two folds is left out, unless most have: then one fold must do.
    """
    by_label: dict[str, dict[int, Record]] = {}
    for record in records:
        if record["status"] == "ok":
            by_label.setdefault(record["label"], {})[record["seed"]] = record
    enough = {label: found for label, found in by_label.items() if len(found) >= LEAST_FOLDS}
    if 2 * len(enough) < len(by_label):
        enough = by_label
    absent = tuple(label for label in by_label if label not in enough)
    shared = sorted(set.intersection(*map(set, enough.values()))) if enough else []
    rivals = [
        Rival(label, found[shared[0]]["method"], [found[seed] for seed in shared])
        for label, found in enough.items()
        if shared
    ]
    rivals.sort(key=lambda rival: -rival.accuracy)
    tied = [rival for rival in rivals if not _clearly_worse(rival, rivals[0])]
    y = read_own(name).y
    return Verdict(rivals, tied, _majority(y), count_folds(y), absent)


def _clearly_worse(rival: Rival, best: Rival) -> bool:
    """By the folds, or by all samples: few folds that differ much hide a difference that no interval does."""
    gap = paired_difference(best.records, rival.records)
    by_folds = gap is not None and gap.mean > 0 and gap.p < CLEAR
    return by_folds or interval(rival.accuracy, rival.n)[1] < interval(best.accuracy, best.n)[0]


def _majority(y: np.ndarray) -> float:
    """The largest class of each training fold, tried on the rest."""
    right = 0
    for seed in range(count_folds(y)):
        train, test = own_fold(y, seed)
        right += int((y[test] == np.bincount(y[train]).argmax()).sum())
    return right / len(y)
