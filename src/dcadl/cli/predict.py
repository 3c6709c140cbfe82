"""`dcadl predict`: pictures, folders of them or patterns in, labels out."""

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from dcadl.cli.read import ImageForm, MaxPixels, SkipUnreadable, image_form, scaled, unreadable_advice
from dcadl.cli.sorting import copy_into, find_pictures
from dcadl.cli.terminal import advising, cell, clean_exit, note, say

AT_ONCE = 256  # pictures in memory

Model = Annotated[
    Path, typer.Argument(metavar="MODEL", help="A file that `dcadl fit` or model.save(...) wrote.")
]
Pictures = Annotated[
    list[str],
    typer.Argument(
        metavar="PICTURES", help='Files, folders (read to any depth) or patterns such as "new/*.jpg".'
    ),
]


def predict(
    model: Model,
    pictures: Pictures,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV instead of a table.")] = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write to this file instead: .csv, or .jsonl for JSON lines."),
    ] = None,
    sort_into: Annotated[
        Path | None,
        typer.Option("--sort-into", metavar="DIR", help="Copy every picture into DIR/LABEL; none is moved."),
    ] = None,
    skip_unreadable: SkipUnreadable = False,
    max_pixels: MaxPixels = None,
) -> None:
    """Name the class of each picture, the runner-up, and by how much it was beaten.

    Pictures of any size are brought to what the model takes.
    """
    with clean_exit():
        if as_json and as_csv:
            raise ValueError("give --json or --csv, not both.")
        files = find_pictures(pictures)
        _check_output(output, [model, *files])
        found = _classify(model, files, skip_unreadable, max_pixels)
        if sort_into is not None:
            copied = copy_into(sort_into, [(Path(row["file"]), row["label"]) for row in found])
            note(f"{copied} of {len(found)} pictures copied into sub-folders of {sort_into}")
        if output is not None:
            _write(output, found)
            return
        show = _json if as_json else _csv if as_csv else _table
        show(found)


def _classify(path: Path, files: list[Path], skip: bool, max_pixels: int | None) -> list[dict[str, Any]]:
    from dcadl import load

    model = load(path)
    names = [str(c) for c in model.classes_]
    found = []
    for some, X in _batches(files, image_form(model, path), skip, max_pixels):
        scores = np.asarray(model.decision_function(X))
        if scores.ndim == 1:  # two classes: the second's score less the first's
            scores = np.stack([-scores / 2, scores / 2], axis=1)
        best = np.argsort(-scores, axis=1, kind="stable")[:, :2]
        margins = -np.diff(np.take_along_axis(scores, best, axis=1), axis=1)[:, 0]
        found += [
            {"file": str(file), "label": names[i], "margin": round(float(margin), 4), "runner_up": names[j]}
            for file, (i, j), margin in zip(some, best, margins)
        ]
    return found


def read_pictures(files: list[Path], form: ImageForm, max_pixels: int | None) -> Any:
    """All of the pictures as a model takes them; those that cannot be read are an error that names them."""
    return np.concatenate([X for _, X in _batches(files, form, False, max_pixels)])


def _batches(
    files: list[Path], form: ImageForm, skip: bool, max_pixels: int | None
) -> Iterator[tuple[list[Path], Any]]:
    """Files and their pictures, some at a time; those that cannot be read are all named, at the end."""
    from dcadl.data.errors import unreadable
    from dcadl.data.images import decode
    from dcadl.data.limits import MAX_PIXELS

    limit = MAX_PIXELS if max_pixels is None else max_pixels
    bad: list[Exception] = []
    for start in range(0, len(files), AT_ONCE):
        pictures: dict[Path, Any] = {}
        for file in files[start : start + AT_ONCE]:
            try:
                pictures[file] = decode(file, size=form.size, color=form.color, max_pixels=limit)
            except (ValueError, OSError) as error:  # no picture, or no file
                bad.append(error)
        if pictures and (skip or not bad):
            yield list(pictures), scaled(np.stack(list(pictures.values())))
    if bad and not (skip and len(bad) < len(files)):
        with advising(unreadable_advice(skip)):
            raise unreadable(bad, "")
    for trouble in bad:
        note(f"left out: {trouble}")


def _check_output(output: Path | None, read: list[Path]) -> None:
    if output is None:
        return
    if output.suffix not in (".csv", ".jsonl"):
        raise ValueError(f"--output must end in .csv or .jsonl; got {output.name}.")
    if not output.resolve().parent.is_dir():
        raise ValueError(f"folder of --output not found: {output.resolve().parent}")
    if any(output.resolve() == path.resolve() for path in read):
        raise ValueError(f"--output would overwrite {output}, which is read. Give another name.")


def _write(output: Path, found: list[dict[str, Any]]) -> None:
    from dcadl.atomic import write_atomically

    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in found)
    write_atomically(output, (_as_csv(found) if output.suffix == ".csv" else lines).encode())
    note(f"{len(found)} labels written to {output}")


def _json(found: list[dict[str, Any]]) -> None:
    say(json.dumps(found, indent=2, ensure_ascii=False))


def _csv(found: list[dict[str, Any]]) -> None:
    typer.echo(_as_csv(found), nl=False)


def _as_csv(found: list[dict[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(found[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(found)
    return text.getvalue()


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
