"""`dcadl predict`: pictures, folders of them or patterns in, labels out."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from dcadl.atomic import check_writable
from dcadl.cli.read import ImageForm, MaxPixels, SkipUnreadable, image_form, unreadable_advice
from dcadl.cli.sorting import copy_into, find_pictures
from dcadl.cli.terminal import FileCell, advising, cell, clean_exit, note, say

if TYPE_CHECKING:
    from dcadl.model_files import AnyModel

UNSURE = "unsure"
AT_ONCE = 256  # pictures in memory
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # what a spreadsheet's formulas begin with

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
    reject: Annotated[
        float | None,
        typer.Option(
            metavar="P", help='Answer "unsure" where the leading class is less probable, such as 0.9.'
        ),
    ] = None,
    skip_unreadable: SkipUnreadable = False,
    max_pixels: MaxPixels = None,
) -> None:
    """Name the class of each picture, its probability, the runner-up, and by how much it was beaten.

    Pictures of any size are brought to what the model takes.
    """
    with clean_exit():
        if as_json and as_csv:
            raise ValueError("give --json or --csv, not both.")
        if reject is not None and not 0 < reject <= 1:
            raise ValueError(f"--reject must be a probability above 0, at most 1; got {reject:g}.")
        files = find_pictures(pictures)
        _check_output(output, [model, *files])
        found = _classify(model, files, skip_unreadable, max_pixels)
        if reject is not None:
            found = _with_unsure(found, reject, model)
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
    found: list[dict[str, Any]] = []
    for some, X in _batches(files, image_form(model, path), skip, max_pixels):
        found += _answers(model, some, X)
    return found


def _answers(model: AnyModel, files: list[Path], X: Any) -> Iterator[dict[str, Any]]:
    """The leading class of each picture and the one behind it; probabilities where the model has them."""
    from dcadl.estimators.probabilities import by_class, softmax
    from dcadl.model_files import classifier_of

    names = [str(c) for c in model.classes_]
    scores = by_class(model.decision_function(X))
    best = np.argsort(-scores, axis=1, kind="stable")[:, :2]
    margins = -np.diff(np.take_along_axis(scores, best, axis=1), axis=1)[:, 0]
    temperature = getattr(classifier_of(model), "temperature_", None)
    probable = None if temperature is None else softmax(scores, temperature).max(axis=1)
    for k, (file, (i, j)) in enumerate(zip(files, best)):
        sure = {} if probable is None else {"probability": round(float(probable[k]), 4)}
        margin = round(float(margins[k]), 4)
        yield {"file": str(file), "label": names[i], **sure, "margin": margin, "runner_up": names[j]}


def _with_unsure(found: list[dict[str, Any]], least: float, path: Path) -> list[dict[str, Any]]:
    """The label of what is less probable replaced; `leading` keeps it."""
    if "probability" not in found[0]:
        raise ValueError(
            f"--reject needs probabilities, and {path} has none: fit it again with `dcadl fit`, or calibrate "
            "it in Python with model.calibrate(X, y)."
        )
    if any(UNSURE in (row["label"], row["runner_up"]) for row in found):
        raise ValueError(
            f"--reject answers {UNSURE!r}, but that is a class of {path}: rename it and fit again."
        )
    return [
        row | {"label": row["label"] if row["probability"] >= least else UNSURE, "leading": row["label"]}
        for row in found
    ]


def read_pictures(files: list[Path], form: ImageForm, max_pixels: int | None) -> Any:
    """All of the pictures as a model takes them; those that cannot be read are an error that names them."""
    return np.concatenate([X for _, X in _batches(files, form, False, max_pixels)])


def _batches(
    files: list[Path], form: ImageForm, skip: bool, max_pixels: int | None
) -> Iterator[tuple[list[Path], Any]]:
    """Files and their pictures, some at a time; those that cannot be read are all named, at the end."""
    from dcadl.data.errors import unreadable
    from dcadl.data.limits import MAX_PIXELS

    limit = MAX_PIXELS if max_pixels is None else max_pixels
    bad: list[Exception] = []
    for start in range(0, len(files), AT_ONCE):
        pictures: dict[Path, Any] = {}
        for file in files[start : start + AT_ONCE]:
            try:
                pictures[file] = form.read(file, limit)
            except (ValueError, OSError) as error:  # no picture, or no file
                bad.append(error)
        if pictures and (skip or not bad):
            yield list(pictures), form.batch(list(pictures.values()))
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
    check_writable(output)


def _write(output: Path, found: list[dict[str, Any]]) -> None:
    from dcadl.atomic import write_atomically

    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in found)
    # A file's name may hold bytes that are no UTF-8: CSV keeps them, JSON has a way to write them.
    data = _csv_bytes(found) if output.suffix == ".csv" else lines.encode(errors="backslashreplace")
    write_atomically(output, data)
    note(f"{len(found)} labels written to {output}")


def _json(found: list[dict[str, Any]]) -> None:
    say(json.dumps(found, indent=2, ensure_ascii=False))


def _csv(found: list[dict[str, Any]]) -> None:
    """Names as they are, for a program that reads them; `typer.echo` would take colours out of them."""
    if sys.stdout.isatty():
        say(_as_csv(found).rstrip("\n"))
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(_csv_bytes(found))


def _csv_bytes(found: list[dict[str, Any]]) -> bytes:
    return _as_csv(found).encode(errors="surrogateescape")


def _as_csv(found: list[dict[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(found[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _no_formula(name, value) for name, value in row.items()} for row in found)
    return text.getvalue()


def _no_formula(name: str, value: Any) -> Any:
    """A text that no spreadsheet runs: they take `=…`, and `+…`, `-…` and `@…`, for formulas.

    A path begins with `./` then, which names the same file; a label with an apostrophe, as spreadsheets
    themselves mark texts. Numbers stay.
    """
    if not isinstance(value, str) or not value.startswith(FORMULA) or _is_number(value):
        return value
    return f"./{value}" if name == "file" else f"'{value}"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _table(found: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table()
    table.add_column("file")
    table.add_column("label", style="bold")
    sure = "probability" in found[0]
    if sure:
        table.add_column("probability", justify="right")
    table.add_column("margin", justify="right")
    table.add_column("runner-up")
    for row in found:
        label = row["label"] if row.get("leading", row["label"]) == row["label"] else _unsure(row)
        probability = (f"{row['probability']:.1%}",) if sure else ()
        cells = (label, *probability, f"{row['margin']:.3f}", row["runner_up"])
        table.add_row(FileCell(row["file"]), *map(cell, cells))
    Console().print(table)


def _unsure(row: dict[str, Any]) -> str:
    return f"{UNSURE} ({row['leading']}?)"
