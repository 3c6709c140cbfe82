"""What the columns of a table show of a row, as text and as a number to sort by."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from dcadl.bench.methods import METHODS, method, row_title
from dcadl.bench.report.summary import LEAST_CANDIDATES, LEAST_SEEDS, LEVEL, DatasetSummary, Row
from dcadl.bench.settings import dataset_config

NOTHING = "–"
BY_PAPER = "DCADL-paper"
LEGEND = f"""Accuracy: mean ± standard deviation over n random splits, the same for every method. Bold: the
best mean, and those within one standard error of the paired difference to it. Rows of fewer than
{LEAST_SEEDS} splits stand apart and are not ranked. The difference to the reference is paired, split by
split, with the number of splits that the reference won and lost; it is bold where the corrected resampled
t-test gives p < {LEVEL}. That test (Nadeau and Bengio, 2003) adds the ratio of test to training samples to
the 1/n in the variance of the mean, because splits share their training samples. Where more is tested than
trained it is strict: ten losses of ten splits may stay unmarked, so read the count beside it. No correction
is made for the number of comparisons; each table says how many there are. ‡: parameters were chosen from
fewer than {LEAST_CANDIDATES} candidates, or not searched for, for want of time. Testing times are per image:
"patches given" is one batch with patches cut beforehand, as the paper's authors took it; "end to end" starts
from raw images. The paper's figures come from another machine."""


class Cell(NamedTuple):
    """A text, the number behind it, and whether it stands out."""

    text: str
    value: float | None = None
    strong: bool = False


class Column(NamedTuple):
    """A heading and what it shows of a row."""

    title: str
    cell: Callable[[Row], Cell]


def table(summary: DatasetSummary, rows: list[Row]) -> tuple[list[str], list[list[Cell]]]:
    """Headings and cells of these rows; a column without a single value is left out."""
    columns = _columns(summary)
    lines = [[column.cell(row) for column in columns] for row in rows]
    kept = [0, *(i for i in range(1, len(columns)) if any(line[i].text != NOTHING for line in lines))]
    return [columns[i].title for i in kept], [[line[i] for i in kept] for line in lines]


def ablation_table(summary: DatasetSummary, rows: list[Row]) -> tuple[list[str], list[list[Cell]]]:
    """The same of the ablations, in few columns."""
    reference = method(summary.reference).title
    columns = [
        Column("Variant", lambda row: Cell(row.label)),
        Column("Accuracy %", accuracy_cell),
        Column(f"{reference} − variant", difference_cell),
        Column("Training", _time("train_s")),
    ]
    return [column.title for column in columns], [[column.cell(row) for column in columns] for row in rows]


def only_reported(summary: DatasetSummary) -> list[Row]:
    """Rows of the paper's table that nobody ran here."""
    here = {row.label for row in summary.rows}
    return [
        Row(found["name"], found.get("label", found["name"]), found.get("atoms"), [], [], found, None)
        for found in dataset_config(summary.name)["results"]
        if found.get("label") not in here
    ]


def accuracy_cell(row: Row, best: frozenset[str] | set[str] = frozenset()) -> Cell:
    """Mean ± standard deviation over seeds, in per cent, and their number."""
    mean, std = row.mean("accuracy"), row.std("accuracy")
    if mean is None:
        return Cell("failed" if row.errors else NOTHING)
    spread = "" if std is None else f" ± {100 * std:.2f}"
    return Cell(f"{100 * mean:.2f}{spread}, n={len(row.records)}", mean, row.label in best)


def difference_cell(row: Row) -> Cell:
    """The paired difference, won and lost seeds; bold where it is significant."""
    gap = row.difference
    if gap is None:
        return Cell(NOTHING)
    return Cell(f"{gap.mean:+.2f}, {gap.wins}–{gap.losses}", gap.mean, gap.p < LEVEL)


def duration_text(seconds: float | None) -> str:
    """A time as a person reads it."""
    if seconds is None:
        return NOTHING
    scale, unit = next((pair for pair in ((1e6, "µs"), (1e3, "ms")) if seconds * pair[0] < 1000), (1.0, "s"))
    value = seconds * scale
    return f"{value:.0f} {unit}" if value >= 9.95 else f"{value:.1f} {unit}"


def footnotes(summary: DatasetSummary) -> list[str]:
    """What must be said below a table: its comparisons, marks, and where rows depart from their papers."""
    notes = []
    if summary.comparisons:
        chance = LEVEL * summary.comparisons
        notes.append(
            f"{summary.comparisons} comparisons with {method(summary.reference).title} at {LEVEL:.0%}, not "
            f"corrected for their number: about {chance:.2g} would be bold by chance if no method differed."
        )
    if any(row.few_candidates for row in summary.rows):
        notes.append(f"‡ Chosen from fewer than {LEAST_CANDIDATES} candidates, or not searched for.")
    if any(row.records and row.elsewhere for row in summary.rows):
        notes.append(
            f"§ Ran on another processor than {method(summary.reference).title}: times are not compared."
        )
    if any(row.label.startswith(BY_PAPER) for row in summary.rows):
        notes.append(f"{BY_PAPER}: λ3/λ2 in line 10, as printed; the authors' release has λ3.")
    if missing := not_run(summary):
        notes.append(f"Not run here: {', '.join(missing)}.")
    notes += [f"† {r['name']}: {r['fact']}." for r in dataset_config(summary.name)["results"] if "fact" in r]
    present = dict.fromkeys(row.method for row in summary.rows)
    differing = [METHODS[name] for name in present if name in METHODS and METHODS[name].differs]
    return notes + [f"{found.title} differs from its paper: {found.differs}." for found in differing]


def not_run(summary: DatasetSummary) -> list[str]:
    """Rows of the configuration that have no record."""
    known, here = dataset_config(summary.name)["settings"], {row.label for row in summary.rows}
    return [
        row_title(label, entry.get("method", label)) for label, entry in known.items() if label not in here
    ]


def _columns(summary: DatasetSummary) -> list[Column]:
    best = summary.best
    return [
        Column("Method", _method_cell),
        Column("Accuracy %", lambda row: accuracy_cell(row, best)),
        Column(f"{method(summary.reference).title} − method, won–lost", difference_cell),
        Column("Training", _time("train_s")),
        Column("Testing, patches given", _time("test_given_s")),
        Column("Testing, end to end", _time("test_batch_s")),
        Column("One image", _time("test_single_s")),
        Column("Paper: accuracy %", _reported_accuracy),
        Column("Paper: training", _reported("train")),
        Column("Paper: testing", _reported("test")),
    ]


def _method_cell(row: Row) -> Cell:
    marks = [" §"] * (bool(row.records) and row.elsewhere) + [" ‡"] * (
        bool(row.records) and row.few_candidates
    )
    return Cell(row.title + "".join(marks))


def _time(field: str) -> Callable[[Row], Cell]:
    return lambda row: Cell(duration_text(row.mean(field)), row.mean(field))


def _reported_accuracy(row: Row) -> Cell:
    found = row.reported
    if found is None:
        return Cell(NOTHING)
    std = f" ± {found['std']:.2f}" if "std" in found else ""
    mark = "" if found.get("comparable", True) else " †"
    return Cell(f"{found['accuracy']:.2f}{std}{mark}", found["accuracy"])


def _reported(field: str) -> Callable[[Row], Cell]:
    def cell(row: Row) -> Cell:
        value = (row.reported or {}).get(field)
        return Cell(duration_text(value), value)

    return cell
