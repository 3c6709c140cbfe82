"""One page with every table and figure; all it needs is inside, and its policy forbids the network."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from dcadl.bench.report.figures import (
    RANGE,
    atom_sheets,
    chart_data,
    confused_pairs,
    convergence,
    loading_error,
    not_drawn,
)
from dcadl.bench.report.markdown import (
    ABLATION_COLUMNS,
    COLUMNS,
    LEGEND,
    ablation_cells,
    cells,
    footnotes,
    only_reported,
)
from dcadl.bench.report.summary import REFERENCE, DatasetSummary, Row

CONTROL = "RandomAtoms"


def page(summaries: list[DatasetSummary], machines: list[str]) -> str:
    """The whole page as HTML."""
    return _template().render(
        style=_asset("page.css"),
        charts=_asset("echarts.min.js"),
        script=_asset("page.js"),
        legend=LEGEND,
        sections=[_section(summary) for summary in summaries],
        machines=machines,
        data=[chart_data(summary) for summary in summaries],
    )


def _template() -> Any:
    """Every value is escaped, but for the page's own style and scripts."""
    loader = PackageLoader("dcadl.bench.report", "template")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["bold"] = _bold
    return environment.get_template("page.html")


def _asset(name: str) -> str:
    return files("dcadl.bench.report").joinpath("template", name).read_text(encoding="utf-8")


def _bold(text: str) -> tuple[str, bool]:
    """A cell of a Markdown table without its stars, and whether it had any."""
    inner = text.removeprefix("**").removesuffix("**")
    return inner, inner != text


def _section(summary: DatasetSummary) -> dict[str, Any]:
    """What the template shows of one data set."""
    confused = next((row for row in _with_reference_first(summary.rows) if row.records), None)
    own = [row for row in summary.rows if row.label in (REFERENCE, CONTROL)]
    return {
        "name": summary.name,
        "title": summary.title,
        "fact": summary.fact,
        "columns": COLUMNS,
        "rows": [cells(row) for row in summary.rows] + only_reported(summary),
        "footnotes": footnotes(summary),
        "failures": [(row.label, error) for row in summary.rows + summary.ablations for error in row.errors],
        "convergence": bool(convergence(summary)),
        "range": RANGE,
        "not_drawn": not_drawn(summary),
        "atoms": atom_sheets(summary),
        "confused": confused.label if confused else None,
        "pairs": confused_pairs(summary, confused) if confused else [],
        "loading_error": loading_error(summary.name),
        "ablation_columns": ABLATION_COLUMNS,
        "ablations": [ablation_cells(row) for row in own + summary.ablations] if summary.ablations else [],
        "n_ablations": len(summary.ablations),
    }


def _with_reference_first(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: row.label != REFERENCE)
