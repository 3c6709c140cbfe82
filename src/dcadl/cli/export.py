"""`dcadl export`: a model file as something that runs without Python."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from dcadl.cli.predict import Model
from dcadl.cli.read import PIXEL_TOP, image_shape, read_for, refuse_overwrites
from dcadl.cli.terminal import clean_exit, size_text


class Pixels(StrEnum):
    """What an exported model takes."""

    FLOAT32 = "float32"
    UINT8 = "uint8"


def export(
    model: Model,
    onnx: Annotated[
        Path | None, typer.Option("--onnx", metavar="FILE", help="ONNX: label, scores, probabilities.")
    ] = None,
    c: Annotated[
        Path | None, typer.Option("--c", metavar="FILE.h", help="One C99 header without dependencies.")
    ] = None,
    pixels: Annotated[
        Pixels,
        typer.Option(
            "--pixels", help="What --onnx takes: values from 0 to 1 (float32), or raw bytes 0 to 255 (uint8)."
        ),
    ] = Pixels.FLOAT32,
    int8: Annotated[
        bool, typer.Option("--int8", help="Weights of --c in 8 bits; --data measures what that costs.")
    ] = False,
    data: Annotated[
        str | None, typer.Option("--data", help="Labelled pictures, to measure the loss of --int8 on.")
    ] = None,
) -> None:
    """Write a model as something that runs without Python."""
    with clean_exit():
        from dcadl import load

        if onnx is None and c is None:
            raise ValueError("nothing to write: give --onnx FILE or --c FILE.h.")
        if int8 and (c is None or data is None):
            raise ValueError("--int8 is for --c, and needs --data DATA to measure its loss of accuracy on.")
        refuse_overwrites({"--onnx": onnx, "--c": c}, {"MODEL": model})
        loaded = load(model)
        if onnx is not None:
            _write_onnx(loaded, onnx, pixels)
        if c is not None:
            _write_c(loaded, c, data if int8 else None)


def _write_onnx(model: Any, path: Path, pixels: Pixels) -> None:
    from dcadl.deploy.onnx_file import to_onnx

    to_onnx(model, path, dtype=pixels.value, scale=1.0 if pixels is Pixels.FLOAT32 else _byte_scale(model))
    _report(path)


def _write_c(model: Any, path: Path, data: str | None) -> None:
    from dcadl.deploy.c_header import to_c

    scale, check = _byte_scale(model), None
    if data is not None:
        samples = read_for(model, data)
        check = (samples.X / scale, samples.y)
    loss = to_c(model, path, scale=scale, int8_check=check)
    _report(path)
    if loss is not None:
        typer.echo(
            f"8 bits: {loss.int8_accuracy:.2%} of {loss.n} samples right; "
            f"with float weights {loss.accuracy:.2%}"
        )


def _byte_scale(model: Any) -> float:
    """Pictures are trained on as values from 0 to 1 (see `dcadl fit`); rows of features as they are."""
    return 1 / PIXEL_TOP if len(image_shape(model)) > 1 else 1.0


def _report(path: Path) -> None:
    typer.echo(f"written: {path} ({size_text(path.stat().st_size)})")
