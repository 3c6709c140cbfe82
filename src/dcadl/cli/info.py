"""`dcadl info`: what a model file holds."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from dcadl.cli.predict import Model
from dcadl.cli.read import image_shape
from dcadl.cli.summary import accuracy_line, choice_sentence, expected_judgement
from dcadl.cli.terminal import cell, clean_exit, say, size_text, times_text

CLASSES_SHOWN = 12


def info(
    model: Model,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Say what a model file holds: method, classes, images, patches, parameters, size."""
    with clean_exit():
        facts = describe(model)
        show = _json if as_json else _table
        show(facts)


def describe(path: Path) -> dict[str, Any]:
    """The facts of a model file; the arrays are read and checked too."""
    from dcadl import load
    from dcadl.estimators.files import read_header
    from dcadl.model_files import classifier_of

    model, header = classifier_of(load(path)), read_header(path)
    facts: dict[str, Any] = {
        "file": str(path),
        "bytes": path.stat().st_size,
        "format": header["format"],
        "method": header["class"],
        "classes": [str(c) for c in model.classes_],
        "sample_shape": list(image_shape(model)),
        "params": header["params"],
    }
    if "features" in header:
        facts["features"] = header["features"]["params"]
    if hasattr(model, "grid_"):
        facts["patches"] = {
            "shape": list(model.grid_.patch),
            "stride": list(model.grid_.stride),
            "grid": list(model.grid_.counts),
        }
    if hasattr(model, "n_iter_"):
        facts["passes"] = int(model.n_iter_)
    if choice_sentence(model):
        facts["chosen"] = choice_sentence(model)
    if (judged := expected_judgement(model)) is not None:
        facts["expected_accuracy"] = accuracy_line(judged)
    return facts | {"training": getattr(model, "training_", {})}


def _json(facts: dict[str, Any]) -> None:
    say(json.dumps(facts, indent=2, ensure_ascii=False))


def _table(facts: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in _lines(facts):
        table.add_row(name, cell(value))
    Console().print(table)


def _lines(facts: dict[str, Any]) -> list[tuple[str, str]]:
    classes = facts["classes"]
    more = f" … and {len(classes) - CLASSES_SHOWN} more" if len(classes) > CLASSES_SHOWN else ""
    lines = [
        ("model", f"{facts['method']}, {size_text(facts['bytes'])}, format {facts['format']}"),
        ("classes", f"{len(classes)}: {', '.join(classes[:CLASSES_SHOWN])}{more}"),
        ("samples", times_text(facts["sample_shape"])),
    ]
    if "features" in facts:
        made = ", ".join(f"{name}={value!r}" for name, value in facts["features"].items())
        lines.append(("features", f"SpatialPyramid({made})"))
    if "patches" in facts:
        shape, stride, grid = (times_text(facts["patches"][key]) for key in ("shape", "stride", "grid"))
        lines.append(("patches", f"{shape}, stride {stride}: {grid} places"))
    if "passes" in facts:
        lines.append(("passes", str(facts["passes"])))
    lines += [(key.replace("_", " "), facts[key]) for key in ("chosen", "expected_accuracy") if key in facts]
    if facts["training"]:
        told = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in facts["training"].items())
        lines.append(("training", told))
    return [*lines, ("parameters", ", ".join(f"{name}={value!r}" for name, value in facts["params"].items()))]
