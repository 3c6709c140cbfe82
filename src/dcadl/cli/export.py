"""`dcadl export`: a model file as something that runs without Python."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from dcadl.cli.predict import Model
from dcadl.cli.read import PIXEL_TOP
from dcadl.cli.terminal import clean_exit, size_text


class Pixels(StrEnum):
    """What an exported model takes."""

    FLOAT32 = "float32"
    UINT8 = "uint8"


def export(
    model: Model,
    onnx: Annotated[
        Path | None,
        typer.Option("--onnx", metavar="FILE", help="An ONNX file: label, scores, probabilities."),
    ] = None,
    pixels: Annotated[
        Pixels,
        typer.Option(
            "--pixels", help="What --onnx takes: values from 0 to 1 (float32), or raw bytes 0 to 255 (uint8)."
        ),
    ] = Pixels.FLOAT32,
) -> None:
    """Write a model as something that runs without Python."""
    with clean_exit():
        from dcadl import load

        if onnx is None:
            raise ValueError("nothing to write: give --onnx FILE.")
        loaded = load(model)
        _write_onnx(loaded, onnx, pixels)


def _write_onnx(model: Any, path: Path, pixels: Pixels) -> None:
    from dcadl.deploy.onnx_file import to_onnx

    # pictures are trained on as values from 0 to 1: see `dcadl fit`
    to_onnx(model, path, dtype=pixels.value, scale=1.0 if pixels is Pixels.FLOAT32 else 1 / PIXEL_TOP)
    _report(path)


def _report(path: Path) -> None:
    typer.echo(f"written: {path} ({size_text(path.stat().st_size)})")
