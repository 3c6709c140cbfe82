"""Records grouped into rows: means over seeds, and paired differences between methods."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from dcadl.bench.methods import GROUPS, row_group, row_title
from dcadl.bench.own import is_own
from dcadl.bench.records import Record
from dcadl.bench.settings import ablation_grid, benchmark_config, dataset_config

LEVEL = 0.05  # of significance
LEAST_SEEDS = 5  # of a row that is ranked
LEAST_CANDIDATES = 10  # of a search, or the row is marked
REFERENCES = ("LOOADL", "DCADL")  # what others are compared with: the first that has records
ATOMS_PER_CLASS = ("DPL",)
TIMES = ("train_s", "test_given_s", "test_batch_s", "test_single_s")
Searches = dict[str, Any]  # data set → label → seed → how its parameters were searched for


class Difference(NamedTuple):
    """Accuracy of the reference less a row's, over the seeds that both have, in per cent."""

    mean: float
    p: float
    seeds: int
    wins: int  # seeds in which the reference is ahead
    losses: int
    error: float  # plain standard error of the mean difference


class Row(NamedTuple):
    """One method on one data set."""

    label: str
    method: str  # name of the class
    atoms: int | None
    records: list[Record]  # by seed, the successful ones
    errors: list[str]
    reported: dict[str, Any] | None  # the paper's figures
    difference: Difference | None
    candidates: int | None = None  # fewest that a seed's parameters were chosen from; None without a search
    elsewhere: bool = False  # whether it ran on another processor than the reference

    def values(self, field: str) -> list[float]:
        """One value a seed; no times where they are another processor's, which cannot be compared."""
        if self.elsewhere and field in TIMES:
            return []
        return [r[field] for r in self.records if r.get(field) is not None]

    @property
    def name(self) -> str:
        """How the row is called."""
        return row_title(self.label, self.method)

    @property
    def title(self) -> str:
        """Name, atoms, for how many seeds parameters were tuned, and the best of how many they are."""
        tuned, n = sum(r.get("source") == "tuned" for r in self.records), len(self.records)
        how = ["tuned" if tuned == n else f"tuned in {tuned} of {n}"] if tuned else []
        how += [f"best of {self.candidates}"] if (self.candidates or 0) > 1 else []
        notes = [f"{self.atoms} atoms"] * (self.atoms is not None) + how
        return f"{self.name} ({', '.join(notes)})" if notes else self.name

    @property
    def group(self) -> str:
        """Ours, control, published or outsider."""
        return row_group(self.label, self.method)

    @property
    def ranked(self) -> bool:
        """Whether there are seeds enough to be compared."""
        return len(self.records) >= LEAST_SEEDS

    @property
    def few_candidates(self) -> bool:
        """Whether its parameters could have been searched for, but hardly were."""
        config = benchmark_config()
        searched = self.candidates is not None
        tunable = self.method in config["spaces"] and self.label not in config["untuned"]
        return (searched or tunable) and (self.candidates or 0) < LEAST_CANDIDATES

    def mean(self, field: str) -> float | None:
        """Over seeds."""
        found = self.values(field)
        return float(np.mean(found)) if found else None

    def std(self, field: str) -> float | None:
        """Over seeds; None for one."""
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
    reference: str = REFERENCES[-1]  # label of the row that others are compared with

    @property
    def best(self) -> set[str]:
        """Labels of the best ranked row and of those within one standard error of it."""
        ranked = [row for row in self.rows if row.ranked]
        if not ranked:
            return set()
        top = max(ranked, key=lambda row: row.mean("accuracy") or 0.0)
        gaps = {row.label: paired_difference(top.records, row.records) for row in ranked}
        return {top.label} | {label for label, gap in gaps.items() if gap and gap.mean <= gap.error}

    @property
    def comparisons(self) -> int:
        """Ranked rows that are tested against the reference."""
        return sum(row.ranked and row.difference is not None for row in self.rows)

    def row(self, label: str) -> Row | None:
        """The row of that label, if it has a record."""
        return next((row for row in self.rows if row.label == label and row.records), None)


def summarise(found: list[Record], searches: Searches | None = None) -> list[DatasetSummary]:
    """Data sets in the order of the configuration, own ones last; the last record of a run counts.

    `searches` says how many candidates tuned parameters were chosen from.
    """
    own = [r["dataset"] for r in found if is_own(r["dataset"])]
    return [
        _summarise_one(name, mine, (searches or {}).get(name, {}))
        for name in dict.fromkeys([*benchmark_config()["datasets"], *own])
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
    return Difference(
        mean=float(d.mean()),
        p=float(2 * stats.t.sf(abs(t), len(d) - 1)),
        seeds=len(d),
        wins=int((d > 0).sum()),
        losses=int((d < 0).sum()),
        error=float(d.std(ddof=1) / math.sqrt(len(d))),
    )


def hardware(found: list[Record]) -> list[str]:
    """One line for each machine and setting of threads that made these records."""
    return sorted({_machine(r) for r in found})


def _summarise_one(name: str, mine: list[Record], searches: dict[str, Any]) -> DatasetSummary:
    known = dataset_config(name)
    groups = {group: _of(mine, group=group) for group in ("table", "ablation")}
    good = {label: _good(_of(groups["table"], label=label)) for label in REFERENCES}
    reference = next((label for label in REFERENCES if good[label]), REFERENCES[-1])
    reported = {r["label"]: r for r in known["results"] if "label" in r}
    order = [*known["settings"], *(row.label for row in ablation_grid(known.get("ablations")))]

    def rows(group: str) -> list[Row]:
        found = [
            _row(label, _of(groups[group], label=label), reported.get(label), searches.get(label, {}))
            for label in {r["label"] for r in groups[group]}
        ]
        found = [row._replace(elsewhere=_ran_elsewhere(row.records, good[reference])) for row in found]
        compared = [
            row._replace(difference=paired_difference(good[reference], row.records))
            if (row.label, group) != (reference, "table")
            else row
            for row in found
        ]
        return sorted(compared, key=_place(order))

    return DatasetSummary(
        name=name,
        title=known["title"],
        fact=known.get("fact", ""),
        comparable=bool(known.get("comparable", True)),
        rows=rows("table"),
        ablations=rows("ablation"),
        reference=reference,
    )


def _row(label: str, mine: list[Record], reported: dict[str, Any] | None, searches: dict[str, Any]) -> Row:
    good = _good(mine)
    seeds = {r["seed"] for r in good}
    errors = sorted({r["error"] for r in mine if r["status"] == "failed" and r["seed"] not in seeds})
    atoms = next((_atoms(r) for r in good if "n_atoms" in r["params"]), None)
    name, fewest = mine[-1].get("method", label), _fewest(good, searches)
    return Row(label, name, atoms, good, errors, reported, None, fewest)


def _fewest(good: list[Record], searches: dict[str, Any]) -> int | None:
    """The least number of candidates of a seed: of its own grid, or of the search before."""
    own = [r["candidates"] for r in good if r.get("candidates") is not None]
    before = [searches[f"seed{r['seed']}"] for r in good if f"seed{r['seed']}" in searches]
    counts = own or [how["candidates"] if "cross_validated" in how else 1 for how in before]
    return min(counts) if counts else None


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


def _place(order: list[str]) -> Callable[[Row], tuple[int, int, str]]:
    """By group, then as configured."""
    groups = list(GROUPS)
    return lambda row: (
        groups.index(row.group),
        order.index(row.label) if row.label in order else len(order),
        row.label,
    )


def _ran_elsewhere(mine: list[Record], reference: list[Record]) -> bool:
    here, there = ({r.get("environment", {}).get("processor") for r in one} for one in (mine, reference))
    return bool(here and there) and here != there


def _machine(record: Record) -> str:
    env = record["environment"]
    versions = ", ".join(f"{name} {version}" for name, version in env["versions"].items())
    beside = f", {record['jobs']} runs side by side" if record.get("jobs", 1) > 1 else ""
    return (
        f"{env['processor']}, {env['cores']} cores, {env['memory_gb']} GB, {env['system']}; "
        f"{record['threads']} threads{beside}; Python {env['python']}, {versions}"
    )
