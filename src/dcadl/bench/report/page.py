"""One page with every table and figure; all it needs is inside, and its policy forbids the network."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from dcadl.bench.methods import GROUPS
from dcadl.bench.report.cells import LEGEND, ablation_table, footnotes, only_reported, table
from dcadl.bench.report.curves import learning_curves
from dcadl.bench.report.figures import (
    RANGE,
    atom_sheets,
    chart_data,
    confused_pairs,
    convergence,
    loading_error,
    not_drawn,
)
from dcadl.bench.report.findings import findings
from dcadl.bench.report.markdown import grouped
from dcadl.bench.report.summary import LEAST_SEEDS, DatasetSummary, Row

CONTROL = "RandomAtoms"


def page(summaries: list[DatasetSummary], machines: list[str]) -> str:
    """The whole page as HTML."""
    found = learning_curves(summaries)
    curves = [{**each._asdict(), "lines": [line._asdict() for line in each.lines]} for each in found]
    return _template().render(
        style=_asset("page.css"),
        charts=_asset("echarts.min.js"),
        script=_asset("page.js"),
        findings=findings(summaries),
        legend=LEGEND,
        curves=curves,
        sections=[_section(summary) for summary in summaries],
        machines=machines,
        data={"blocks": [chart_data(summary) for summary in summaries], "curves": curves, "groups": GROUPS},
    )


def _template() -> Any:
    """Every value is escaped, but for the page's own style and scripts."""
    loader = PackageLoader("dcadl.bench.report", "template")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template("page.html")


def _asset(name: str) -> str:
    return files("dcadl.bench.report").joinpath("template", name).read_text(encoding="utf-8")


def _section(summary: DatasetSummary) -> dict[str, Any]:
    """What the template shows of one data set."""
    confused = next((row for row in _with_reference_first(summary) if row.records), None)
    own = [row for row in summary.rows if row.label in (summary.reference, CONTROL)]
    return {
        "name": summary.name,
        "title": summary.title,
        "fact": summary.fact,
        "tables": _tables(summary),
        "footnotes": footnotes(summary),
        "failures": [(row.name, error) for row in summary.rows + summary.ablations for error in row.errors],
        "convergence": bool(convergence(summary)),
        "range": RANGE,
        "not_drawn": not_drawn(summary),
        "atoms": atom_sheets(summary),
        "confused": confused.name if confused else None,
        "pairs": confused_pairs(summary, confused) if confused else [],
        "loading_error": loading_error(summary.name),
        "ablations": _grouped_table(summary, own + summary.ablations) if summary.ablations else None,
        "n_ablations": len(summary.ablations),
    }


def _tables(summary: DatasetSummary) -> list[dict[str, Any]]:
    """The ranked rows by group, those of few splits, and those of the paper alone."""
    parts = {
        "accuracy and times": [row for row in summary.rows if row.ranked],
        f"fewer than {LEAST_SEEDS} splits, not ranked": [row for row in summary.rows if not row.ranked],
        "in the paper only": only_reported(summary),
    }
    found = []
    for caption, rows in parts.items():
        if rows:
            heads, cells = table(summary, rows)
            by_label = {row.label: line for row, line in zip(rows, cells)}
            parted = grouped(rows) if rows[0].records or rows[0].errors else [("", rows)]
            groups = [(heading, [by_label[row.label] for row in mine]) for heading, mine in parted]
            found.append({"caption": f"{summary.title}: {caption}", "heads": heads, "groups": groups})
    return found


def _grouped_table(summary: DatasetSummary, rows: list[Row]) -> dict[str, Any]:
    heads, cells = ablation_table(summary, rows)
    return {"caption": f"{summary.title}: ablations", "heads": heads, "groups": [("", cells)]}


def _with_reference_first(summary: DatasetSummary) -> list[Row]:
    return sorted(summary.rows, key=lambda row: row.label != summary.reference)
