"""The small table of which method suits which pictures, written between two markers like the README's."""

from __future__ import annotations

from dcadl.bench.report.cells import NOTHING
from dcadl.bench.report.markdown import bar, escape
from dcadl.bench.report.summary import LEAST_SEEDS, DatasetSummary, Row
from dcadl.bench.settings import dataset_config

OURS, RIDGE = "LOOADL", "PatchRidge"
HEADS = (
    "Pictures like these",
    "of each class",
    "LOO-ADL %",
    "Patch ridge %",
    "best of all others %",
    "protocol",
)
NOTE = f"""Mean accuracy of n splits, of rows with {LEAST_SEEDS} or more; bold where a column is within one
standard error of the best. "Best of all others" is the best row that is not LOO-ADL, whatever its kind."""


def choosing_table(summaries: list[DatasetSummary]) -> str:
    """One line for each data set that says what its samples are like."""
    lines = [bar(HEADS), bar(["---"] * len(HEADS))]
    lines += [bar(_line(summary)) for summary in summaries if "kind" in dataset_config(summary.name)]
    return "\n".join([*lines, "", NOTE])


def _line(summary: DatasetSummary) -> list[str]:
    known = dataset_config(summary.name)
    others = [row for row in summary.rows if row.ranked and row.method != OURS]
    best = max(others, key=lambda row: row.mean("accuracy") or 0.0, default=None)
    number = known.get("per_class")
    shown = "all" if number is None else f"{number:.0%}" if isinstance(number, float) else str(number)
    cells = [_cell(summary, summary.row(label)) for label in (OURS, RIDGE)]
    named = NOTHING if best is None else f"{escape(best.name)} {_cell(summary, best)}"
    return [known["kind"], shown, *cells, named, f"`{summary.name}`"]


def _cell(summary: DatasetSummary, row: Row | None) -> str:
    if row is None or not row.ranked:
        return NOTHING
    text = f"{100 * (row.mean('accuracy') or 0.0):.1f}, n={len(row.records)}"
    return f"**{text}**" if row.label in summary.best else text
