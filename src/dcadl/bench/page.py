"""One page with every table and figure; all it needs is inside, and its policy forbids the network."""

from __future__ import annotations

import json
from html import escape
from importlib.resources import files

from dcadl.bench.figures import (
    RANGE,
    atom_sheets,
    chart_data,
    confused_pairs,
    convergence,
    loading_error,
    not_drawn,
)
from dcadl.bench.markdown import COLUMNS, LEGEND, accuracy_text, cells, difference_text, only_reported, small
from dcadl.bench.settings import dataset
from dcadl.bench.summary import REFERENCE, Block, Row

ABLATION_COLUMNS = ("Variant", "Accuracy %", "DCADL − variant", "Training s", "Repeats")


def page(blocks: list[Block], machines: list[str]) -> str:
    """The whole page as HTML."""
    data = json.dumps([chart_data(block) for block in blocks]).replace("<", "\\u003c")
    parts = {
        "style": _asset("page.css"),
        "contents": "".join(f'<a href="#{b.name}">{escape(b.title)}</a>' for b in blocks),
        "legend": escape(LEGEND),
        "sections": "\n".join(_section(block) for block in blocks),
        "machines": "".join(f"<li>{escape(machine)}</li>" for machine in machines),
        "data": data,
        "charts": _asset("echarts.min.js"),
        "script": _asset("page.js"),
    }
    text = _asset("page.html")
    for name, part in parts.items():
        text = text.replace(f"<!--{name}-->", part, 1)
    return text


def _asset(name: str) -> str:
    return files("dcadl.bench").joinpath("page", name).read_text(encoding="utf-8")


def _section(block: Block) -> str:
    title = escape(block.title)
    body = [f'<section id="{block.name}"><h2>{title}</h2>', f"<p>{escape(block.fact)}</p>"]
    rows = [cells(row) for row in block.rows] + only_reported(block)
    body += [_table(f"{block.title}: accuracy and times", COLUMNS, rows), _facts(block), _failures(block)]
    body += [_chart(block, "scatter", f"Accuracy against time of each method on {block.title}", "time")]
    body += [_chart(block, "boxes", f"Accuracy over seeds of each method on {block.title}, as box plots")]
    body += [
        _convergence(block),
        _atoms(block),
        _chart(block, "confusion", f"Confusion matrix on {block.title}", "method"),
    ]
    body += [_pairs(block), _ablations(block), "</section>"]
    return "\n".join(body)


def _table(caption: str, columns: tuple[str, ...], rows: list[list[str]]) -> str:
    heads = "".join(f'<th scope="col"><button type="button">{escape(name)}</button></th>' for name in columns)
    lines = "".join(f"<tr>{_row(texts)}</tr>" for texts in rows)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(caption)}">'
        f'<table class="sortable"><caption>{escape(caption)}</caption>'
        f"<thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table></div>"
    )


def _row(texts: list[str]) -> str:
    head, *rest = (_bold(text) for text in texts)
    return f'<th scope="row">{head}</th>' + "".join(f"<td>{text}</td>" for text in rest)


def _bold(text: str) -> str:
    inner = text.removeprefix("**").removesuffix("**")
    return f"<strong>{escape(inner)}</strong>" if inner != text else escape(text)


def _chart(block: Block, kind: str, name: str, choice: str | None = None) -> str:
    picker = f"<label>{choice.capitalize()} <select></select></label>" if choice else ""
    return (
        f'<figure data-block="{block.name}" data-kind="{kind}">'
        f"<figcaption>{escape(name)} {picker}</figcaption>"
        f'<div class="chart {kind}" role="img" aria-label="{escape(name)}"></div></figure>'
    )


def _convergence(block: Block) -> str:
    if not convergence(block):
        return ""
    low, high = RANGE
    name = (
        f"Objective of each iterative method on {block.title}, step by step: how far above its lowest value, "
        f"as a share of that value; clipped to {low:g} … {high:g}, broken at the lowest value itself"
    )
    outside = ", ".join(not_drawn(block))
    return _chart(block, "convergence", f"{name}. Nothing to draw there: {outside}" if outside else name)


def _facts(block: Block) -> str:
    found = [r for r in dataset(block.name)["results"] if "fact" in r]
    return "".join(f"<p>† {escape(r['name'])}: {escape(r['fact'])}.</p>" for r in found)


def _failures(block: Block) -> str:
    found = [(row.label, error) for row in block.rows + block.ablations for error in row.errors]
    items = "".join(
        f"<li>{escape(label)} failed: <code>{escape(error)}</code></li>" for label, error in found
    )
    return f'<ul class="failed">{items}</ul>' if items else ""


def _atoms(block: Block) -> str:
    figures = [
        f'<figure><img src="{uri}" alt="{what} of {escape(label)}, grey is zero">'
        f"<figcaption>{escape(label)}, {what} of the first seed</figcaption></figure>"
        for label, uri, what in atom_sheets(block)
    ]
    return f'<h3>Filters</h3><div class="tiles">{"".join(figures)}</div>' if figures else ""


def _pairs(block: Block) -> str:
    row = next((row for row in block.rows if row.label == REFERENCE and row.records), None)
    row = row or next((row for row in block.rows if row.records), None)
    pairs = confused_pairs(block, row) if row else []
    if row is None or not pairs:
        return ""
    items = "".join(_pair(p["true"], p["found"], p["count"], p["example"], p["typical"]) for p in pairs)
    error = loading_error(block.name)
    fact = f"Without names and pictures: the data set could not be loaded here ({error})."
    note = f"<p>{fact}</p>" if error else ""
    return f'<h3>Pairs that {escape(row.label)} confuses most</h3>{note}<ul class="pairs">{items}</ul>'


def _pair(true: str, found: str, count: int, example: str | None, typical: str | None) -> str:
    true, found = escape(true), escape(found)
    images = ""
    if example and typical:
        images = (
            f'<img src="{example}" alt="An example of {true} taken for {found}">'
            f'<img src="{typical}" alt="An example of {found}">'
        )
    often = "once" if count == 1 else f"{count} times"
    return f"<li>{images}<span>{true} taken for {found}: {often} over all seeds</span></li>"


def _ablations(block: Block) -> str:
    if not block.ablations:
        return ""
    own = [row for row in block.rows if row.label in (REFERENCE, "RandomAtoms")]
    table = _table(
        f"{block.title}: ablations", ABLATION_COLUMNS, [_ablation(r) for r in own + block.ablations]
    )
    name = f"Accuracy against number of atoms on {block.title}: learned and random atoms, each normalisation"
    folded = f"<details><summary>All {len(block.ablations)} variants</summary>{table}</details>"
    return f"<h3>Ablations</h3>{_chart(block, 'ablations', name, 'codes')}{folded}"


def _ablation(row: Row) -> list[str]:
    return [
        row.label,
        accuracy_text(row),
        difference_text(row),
        small(row.mean("train_s")),
        str(len(row.records)),
    ]
