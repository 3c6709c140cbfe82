"""`dcadl predict`: picture files in, labels out."""

import csv
import io
import json
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from dcadl.cli.inputs import image_form, scaled
from dcadl.cli.terminal import clean_exit

Model = Annotated[
    Path, typer.Argument(metavar="MODEL", help="A file that `dcadl fit` or model.save(...) wrote.")
]


def predict(
    model: Model,
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILES", help="Pictures; they are resized to what the model knows."),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV instead of a table.")] = False,
) -> None:
    """Name the class of each picture, the runner-up, and by how much it was beaten."""
    with clean_exit():
        if as_json and as_csv:
            raise ValueError("give --json or --csv, not both.")
        found = _classify(model, files)
        show = _json if as_json else _csv if as_csv else _table
        show(found)


def _classify(path: Path, files: list[Path]) -> list[dict[str, Any]]:
    from dcadl import load
    from dcadl.data import read_images

    model = load(path)
    form = image_form(model, path)
    X = scaled(read_images(files, size=form.size, color=form.color))
    if not hasattr(model, "decision_function"):
        labels = [str(label) for label in model.predict(X)]
        return [_row(file, label) for file, label in zip(files, labels)]
    scores = np.asarray(model.decision_function(X))
    if scores.ndim == 1:  # two classes: the second's score less the first's
        scores = np.stack([-scores / 2, scores / 2], axis=1)
    best = np.argsort(-scores, axis=1, kind="stable")[:, :2]
    margins = -np.diff(np.take_along_axis(scores, best, axis=1), axis=1)[:, 0]
    names = [str(c) for c in model.classes_]
    return [
        _row(file, names[i], round(float(margin), 4), names[j])
        for file, (i, j), margin in zip(files, best, margins)
    ]


def _row(file: Path, label: str, margin: float | None = None, runner_up: str | None = None) -> dict[str, Any]:
    """One picture's answer; a method without scores knows neither margin nor runner-up."""
    return {"file": str(file), "label": label, "margin": margin, "runner_up": runner_up}


def _json(found: list[dict[str, Any]]) -> None:
    typer.echo(json.dumps(found, indent=2, ensure_ascii=False))


def _csv(found: list[dict[str, Any]]) -> None:
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(found[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(found)
    typer.echo(text.getvalue(), nl=False)


def _table(found: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table()
    table.add_column("file", overflow="fold")
    table.add_column("label", style="bold")
    table.add_column("margin", justify="right")
    table.add_column("runner-up")
    for row in found:
        margin = "" if row["margin"] is None else f"{row['margin']:.3f}"
        cells = (row["file"], row["label"], margin, row["runner_up"] or "")
        table.add_row(*map(Text, cells))  # Text: a name in brackets is no markup
    Console().print(table)
