"""The short table of a README, written between two markers, so that its numbers are never typed."""

from __future__ import annotations

from pathlib import Path

from dcadl.atomic import write_atomically
from dcadl.bench.markdown import accuracy_text, bar
from dcadl.bench.summary import Block

BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"


def short_table(blocks: list[Block]) -> str:
    """Accuracy of each method on each data set, the paper's figure in brackets where it reports one."""
    labels = list(dict.fromkeys(row.label for block in blocks for row in block.rows))
    head = ["Accuracy %", *(block.title for block in blocks)]
    lines = [bar(head), bar(["---"] * len(head))]
    lines += [bar([label, *(_cell(block, label) for block in blocks)]) for label in labels]
    return "\n".join([*lines, "", _note(blocks)])


def update_readme(path: str | Path, blocks: list[Block]) -> None:
    """Put the table between the markers of a Markdown file; all else stays."""
    text = Path(path).read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{path} must hold the lines {BEGIN} and {END}, between which the table goes.")
    write_atomically(Path(path), f"{before}{begin}\n{short_table(blocks)}\n{end}{after}".encode())


def _cell(block: Block, label: str) -> str:
    row = next((row for row in block.rows if row.label == label), None)
    if row is None:
        return "–"
    reported = row.reported
    shown = reported is not None and reported.get("comparable", True) and block.comparable
    return accuracy_text(row) + (f" ({reported['accuracy']:.2f})" if shown and reported else "")


def _note(blocks: list[Block]) -> str:
    repeats = [len(row.records) for block in blocks for row in block.rows if row.records]
    if not repeats:
        return "No run has succeeded yet."
    span = str(max(repeats)) if min(repeats) == max(repeats) else f"{min(repeats)} to {max(repeats)}"
    return (
        f"Mean ± standard deviation over {span} paired splits; in brackets the paper's figure, "
        "where data and protocol are the same."
    )
