"""The short table of a README, written between two markers, so that its numbers are never typed."""

from __future__ import annotations

from pathlib import Path

from dcadl.atomic import write_atomically
from dcadl.bench.report.cells import NOTHING, accuracy_cell
from dcadl.bench.report.curves import CURVES_FILE, learning_curves
from dcadl.bench.report.findings import findings
from dcadl.bench.report.markdown import bar, escape, grouped
from dcadl.bench.report.summary import LEAST_SEEDS, DatasetSummary, Row

BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"
MOST_ROWS = 10
# Who stands in the short table, the first ten that have records; all others are in the long ones.
WANTED = (
    *("LOOADL", "DCADL", "PatchRidge", "PCAAtoms", "KernelRidge", "RBFSVM", "HOGSVM", "PCANet", "ConvNet-3"),
    *("DPL", "RandomAtoms", "DADL", "SADL", "LCKSVD", "ConvNet", "ADLSVM", "LogisticRegression"),
)
COLUMNS = (
    *("extended_yaleb-5", "extended_yaleb", "mnist-10", "mnist-500", "digits", "scene15-80x80"),
    *("caltech101", "scene15"),
)


def short_table(summaries: list[DatasetSummary], pictures: str = "") -> str:
    """Findings, and the accuracy of some methods on some data sets, the paper's figure in brackets.

    `pictures` is the folder, as the README sees it, with the learning curves.
    """
    shown = [summary for name in COLUMNS for summary in summaries if summary.name == name] or summaries[:6]
    present = [label for label in WANTED if any(summary.row(label) for summary in shown)][:MOST_ROWS]
    rows = {label: next(row for summary in shown if (row := summary.row(label))) for label in present}
    head = ["Accuracy %", *(summary.title for summary in shown)]
    lines = [f"- {escape(sentence)}" for sentence in findings(summaries)]
    lines += ["", bar(head), bar(["---"] * len(head))]
    for heading, mine in grouped(list(rows.values())):
        lines.append(bar([f"*{heading}*", *[""] * len(shown)]))
        lines += [bar([escape(row.name), *(_cell(summary, row.label) for summary in shown)]) for row in mine]
    lines += ["", _note(shown)]
    if learning_curves(summaries):
        lines += ["", f"![Error of every method against images of each class]({pictures}{CURVES_FILE})"]
    return "\n".join(lines)


def write_between_markers(path: str | Path, table: str) -> None:
    """Put the table between the markers of a Markdown file; all else stays."""
    text = Path(path).read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{path} must hold the lines {BEGIN} and {END}, between which the table goes.")
    write_atomically(path, f"{before}{begin}\n{table}\n{end}{after}".encode())


def _cell(summary: DatasetSummary, label: str) -> str:
    row = summary.row(label)
    if row is None:
        return NOTHING
    cell = accuracy_cell(row, summary.best)
    text = f"**{cell.text}**" if cell.strong else cell.text if row.ranked else f"*{cell.text}*"
    return text + _paper(row, summary)


def _paper(row: Row, summary: DatasetSummary) -> str:
    reported = row.reported
    shown = reported is not None and reported.get("comparable", True) and summary.comparable
    return f" ({reported['accuracy']:.2f})" if shown and reported else ""


def _note(shown: list[DatasetSummary]) -> str:
    if not any(row.records for summary in shown for row in summary.rows):
        return "No run has succeeded yet."
    return (
        "Mean ± standard deviation over n paired splits; bold: the best, and what is within one standard "
        f"error of it; italics: fewer than {LEAST_SEEDS} splits, not ranked; in brackets the paper's figure, "
        "where data and protocol are the same."
    )
