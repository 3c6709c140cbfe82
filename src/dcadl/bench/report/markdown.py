"""The tables in Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dcadl.bench.methods import GROUPS
from dcadl.bench.report.cells import LEGEND, Cell, ablation_table, footnotes, only_reported, table
from dcadl.bench.report.curves import CURVES_FILE, learning_curves
from dcadl.bench.report.findings import findings
from dcadl.bench.report.summary import LEAST_SEEDS, DatasetSummary, Row


def markdown(summaries: list[DatasetSummary], machines: list[str], *more: str) -> str:
    """Findings, all tables, more sections if there are any, and what they were measured on."""
    found = findings(summaries)
    parts = ["# Results", *["\n".join(f"- {escape(sentence)}" for sentence in found)] * bool(found), LEGEND]
    if learning_curves(summaries):
        parts.append(f"![Error against images of each class]({CURVES_FILE})")
    parts += [*(_section(summary) for summary in summaries), *more, _made_on(machines)]
    return "\n\n".join(parts) + "\n"


def bar(texts: Sequence[str]) -> str:
    """A line of a table."""
    return f"| {' | '.join(texts)} |"


def escape(text: str) -> str:
    """Text from outside without power over the page: markup, links, tables and line ends."""
    line = " ".join(text.split())
    return re.sub(r"([\\`*_\[\]<>|])", r"\\\1", line)


def cell_text(cell: Cell) -> str:
    """A cell, bold where it stands out."""
    return f"**{escape(cell.text)}**" if cell.strong else escape(cell.text)


def grouped(rows: list[Row]) -> list[tuple[str, list[Row]]]:
    """Rows under the headings of their groups."""
    found = [(heading, [row for row in rows if row.group == group]) for group, heading in GROUPS.items()]
    return [(heading, mine) for heading, mine in found if mine]


def _section(summary: DatasetSummary) -> str:
    ranked = [row for row in summary.rows if row.ranked]
    others = [row for row in summary.rows if not row.ranked]
    lines = [f"## {summary.title}", ""] + ([summary.fact, ""] if summary.fact else [])
    if ranked:
        lines += _table_lines(summary, ranked)
    if others:
        lines += [""] * bool(ranked) + [f"Fewer than {LEAST_SEEDS} splits, not ranked:", ""]
        lines += _table_lines(summary, others)
    if quoted := only_reported(summary):
        lines += ["", "In the paper only:", "", *_table_lines(summary, quoted, by_group=False)]
    lines += [f"\n{note}" for note in footnotes(summary)]
    lines += _failures(summary.rows)
    if summary.ablations:
        heads, cells = ablation_table(summary, summary.ablations)
        lines += ["", "### Ablations", "", bar(heads), bar(["---"] * len(heads))]
        lines += [bar([cell_text(cell) for cell in line]) for line in cells] + _failures(summary.ablations)
    return "\n".join(lines)


def _table_lines(summary: DatasetSummary, rows: list[Row], *, by_group: bool = True) -> list[str]:
    heads, cells = table(summary, rows)
    by_label = {row.label: line for row, line in zip(rows, cells)}
    lines = [bar(heads), bar(["---"] * len(heads))]
    for heading, mine in grouped(rows) if by_group else [("", rows)]:
        lines += [bar([f"*{heading}*", *[""] * (len(heads) - 1)])] * bool(heading)
        lines += [bar([cell_text(cell) for cell in by_label[row.label]]) for row in mine]
    return lines


def _failures(rows: list[Row]) -> list[str]:
    failed = [f"- {escape(row.name)} failed: {escape(error)}" for row in rows for error in row.errors]
    return ["", *failed] if failed else []


def _made_on(machines: list[str]) -> str:
    return "\n".join(["## Measured on", "", *(f"- {escape(machine)}" for machine in machines)])
