"""Why a model says what it says: evidence of pixels and of atoms, each adding up to the scores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dcadl.deploy.evidence import evidence
from dcadl.deploy.operations import HashedLinear, Linear, Program
from dcadl.deploy.reference import apply
from dcadl.deploy.translate import operations_of
from dcadl.estimators.validation import predict_rows

if TYPE_CHECKING:
    from dcadl.estimators.base import Classifier


class Explanation(NamedTuple):
    """Evidence for every class; with the intercept it adds up to the score.

    A pixel's evidence is its share of the patches that it lies in. `by_atom` says the same by atoms instead
    of pixels; it has no rows where a method has no atoms.
    """

    images: np.ndarray  # (n, H, W) or (n, H, W, channels); signals are one row high
    evidence: np.ndarray  # (n, H, W, C)
    by_atom: np.ndarray  # (n, m, C)
    intercept: np.ndarray  # (C,)
    scores: np.ndarray  # (n, C)
    classes: np.ndarray  # (C,)
    atoms: np.ndarray  # (m, h, w[, channels])


def explain(model: Classifier, X: Any) -> Explanation:
    """The evidence in samples X for each class of a fitted model.

    Parameters
    ----------
    model : a fitted classifier of this package whose score is a sum over places of the picture
    X : array-like, as in `predict`

    Returns
    -------
    Explanation

    Raises
    ------
    ValueError
        For methods whose scores are no such sums: DPL, LCKSVD, DADL.
    """
    try:
        program = operations_of(model)
    except ValueError as error:
        raise ValueError(str(error).replace("cannot be exported", "has no evidence maps")) from None
    rows = np.asarray(predict_rows(model, X, model.image_shape_))
    height, width, channels = program.image
    images = rows.reshape(-1, height, width, *([channels] if channels > 1 else []))
    maps = evidence(program, rows)
    last = program.operations[-2]
    assert isinstance(last, Linear | HashedLinear)
    intercept = np.asarray(last.intercept, dtype=np.float64)
    scores = maps.sum(axis=(1, 2)) + intercept
    by_atom, atoms = _by_atom(model, program, rows)
    return Explanation(images, maps, by_atom, intercept, scores, np.asarray(model.classes_), atoms)


def _by_atom(model: Classifier, program: Program, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each atom's part of each score, (n, m, C), and the atoms; of none where they are not small pictures."""
    last, C = program.operations[-2], len(program.classes)
    atoms = np.asarray(getattr(model, "atoms_", np.empty(0)))
    if not isinstance(last, Linear) or atoms.ndim < 2:
        return np.empty((len(rows), 0, C)), np.empty((0, 1, 1))
    maps = np.asarray(rows, dtype=np.float64).reshape(len(rows), *program.image)
    for operation in program.operations[:-2]:
        maps = apply(operation, maps)
    coef = last.coef.reshape(C, *maps.shape[1:])
    parts = np.einsum("nrcj,krcj->njk", maps, coef)
    if parts.shape[1] % len(atoms):
        return np.empty((len(rows), 0, C)), np.empty((0, 1, 1))
    return parts.reshape(len(rows), -1, len(atoms), C).sum(axis=1), atoms  # split codes have two of each
