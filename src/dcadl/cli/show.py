"""`dcadl show`: a picture of a model: its atoms, what it compared, what it confuses."""

from pathlib import Path
from typing import Annotated, Any

import typer

from dcadl.cli.predict import Model
from dcadl.cli.read import refuse_overwrites
from dcadl.cli.terminal import clean_exit, say

ENDINGS = (".png", ".pdf", ".svg")


def show(
    model: Model,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The picture to write. Without: MODEL's name with .png."),
    ] = None,
) -> None:
    """Draw a model: its filters, the structures it chose from, and which classes it confuses."""
    with clean_exit():
        from dcadl.cli.pictures import model_picture, write_figure
        from dcadl.model_files import load_classifier

        path = output or Path(f"{model.stem}.png")
        check_picture(path)
        refuse_overwrites({"--output": path}, {"MODEL": model})
        loaded: Any = load_classifier(model)
        say(f"written: {write_figure(model_picture(loaded, model.stem), path)}")


def check_picture(path: Path) -> None:
    """Refuse a name that is no picture's."""
    if path.suffix not in ENDINGS:
        raise ValueError(f"--output must end in {', '.join(ENDINGS)}; got {path.name}.")
