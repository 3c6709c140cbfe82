"""What a model says of samples, as it goes out: answers and explanations, each of one model, whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from pydantic import BaseModel

from dcadl.deploy.evidence import evidence
from dcadl.deploy.operations import Program
from dcadl.deploy.server.limits import Refusal
from dcadl.deploy.translate import operations_of
from dcadl.estimators.loaded import one_line
from dcadl.estimators.probabilities import softmax

if TYPE_CHECKING:
    from dcadl.estimators.base import Classifier


class Answer(BaseModel):
    """What a model says of one sample."""

    label: str
    scores: dict[str, float]
    probabilities: dict[str, float]


class Explanation(BaseModel):
    """Evidence of every pixel for the label, less that for all classes on average; rows of columns."""

    label: str
    evidence: list[list[float]]


class Loaded(NamedTuple):
    """A model and what is derived from it; a file that is replaced gives another one."""

    model: Classifier
    program: Program | None  # None: a method that is no list of operations
    names: list[str]  # of the classes
    temperature: float

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """The shape of one sample."""
        return tuple(self.model.image_shape_)


def loaded(model: Classifier) -> Loaded:
    """The model with all that answers need."""
    program: Program | None
    try:
        program = operations_of(model)
    except ValueError:
        program = None
    names = [str(label) for label in model.classes_]
    return Loaded(model, program, names, float(getattr(model, "temperature_", 1.0)))


def answers(given: Loaded, X: np.ndarray) -> list[Answer]:
    """Label, scores and probabilities of each sample."""
    scores = _scores(given, X)
    return [
        Answer.model_construct(
            label=given.names[int(row.argmax())],
            scores=dict(zip(given.names, row.tolist())),
            probabilities=dict(zip(given.names, shares.tolist())),
        )
        for row, shares in zip(scores, softmax(scores, given.temperature))
    ]


def explanations(given: Loaded, X: np.ndarray) -> list[Explanation]:
    """Where in each sample the evidence for its label lies."""
    best = _scores(given, X).argmax(axis=1)
    return [_explanation(given, sample, int(k)) for sample, k in zip(X, best)]


def _explanation(given: Loaded, sample: np.ndarray, k: int) -> Explanation:
    """Of one sample: evidence takes all maps of it at once, megabytes each."""
    assert given.program is not None
    found = evidence(given.program, sample[None])[0]
    shown = found[..., k] - found.mean(axis=-1)
    return Explanation.model_construct(label=given.names[k], evidence=shown.tolist())


def _scores(given: Loaded, X: np.ndarray) -> np.ndarray:
    """Scores of every class, (n, C), also where there are two."""
    if X.shape[1:] != given.sample_shape:  # the model was replaced while the request waited
        raise Refusal(409, f"The model was replaced and now takes samples of shape {given.sample_shape}.")
    try:
        scores = np.asarray(given.model.decision_function(X))
    except ValueError as error:  # a model from outside may overflow on samples that are as they must be
        raise Refusal(422, one_line(error)) from None
    return np.stack([-scores / 2, scores / 2], axis=1) if scores.ndim == 1 else scores
