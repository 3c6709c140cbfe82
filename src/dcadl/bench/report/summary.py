"""Records grouped into rows: means over seeds, and paired differences between methods."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from dcadl.bench.records import Record
from dcadl.bench.settings import ablation_grid, benchmark_config, dataset_config

LEVEL = 0.05  # of significance
REFERENCE = "DCADL"
ATOMS_PER_CLASS = ("DPL",)


class Difference(NamedTuple):
    """Accuracy of the reference less a row's, over the seeds that both have, in per cent."""

    mean: float
    p: float
    seeds: int


class Row(NamedTuple):
    """One method on one data set."""

    label: str
    atoms: int | None
    records: list[Record]  # by seed, the successful ones
    errors: list[str]
    reported: dict[str, Any] | None  # the paper's figures
    difference: Difference | None

    def values(self, field: str) -> list[float]:
        """One value a seed."""
        return [r[field] for r in self.records if r.get(field) is not None]

    @property
    def title(self) -> str:
        """Label, atoms, and for how many seeds parameters were tuned."""
        tuned, n = sum(r.get("source") == "tuned" for r in self.records), len(self.records)
        how = ["tuned" if tuned == n else f"tuned in {tuned} of {n}"] if tuned else []
        notes = [str(self.atoms)] * (self.atoms is not None) + how
        return f"{self.label} ({', '.join(notes)})" if notes else self.label

    def mean(self, field: str) -> float | None:
        found = self.values(field)
        return float(np.mean(found)) if found else None

    def std(self, field: str) -> float | None:
        found = self.values(field)
        return float(np.std(found, ddof=1)) if len(found) > 1 else None


class DatasetSummary(NamedTuple):
    """One data set: the rows of its table, and of its ablations."""

    name: str
    title: str
    fact: str
    comparable: bool
    rows: list[Row]
    ablations: list[Row]


def summarise(found: list[Record]) -> list[DatasetSummary]:
    """Data sets in the paper's order, rows in the order of its tables; the last record of a run counts."""
    return [
        _summarise_one(name, mine)
        for name in benchmark_config()["datasets"]
        if (mine := _of(found, dataset=name))
    ]


def paired_difference(reference: list[Record], other: list[Record]) -> Difference | None:
    """Mean difference and p of the corrected resampled t-test (Nadeau & Bengio 2003).

    Training sets of different seeds overlap, so that the plain paired t-test finds too much. Accuracies come
    in steps of one test sample: a few seeds that happen to differ by the same step are no proof.
    """
    by_seed = {r["seed"]: r for r in reference}
    pairs = [(by_seed[r["seed"]], r) for r in other if r["seed"] in by_seed]
    if len(pairs) < 2:
        return None
    d = np.array([100 * (a["accuracy"] - b["accuracy"]) for a, b in pairs])
    share = pairs[0][0]["n_test"] / pairs[0][0]["n_train"]
    step = 100 / pairs[0][0]["n_test"]
    t = float(d.mean()) / math.sqrt(max(float(d.var(ddof=1)), step**2) * (1 / len(d) + share))
    return Difference(float(d.mean()), float(2 * stats.t.sf(abs(t), len(d) - 1)), len(d))


def hardware(found: list[Record]) -> list[str]:
    """One line for each machine and setting of threads that made these records."""
    return sorted({_machine(r) for r in found})


def _summarise_one(name: str, mine: list[Record]) -> DatasetSummary:
    known = dataset_config(name)
    groups = {group: _of(mine, group=group) for group in ("table", "ablation")}
    reference = _good([r for r in groups["table"] if r["label"] == REFERENCE])
    reported = {r["label"]: r for r in known["results"] if "label" in r}
    order = [*known["settings"], *(row.label for row in ablation_grid(known.get("ablations")))]

    def rows(group: str) -> list[Row]:
        labels = sorted({r["label"] for r in groups[group]}, key=_place(order))
        return [
            _row(label, _of(groups[group], label=label), reported.get(label), reference) for label in labels
        ]

    comparable = bool(known.get("comparable", True))
    return DatasetSummary(
        name, known["title"], known.get("fact", ""), comparable, rows("table"), rows("ablation")
    )


def _row(label: str, mine: list[Record], reported: dict[str, Any] | None, reference: list[Record]) -> Row:
    good = _good(mine)
    seeds = {r["seed"] for r in good}
    errors = sorted({r["error"] for r in mine if r["status"] == "failed" and r["seed"] not in seeds})
    atoms = next((_atoms(r) for r in good if "n_atoms" in r["params"]), None)
    difference = None if label == REFERENCE else paired_difference(reference, good)
    return Row(label, atoms, good, errors, reported, difference)


def _good(mine: list[Record]) -> list[Record]:
    """The last successful record of each seed, by seed; one with tuned parameters before one without."""
    good = [r for r in mine if r["status"] == "ok"]
    latest = {r["seed"]: r for r in sorted(good, key=lambda r: r.get("source") == "tuned")}
    return [latest[seed] for seed in sorted(latest)]


def _atoms(record: Record) -> int:
    """All atoms: `n_atoms` of some methods is for each class."""
    each = record["params"]["n_atoms"]
    return int(each * len(record["test_counts"]) if record["method"] in ATOMS_PER_CLASS else each)


def _of(found: list[Record], **fields: Any) -> list[Record]:
    return [r for r in found if all(r.get(name) == value for name, value in fields.items())]


def _place(order: list[str]) -> Callable[[str], tuple[int, str]]:
    return lambda label: (order.index(label) if label in order else len(order), label)


def _machine(record: Record) -> str:
    env = record["environment"]
    versions = ", ".join(f"{name} {version}" for name, version in env["versions"].items())
    beside = f", {record['jobs']} runs side by side" if record.get("jobs", 1) > 1 else ""
    return (
        f"{env['processor']}, {env['cores']} cores, {env['memory_gb']} GB, {env['system']}; "
        f"{record['threads']} threads{beside}; Python {env['python']}, {versions}"
    )
