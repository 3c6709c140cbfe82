"""Training data behind whichever door they came in, and the classifier that predictions on them use."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dcadl.arrays import Array, send
from dcadl.estimators.normalisation import Opened, chosen
from dcadl.estimators.validation import class_numbers, fit_rows, grid_of, sample_weights
from dcadl.ops.codes import by_patch, code_responses, shrunk
from dcadl.ops.patches import Grid, normalised_patches
from dcadl.ops.ridge import to_contrasts
from dcadl.ops.span import span_of
from dcadl.solvers.code_ridge import LARGEST, Code, CodeRidge, code_ridge
from dcadl.solvers.walk import Walk, chunked

if TYPE_CHECKING:
    from dcadl.estimators.dcadl.estimator import DCADL

LONG = 1024  # values of a patch below which a matrix of their square is cheap


class TrainingSet(NamedTuple):
    """Checked data: what a model keeps of them, and a way to the chunks that a solver walks over."""

    classes: np.ndarray  # (C,)
    intercept: np.ndarray  # (C,) the share of each class, taken out of the labels
    image_shape: tuple[int, ...]
    grid: Grid
    normalize: str | None
    dtype: Any
    y: np.ndarray  # (n,) labels as given; empty where they stay on a cluster
    weight: np.ndarray | None  # (n,)
    open: Callable[[], Opened]
    largest: int = LARGEST  # rows of a matrix that there is room to factor
    basis: np.ndarray | None = None  # (d, r) what patches and atoms are coordinates in, where not of pixels


def images_in_memory(model: DCADL, X: Any, y: Any, sample_weight: Any) -> TrainingSet:
    """Training images sent to the backend."""
    rows, y, shape = fit_rows(model, X, y)
    grid = grid_of(model, shape)
    weight = sample_weights(sample_weight, model.class_weight, y, rows.dtype)
    classes, numbers, intercept = class_numbers(y, weight, rows.dtype)
    Y = to_contrasts(np.eye(len(classes), dtype=rows.dtype) - intercept)[numbers]
    X, Y, s = (None if a is None else send(a, model.backend) for a in (rows, Y, weight))
    how = normalisation(model, grid, rows.dtype, partial(chunked, X, Y, s, grid))
    dtype, basis, where = rows.dtype, None, (grid, how)
    if LONG <= grid.d > len(rows) * grid.p:  # atoms lie in the span of the patches: n·p values long, not d
        Z, basis = span_of(by_patch(normalised_patches(rows, grid, how)))
        r = Z.shape[1]
        X = send(Z.reshape(len(rows), -1), model.backend)
        where = Grid((1, grid.p * r, 1), (1, r), (1, r)), None
    open_chunks = partial(chunked, X, Y, s, *where)
    return TrainingSet(classes, intercept, shape, grid, how, dtype, y, weight, open_chunks, basis=basis)


def normalisation(model: DCADL, grid: Grid, dtype: Any, opened: Callable[[str | None], Opened]) -> str | None:
    """What `normalize` says, or for "auto" what suits random atoms best, the same whatever the seed.

    They are orthogonal: how alike some of few random atoms are would decide, where two ways are close.
    """
    drawn = np.random.default_rng(0).standard_normal((grid.d, min(model.n_atoms, grid.d)))
    Omega = send(np.linalg.qr(drawn)[0].T.astype(dtype), model.backend)
    width = len(Omega) * (model._codes_per_patch() // model.n_atoms)
    return chosen(model.normalize, grid, opened, unlabelled_codes(model, Omega), width)


def unlabelled_codes(model: DCADL, Omega: Array) -> Code:
    """The codes of patches whose label nobody knows."""
    lam1, split = float(model.lam1), model.codes == "split"
    return lambda P: shrunk(code_responses(P, Omega, split), lam1, split)


def refitted(model: DCADL, data: TrainingSet, chunks: Any, walk: Walk, Omega: Array) -> CodeRidge:
    """The ridge classifier on the codes that predictions see: those of the passes know their labels."""
    lam, code = (
        None if isinstance(model.refit_lam, str) else float(model.refit_lam),
        unlabelled_codes(model, Omega),
    )
    return code_ridge(chunks, walk, code, data.grid.p * model._codes_per_patch(), lam, data.largest)
