"""Model cards: what a model is, what it was trained on, how well it does, and what it cannot do."""

from __future__ import annotations

import base64
import io
import re
import unicodedata
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined

from dcadl import __version__
from dcadl.deploy.calibration import expected_calibration_error
from dcadl.deploy.translate import facts_of, operations_of
from dcadl.deploy.web_page import atoms_of
from dcadl.estimators.probabilities import softmax
from dcadl.model_files import AnyModel, classifier_of, features_of

if TYPE_CHECKING:
    from dcadl.estimators.base import Classifier

MOST_CONFUSED = 5
TILE = 40  # pixels of a filter's side in the picture
PER_ROW = 12


class Measured(NamedTuple):
    """How a model does on samples that it was not trained on."""

    data: str
    n: int
    accuracy: float
    calibration_error: float
    confused: list[tuple[str, str, int]]  # true class, answer, how often


def measure(model: AnyModel, X: Any, y: Any, data: str) -> Measured:
    """Accuracy, calibration error and the classes most often taken for one another."""
    y, found = np.asarray(y), np.asarray(model.predict(X))
    pairs, counts = np.unique(
        np.stack([y[y != found].astype(str), found[y != found].astype(str)]), axis=1, return_counts=True
    )
    order = np.argsort(-counts, kind="stable")[:MOST_CONFUSED]
    confused = [(str(pairs[0, i]), str(pairs[1, i]), int(counts[i])) for i in order]
    error = expected_calibration_error(_confidence(model, X), y == found)
    return Measured(data, len(y), float(np.mean(y == found)), error, confused)


def card(
    model: AnyModel, name: str, *, size: int, measured: Measured | None = None, licence: str | None = None
) -> str:
    """
    The model card in Markdown.

    Parameters
    ----------
    model : a fitted classifier of this package, or a Pipeline of SpatialPyramid and one
    name : the card's heading
    size : bytes of the model file
    measured : what `measure` found, or None
    licence : licence of the training data, or None where it is not known
    """
    environment = Environment(  # nosec B701
        loader=PackageLoader("dcadl.deploy", "templates"),
        autoescape=False,  # Markdown, not HTML: `_text` escapes
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_text,
    )
    classifier, facts = classifier_of(model), facts_of(classifier_of(model))
    training = facts.get("training", {})
    return environment.get_template("card.md").render(
        name=name,
        version=__version__,
        method=facts["method"],
        summary=(type(classifier).__doc__ or "").strip().partition("\n")[0],
        classes=[str(label) for label in classifier.classes_],
        shape=" × ".join(map(str, classifier.image_shape_)),
        pictures=features_of(model) is None and len(classifier.image_shape_) > 1,
        color="in colour" if classifier.image_shape_[2:] == (3,) else "in grey",
        longest=getattr(features_of(model), "max_side", None),
        parameters=_parameters(model),
        calibrated=facts["calibrated"],
        training=_training(training),
        expected=facts.get("expected_accuracy"),
        judged=getattr(classifier, "n_judged_", training.get("samples")),
        measured=measured,
        numbers=_numbers(model),
        size=size,
        atoms=_Raw(_atoms_picture(model)),
        licence=licence,
    )


def as_html(markdown: str, title: str) -> str:
    """The card as one HTML page."""
    from markdown_it import MarkdownIt

    body = MarkdownIt("commonmark", {"html": False}).enable("table").render(markdown)
    environment = Environment(loader=PackageLoader("dcadl.deploy", "templates"), autoescape=True)
    return environment.get_template("card.html").render(title=title, body=body)


class _Raw(str):
    """Text that is Markdown already."""


def _text(value: Any) -> Any:
    """A value inside Markdown: what could be markup there is escaped, and it stays on its line."""
    if isinstance(value, _Raw) or not isinstance(value, str):
        return value
    one_line = re.sub(r"\s*[\r\n]+\s*", " ", value)
    plain = "".join(" " if unicodedata.category(c) == "Cc" else c for c in one_line)  # for a terminal, too
    return "".join(f"\\{c}" if c in "\\`*_[]<>#|&!~" else c for c in plain)


def _confidence(model: AnyModel, X: Any) -> np.ndarray:
    """The share that a model gives its answer."""
    if hasattr(model, "predict_proba"):
        return np.asarray(model.predict_proba(X)).max(axis=1)
    scores = np.asarray(model.decision_function(X))
    scores = np.stack([-scores / 2, scores / 2], axis=1) if scores.ndim == 1 else scores
    return softmax(scores, float(getattr(classifier_of(model), "temperature_", 1.0))).max(axis=1)


def _training(record: Mapping[str, Any]) -> dict[str, str]:
    """What the training run wrote down, in words."""
    return {key.replace("_", " "): _in_words(key, value) for key, value in record.items()}


def _in_words(key: str, value: Any) -> str:
    """A value of the record; an accuracy as a percentage, if it is one: a model file may say anything."""
    share = key.endswith("accuracy") and isinstance(value, int | float) and 0 <= value <= 1
    return f"{100 * value:.2f} %" if share else str(value)


def _with_choice(model: Classifier, name: str, value: Any) -> str:
    """A parameter's value; where it left the choice to the fit, what that chose."""
    chosen = (
        len(model.atoms_)
        if name == "n_atoms" and hasattr(model, "atoms_")
        else getattr(model, f"{name}_", value)
    )
    return f"{value}: {chosen}" if value == "auto" and chosen != value else str(value)


def _parameters(model: AnyModel) -> dict[str, str]:
    """Of the classifier, and before it of what makes its features."""
    features, classifier = features_of(model), classifier_of(model)
    made = {} if features is None else {f"features: {k}": str(v) for k, v in features.contents()[0].items()}
    given = facts_of(classifier)["parameters"]
    return made | {name: _with_choice(classifier, name, value) for name, value in given.items()}


def _numbers(model: AnyModel) -> int:
    features, classifier = features_of(model), classifier_of(model)
    learned = {} if features is None else features.contents()[1]
    kept = [getattr(classifier, name) for name in classifier._saved().arrays]
    return sum(value.size for value in (*kept, *learned.values()) if value is not None)


def _atoms_picture(model: AnyModel) -> str:
    """The filters as a picture inside the text; empty where there are none to see."""
    from PIL import Image

    try:
        program = operations_of(model) if features_of(model) is None else None
    except ValueError:
        program = None
    if program is None:
        return ""
    atoms = atoms_of(program)
    m, h, w, c = atoms.shape
    if m == 0 or min(h, w) < 2:
        return ""
    most = np.abs(atoms).max(axis=(1, 2, 3), keepdims=True)
    grey = np.rint(127.5 + 127.5 * atoms / np.where(most > 0, most, 1)).astype(np.uint8)
    rows, across = -(-m // PER_ROW), min(m, PER_ROW)
    zoom = max(1, TILE // max(h, w))
    sheet = Image.new("RGBA", (across * (w * zoom + 2), rows * (h * zoom + 2)))  # gaps show the page's ground
    for i, atom in enumerate(grey):
        tile = Image.fromarray(atom[..., 0] if c != 3 else atom).resize((w * zoom, h * zoom), 0)
        sheet.paste(tile, ((i % PER_ROW) * (w * zoom + 2), (i // PER_ROW) * (h * zoom + 2)))
    file = io.BytesIO()
    sheet.save(file, "png")
    return f"![{m} filters](data:image/png;base64,{base64.b64encode(file.getvalue()).decode()})"
