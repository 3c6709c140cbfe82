"""`dcadl predict`: picture files in, labels out."""

import csv
import io
import json
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from dcadl.cli.read import ImageForm, MaxPixels, SkipUnreadable, image_form, scaled, unreadable_advice
from dcadl.cli.terminal import advising, cell, clean_exit, note, say

Model = Annotated[
    Path, typer.Argument(metavar="MODEL", help="A file that `dcadl fit` or model.save(...) wrote.")
]


def predict(
    model: Model,
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILES", help="Pictures; they are resized to what the model takes."),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV instead of a table.")] = False,
    skip_unreadable: SkipUnreadable = False,
    max_pixels: MaxPixels = None,
) -> None:
    """Name the class of each picture, the runner-up, and by how much it was beaten."""
    with clean_exit():
        if as_json and as_csv:
            raise ValueError("give --json or --csv, not both.")
        found = _classify(model, files, skip_unreadable, max_pixels)
        show = _json if as_json else _csv if as_csv else _table
        show(found)


def _classify(path: Path, files: list[Path], skip: bool, max_pixels: int | None) -> list[dict[str, Any]]:
    from dcadl import load

    model = load(path)
    with advising(unreadable_advice(skip)):
        files, X = _read(files, image_form(model, path), skip, max_pixels)
    scores = np.asarray(model.decision_function(X))
    if scores.ndim == 1:  # two classes: the second's score less the first's
        scores = np.stack([-scores / 2, scores / 2], axis=1)
    best = np.argsort(-scores, axis=1, kind="stable")[:, :2]
    margins = -np.diff(np.take_along_axis(scores, best, axis=1), axis=1)[:, 0]
    names = [str(c) for c in model.classes_]
    return [
        {"file": str(file), "label": names[i], "margin": round(float(margin), 4), "runner_up": names[j]}
        for file, (i, j), margin in zip(files, best, margins)
    ]


def _read(files: list[Path], form: ImageForm, skip: bool, max_pixels: int | None) -> tuple[list[Path], Any]:
    """The files that can be read, and their pictures; the others are named in a note or in an error."""
    from dcadl.data.errors import unreadable
    from dcadl.data.images import decode
    from dcadl.data.limits import MAX_PIXELS

    limit = MAX_PIXELS if max_pixels is None else max_pixels
    pictures: dict[int, Any] = {}
    bad: list[Exception] = []
    for i, file in enumerate(files):
        try:
            pictures[i] = decode(file, size=form.size, color=form.color, max_pixels=limit)
        except (ValueError, OSError) as error:  # no picture, or no file
            bad.append(error)
    if bad and not (skip and pictures):
        raise unreadable(bad, "")
    for trouble in bad:
        note(f"left out: {trouble}")
    return [files[i] for i in pictures], scaled(np.stack(list(pictures.values())))


def _json(found: list[dict[str, Any]]) -> None:
    say(json.dumps(found, indent=2, ensure_ascii=False))


def _csv(found: list[dict[str, Any]]) -> None:
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(found[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(found)
    typer.echo(text.getvalue(), nl=False)


def _table(found: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table()
    table.add_column("file", overflow="fold")
    table.add_column("label", style="bold")
    table.add_column("margin", justify="right")
    table.add_column("runner-up")
    for row in found:
        cells = (row["file"], row["label"], f"{row['margin']:.3f}", row["runner_up"])
        table.add_row(*map(cell, cells))
    Console().print(table)
