"""One batch of a stream: checked, coded, added to the sums, and the model made anew of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.utils.multiclass import check_classification_targets, unique_labels
from sklearn.utils.validation import check_consistent_length, column_or_1d

from dcadl.arrays import send
from dcadl.estimators.fitting import fitted_array, gaussian_atoms
from dcadl.estimators.validation import fit_rows, grid_of, predict_rows, random_code, sample_weights
from dcadl.ops.patches import Grid, atom_shape
from dcadl.ops.ridge import to_contrasts
from dcadl.solvers import descent, stream
from dcadl.solvers.code_ridge import Opened, chosen_normalisation
from dcadl.solvers.walk import chunked

if TYPE_CHECKING:
    from dcadl.estimators.dcadl.estimator import DCADL


class Batch(NamedTuple):
    """A checked batch, and what it says or the model says of images."""

    rows: np.ndarray
    y: np.ndarray
    classes: np.ndarray
    image_shape: tuple[int, ...]
    grid: Grid


def learn_batch(model: DCADL, X: Any, y: Any, classes: Any, sample_weight: Any) -> None:
    """Atoms and classifier after one batch more; the model's fitted attributes are assigned at the end."""
    _check_supported(model)
    begun = hasattr(model, "coef_")
    batch = (_later_batch if begun else _first_batch)(model, X, y, classes)
    weight = sample_weights(sample_weight, model.class_weight, batch.y, batch.rows.dtype)
    Y = np.eye(len(batch.classes), dtype=batch.rows.dtype)[np.searchsorted(batch.classes, batch.y)]
    old: stream.Statistics | None = getattr(model, "_stream", None)
    counts = Y.sum(axis=0) if weight is None else weight @ Y
    shares = stream.shares(counts if old is None else model.forgetting * old.y + counts)
    intercept = shares.astype(batch.rows.dtype)
    Omega = (
        model._Omega() if begun else gaussian_atoms(model.n_atoms, batch.grid.d, model.random_state)
    ).astype(batch.rows.dtype)
    W = to_contrasts(model.coef_.T.astype(np.float64)).T if begun else None
    sent = (batch.rows, to_contrasts(Y - intercept), weight)
    rows, T, s = (None if a is None else send(a, model.backend) for a in sent)
    opened = partial(chunked, rows, T, s, batch.grid)
    how = model.normalize_ if begun else _normalisation(model, batch, opened)
    sums = _sums(model, opened(how), intercept, (Omega, W))
    sums = sums if old is None else stream.add(old, sums, model.forgetting)
    lams = model._lams()
    Omega, W = stream.solve(sums, *lams[1:])
    trace = np.empty(0) if old is None else model.objective_
    model._stream, model.normalize_ = sums, how
    model.classes_, model.image_shape_, model.grid_ = batch.classes, batch.image_shape, batch.grid
    atoms = fitted_array(Omega, batch.rows.dtype)
    model.atoms_ = atoms.reshape(-1, *atom_shape(batch.grid, batch.image_shape))
    model.coef_ = fitted_array(W, batch.rows.dtype)
    model.intercept_ = stream.shares(sums.y).astype(batch.rows.dtype)
    model.objective_ = np.append(trace, stream.bound(sums, Omega, W, lams))
    model.n_iter_ = len(model.objective_)


def _check_supported(model: DCADL) -> None:
    if model.solver == "paper" or model.max_memory is not None or model.class_weight == "balanced":
        raise ValueError(
            "partial_fit works with solver='descent', without max_memory, and with class weights as a dict: "
            "the shares of the classes are not known beforehand."
        )
    if model.codes == "split":
        raise ValueError("partial_fit keeps sums of signed codes; use codes='signed', or fit.")


def _normalisation(model: DCADL, batch: Batch, opened: Callable[[str | None], Opened]) -> str | None:
    """What the first batch says."""
    code, width = random_code(model, batch.grid, batch.rows.dtype)
    return chosen_normalisation(model.normalize, batch.grid, opened, code, width)


def _sums(
    model: DCADL, opened: Opened, intercept: np.ndarray, before: tuple[np.ndarray, np.ndarray | None]
) -> stream.Statistics:
    """The sums of a batch, coded under the atoms and the classifier before it."""
    Omega, W = (None if a is None else send(a, model.backend) for a in before)
    with opened as (chunks, walk):
        problem = descent.pose(chunks, walk, model._lams())
        return stream.gather(problem, stream.codes_of(problem, Omega, W), intercept)


def _first_batch(model: DCADL, X: Any, y: Any, classes: Any) -> Batch:
    """The first batch says what images are like, and the caller which classes there will be."""
    if classes is None:
        raise ValueError("classes must be passed on the first call to partial_fit: all labels there will be.")
    names = unique_labels(classes)
    if len(names) < 2:
        raise ValueError(f"classes must hold at least 2 labels; got {names.tolist()}.")
    rows, y, shape = fit_rows(model, X, y)
    _check_known(y, names)
    grid = grid_of(model, shape)
    _check_room(grid.p * model.n_atoms)
    return Batch(rows, y, names, shape, grid)


def _later_batch(model: DCADL, X: Any, y: Any, classes: Any) -> Batch:
    if classes is not None and not np.array_equal(unique_labels(classes), model.classes_):
        raise ValueError(
            f"classes={list(classes)} is not the same as on the first call: {model.classes_.tolist()}."
        )
    _check_room(model.coef_.shape[1])
    rows = np.asarray(predict_rows(model, X, model.image_shape_), dtype=model.atoms_.dtype)
    y = column_or_1d(y, warn=True)
    check_consistent_length(rows, y)
    check_classification_targets(y)
    _check_known(y, model.classes_)
    return Batch(rows, y, model.classes_, model.image_shape_, model.grid_)


def _check_room(features: int) -> None:
    if features > stream.MAX_FEATURES:
        raise ValueError(
            f"partial_fit keeps a matrix of patches times atoms squared: at most {stream.MAX_FEATURES}; "
            f"got {features}. Use a larger stride or fewer atoms, or fit with max_memory."
        )


def _check_known(y: np.ndarray, classes: np.ndarray) -> None:
    new = np.setdiff1d(y, classes)
    if len(new):
        raise ValueError(f"y must hold labels that are in classes; got {new.tolist()[:5]} beside them.")
