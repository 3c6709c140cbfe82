"""`dcadl export`: a model file as something that runs without Python."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dcadl.cli.predict import Model
from dcadl.cli.read import PIXEL_TOP, Labelled, image_shape, read_for, refuse_overwrites
from dcadl.cli.terminal import clean_exit, say, size_text

if TYPE_CHECKING:
    from dcadl.model_files import AnyModel


class Pixels(StrEnum):
    """What an exported model takes."""

    FLOAT32 = "float32"
    UINT8 = "uint8"


class Ink(StrEnum):
    """What people draw with on the web page."""

    DARK = "dark"
    LIGHT = "light"


def export(
    model: Model,
    onnx: Annotated[
        Path | None, typer.Option("--onnx", metavar="FILE", help="ONNX: label, scores, probabilities.")
    ] = None,
    c: Annotated[
        Path | None, typer.Option("--c", metavar="FILE.h", help="One C99 header without dependencies.")
    ] = None,
    web: Annotated[
        Path | None, typer.Option("--web", metavar="FILE.html", help="One web page that opens from disk.")
    ] = None,
    data: Annotated[
        str | None,
        typer.Option("--data", help="Labelled pictures not trained on, to calibrate probabilities on."),
    ] = None,
    pixels: Annotated[
        Pixels,
        typer.Option(
            "--pixels", help="What --onnx takes: values from 0 to 1 (float32), or raw bytes 0 to 255 (uint8)."
        ),
    ] = Pixels.FLOAT32,
    int8: Annotated[
        bool,
        typer.Option(
            "--int8",
            help="Weights of --c in 8 bits, rounded by one half of --data, their cost measured on the other.",
        ),
    ] = False,
    ink: Annotated[
        Ink, typer.Option("--ink", help="What people draw with on --web, as in the training pictures.")
    ] = Ink.DARK,
) -> None:
    """Write a model as something that runs without Python."""
    with clean_exit():
        from dcadl.model_files import load_classifier

        if onnx is None and c is None and web is None:
            raise ValueError("nothing to write: give --onnx FILE, --c FILE.h or --web FILE.html.")
        if int8 and (c is None or data is None):
            raise ValueError("--int8 is for --c, and needs --data DATA to measure its loss of accuracy on.")
        refuse_overwrites({"--onnx": onnx, "--c": c, "--web": web}, {"MODEL": model})
        loaded = load_classifier(model)
        samples = None if data is None else read_for(loaded, data)
        if onnx is not None:
            _write_onnx(loaded, onnx, pixels, samples)
        if c is not None:
            _write_c(loaded, c, samples if int8 else None)
        if web is not None:
            _write_web(loaded, web, model.stem, ink, samples)


def _write_onnx(model: AnyModel, path: Path, pixels: Pixels, samples: Labelled | None) -> None:
    from dcadl.deploy.onnx_file import onnx_model

    scale = 1.0 if pixels is Pixels.FLOAT32 else _byte_scale(model)
    _write(path, onnx_model(_program(model, scale, samples), pixels.value).SerializeToString())


def _write_c(model: AnyModel, path: Path, samples: Labelled | None) -> None:
    from dcadl.deploy.c_header import c_header, c_name
    from dcadl.deploy.quantise import in_8_bits

    program, loss = _program(model, _byte_scale(model), None), None
    if samples is not None:
        program, loss = in_8_bits(program, samples.X / _byte_scale(model), samples.y)
    _write(path, c_header(program, c_name(path), loss).encode())
    if loss is not None:
        say(
            f"8 bits: {loss.int8_accuracy:.2%} of {loss.n} samples right; "
            f"with float weights {loss.accuracy:.2%}"
        )


def _write_web(model: AnyModel, path: Path, title: str, ink: Ink, samples: Labelled | None) -> None:
    from dcadl.deploy.web_page import web_page

    _write(path, web_page(_program(model, _byte_scale(model), samples), title, ink.value).encode())


def _program(model: AnyModel, scale: float, samples: Labelled | None) -> Any:
    """The model's operations, calibrated where there are samples to do that on."""
    from dcadl.deploy.calibration import with_temperature
    from dcadl.deploy.translate import operations_of

    program = operations_of(model, scale=scale)
    return program if samples is None else with_temperature(program, samples.X / scale, samples.y)


def _byte_scale(model: AnyModel) -> float:
    """Pictures are trained on as values from 0 to 1 (see `dcadl fit`); rows of features as they are."""
    return 1 / PIXEL_TOP if len(image_shape(model)) > 1 else 1.0


def _write(path: Path, data: bytes) -> None:
    from dcadl.atomic import write_atomically

    write_atomically(path, data)
    say(f"written: {path} ({size_text(len(data))})")
