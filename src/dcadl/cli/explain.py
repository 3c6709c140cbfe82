"""`dcadl explain`: a picture that shows why pictures are named as they are."""

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from dcadl.cli.predict import Model, Pictures, read_pictures
from dcadl.cli.read import MaxPixels, image_form, refuse_overwrites
from dcadl.cli.show import check_picture
from dcadl.cli.sorting import find_pictures
from dcadl.cli.terminal import clean_exit, say

MOST = 12  # pictures on one page


def explain(
    model: Model,
    pictures: Pictures,
    output: Annotated[Path, typer.Option("--output", "-o", help="The picture to write.")] = Path("why.png"),
    max_pixels: MaxPixels = None,
) -> None:
    """Draw where in pictures the evidence for their two leading classes lies, and which atoms gave it."""
    with clean_exit():
        from dcadl.cli.pictures import write_figure
        from dcadl.model_files import load_classifier
        from dcadl.plot import EvidenceDisplay

        check_picture(output)
        files = find_pictures(pictures)
        if len(files) > MOST:
            raise ValueError(f"at most {MOST} pictures are explained on one page; got {len(files)}.")
        refuse_overwrites({"--output": output}, {"MODEL": model, **{str(file): file for file in files}})
        loaded = load_classifier(model)
        X = read_pictures(files, image_form(loaded, model), max_pixels)
        explanation = loaded.explain(X)
        write_figure(EvidenceDisplay(explanation).plot().figure_, output)
        for file, scores in zip(files, explanation.scores):
            first, second = np.argsort(-scores, kind="stable")[:2]
            margin = scores[first] - scores[second]
            names = explanation.classes
            say(f"{file}: {names[first]}, {margin:.3f} ahead of {names[second]}")
        say(f"written: {output}")
