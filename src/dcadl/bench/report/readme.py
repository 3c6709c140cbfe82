"""The short table of a README, written between two markers, so that its numbers are never typed."""

from __future__ import annotations

from pathlib import Path

from dcadl.atomic import write_atomically
from dcadl.bench.report.markdown import accuracy_text, bar
from dcadl.bench.report.summary import DatasetSummary

BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"


def short_table(summaries: list[DatasetSummary]) -> str:
    """Accuracy of each method on each data set, the paper's figure in brackets where it reports one."""
    labels = list(dict.fromkeys(row.label for summary in summaries for row in summary.rows))
    head = ["Accuracy %", *(summary.title for summary in summaries)]
    lines = [bar(head), bar(["---"] * len(head))]
    lines += [bar([label, *(_cell(summary, label) for summary in summaries)]) for label in labels]
    return "\n".join([*lines, "", _note(summaries)])


def update_readme(path: str | Path, summaries: list[DatasetSummary]) -> None:
    """Put the table between the markers of a Markdown file; all else stays."""
    text = Path(path).read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{path} must hold the lines {BEGIN} and {END}, between which the table goes.")
    write_atomically(Path(path), f"{before}{begin}\n{short_table(summaries)}\n{end}{after}".encode())


def _cell(summary: DatasetSummary, label: str) -> str:
    row = next((row for row in summary.rows if row.label == label), None)
    if row is None:
        return "–"
    reported = row.reported
    shown = reported is not None and reported.get("comparable", True) and summary.comparable
    return accuracy_text(row) + (f" ({reported['accuracy']:.2f})" if shown and reported else "")


def _note(summaries: list[DatasetSummary]) -> str:
    repeats = [len(row.records) for summary in summaries for row in summary.rows if row.records]
    if not repeats:
        return "No run has succeeded yet."
    span = str(max(repeats)) if min(repeats) == max(repeats) else f"{min(repeats)} to {max(repeats)}"
    return (
        f"Mean ± standard deviation over {span} paired splits; in brackets the paper's figure, "
        "where data and protocol are the same."
    )
