"""`dcadl card`: a model card."""

from pathlib import Path
from typing import Annotated

import typer

from dcadl.cli.predict import Model
from dcadl.cli.read import may_be_trained_on, read_for, refuse_overwrites, samples_to_judge
from dcadl.cli.terminal import clean_exit, say, size_text


def card(
    model: Model,
    output: Annotated[Path, typer.Option("--output", "-o", help="The card to write: .md or .html.")],
    data: Annotated[
        str | None, typer.Option("--data", help="Labelled samples not trained on, to measure the model with.")
    ] = None,
    licence: Annotated[str | None, typer.Option("--licence", help="Licence of the training data.")] = None,
) -> None:
    """Write a model card: data, classes, parameters, accuracy, calibration, filters, limits, licences."""
    with clean_exit():
        from dcadl.atomic import write_atomically
        from dcadl.deploy.card import as_html, measure
        from dcadl.deploy.card import card as write
        from dcadl.model_files import load

        if output.suffix not in (".md", ".html"):
            raise ValueError(f"--output must end in .md or .html; got {output.name}.")
        refuse_overwrites({"--output": output}, {"MODEL": model})
        loaded = load(model)
        measured = None
        if data is not None:
            samples = read_for(loaded, data)
            doubt = ", which may be what it was trained on" * may_be_trained_on(loaded, samples, data)
            measured = measure(loaded, *samples_to_judge(samples), f"{Path(data).name}{doubt}")
        text = write(loaded, model.stem, size=model.stat().st_size, measured=measured, licence=licence)
        page = text if output.suffix == ".md" else as_html(text, model.stem)
        write_atomically(output, page.encode())
        say(f"written: {output} ({size_text(output.stat().st_size)})")
