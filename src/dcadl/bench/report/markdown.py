"""Tables in the paper's layout, in Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from dcadl.bench.report.summary import LEVEL, DatasetSummary, Row
from dcadl.bench.settings import dataset_config

COLUMNS = (
    "Method (atoms)",
    "Accuracy %",
    "DCADL − method",
    "Training s",
    "Testing s, patches given",
    "Testing s, end to end",
    "One image s",
    "Repeats",
    "Paper: accuracy %",
    "Paper: training s",
    "Paper: testing s",
)
ABLATION_COLUMNS = ("Variant", "Accuracy %", "DCADL − variant", "Training s", "Repeats")
LEGEND = f"""Mean ± standard deviation over repeats; every method sees the same splits. DCADL − method is
the paired difference in accuracy, bold where it is significant (p < {LEVEL}, corrected resampled t-test).
Times are means over repeats, testing times per image: "patches given" is one batch with patches cut
beforehand, as the paper's authors took it; "end to end" starts from raw images. The paper's figures stand in
their own columns and come from another machine."""


def markdown(summaries: list[DatasetSummary], machines: list[str], *more: str) -> str:
    """All tables, more sections if there are any, and what they were measured on."""
    parts = ["# Results", LEGEND, *(_section(summary) for summary in summaries), *more, _made_on(machines)]
    return "\n\n".join(parts) + "\n"


def accuracy_text(row: Row) -> str:
    """Mean ± standard deviation over seeds, in per cent."""
    mean, std = row.mean("accuracy"), row.std("accuracy")
    if mean is None:
        return "failed"
    return f"{100 * mean:.2f}" + ("" if std is None else f" ± {100 * std:.2f}")


def difference_text(row: Row) -> str:
    """The paired difference, bold where it is significant."""
    if row.difference is None:
        return "–"
    text = f"{row.difference.mean:+.2f}"
    return f"**{text}**" if row.difference.p < LEVEL else text


def reported_text(row: Row) -> tuple[str, str, str]:
    """The paper's accuracy, training and testing time."""
    found = row.reported
    if found is None:
        return "–", "–", "–"
    std = f" ± {found['std']:.2f}" if "std" in found else ""
    mark = "" if found.get("comparable", True) else " †"
    return f"{found['accuracy']:.2f}{std}{mark}", _plain(found.get("train")), small(found.get("test"))


def small(value: float | None) -> str:
    """A short time in two digits."""
    return "–" if value is None else f"{value:.2g}" if value >= 1e-3 else f"{value:.1e}"


def _section(summary: DatasetSummary) -> str:
    lines = [f"## {summary.title}", ""]
    if summary.fact:
        lines += [summary.fact, ""]
    lines += [bar(COLUMNS), bar(["---"] * len(COLUMNS))]
    lines += [bar(cells(row)) for row in summary.rows] + [bar(c) for c in only_reported(summary)]
    notes = footnotes(summary)
    lines += ["", *notes] if notes else []
    lines += _failures(summary.rows)
    if summary.ablations:
        lines += ["", "### Ablations", "", bar(ABLATION_COLUMNS), "|" + "---|" * len(ABLATION_COLUMNS)]
        lines += [bar(ablation_cells(row)) for row in summary.ablations]
        lines += _failures(summary.ablations)
    return "\n".join(lines)


def cells(row: Row) -> list[str]:
    """A row of the table, as texts in the order of COLUMNS."""
    times = [small(row.mean(name)) for name in ("test_given_s", "test_batch_s", "test_single_s")]
    ours = [row.title, accuracy_text(row), difference_text(row), _plain(row.mean("train_s")), *times]
    return [*ours, str(len(row.records)), *reported_text(row)]


def only_reported(summary: DatasetSummary) -> list[list[str]]:
    """Rows of the paper's table that nobody ran here."""
    here = {row.label for row in summary.rows}
    rows = []
    for found in dataset_config(summary.name)["results"]:
        if found.get("label") not in here:
            atoms = f" ({found['atoms']})" if "atoms" in found else ""
            figures = reported_text(Row("", None, [], [], found, None))
            rows.append([found["name"] + atoms, *["–"] * 6, "0", *figures])
    return rows


def bar(texts: Sequence[str]) -> str:
    """A line of a table."""
    return f"| {' | '.join(texts)} |"


def ablation_cells(row: Row) -> list[str]:
    """A row of the ablations, as texts in the order of ABLATION_COLUMNS."""
    trained = _plain(row.mean("train_s"))
    return [row.label, accuracy_text(row), difference_text(row), trained, str(len(row.records))]


def footnotes(summary: DatasetSummary) -> list[str]:
    """What must be said of figures that the paper only quotes."""
    found = dataset_config(summary.name)["results"]
    return [f"† {r['name']}: {r['fact']}." for r in found if "fact" in r]


def _failures(rows: list[Row]) -> list[str]:
    failed = [f"- {row.label} failed: {error}" for row in rows for error in row.errors]
    return ["", *failed] if failed else []


def _made_on(machines: list[str]) -> str:
    return "\n".join(["## Measured on", "", *(f"- {machine}" for machine in machines)])


def _plain(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"
