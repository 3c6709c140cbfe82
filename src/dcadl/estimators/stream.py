"""One batch of a stream: checked, coded, added to the sums, and the model made anew of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets, unique_labels
from sklearn.utils.validation import check_consistent_length, column_or_1d

from dcadl.arrays import send
from dcadl.estimators.learn import lams, parts_in_memory
from dcadl.estimators.start import gaussian_atoms
from dcadl.estimators.validation import fit_rows, grid_of, predict_rows, sample_weights
from dcadl.ops.contrasts import to_contrasts
from dcadl.solvers import descent, stream


def learn_batch(model: Any, X: Any, y: Any, classes: Any, sample_weight: Any) -> dict[str, Any]:
    """Fitted attributes after one batch more."""
    if model.solver == "paper" or model.max_memory is not None or model.class_weight == "balanced":
        raise ValueError(
            "partial_fit works with solver='descent', without max_memory, and with class weights as a dict: "
            "the shares of the classes are not known beforehand."
        )
    rows, y = (_next if hasattr(model, "coef_") else _begun)(model, X, y, classes)
    weight = sample_weights(sample_weight, model.class_weight, y, rows.dtype)
    Y = np.eye(len(model.classes_), dtype=rows.dtype)[np.searchsorted(model.classes_, y)]
    old = getattr(model, "_stream", None)
    counts = Y.sum(axis=0) if weight is None else weight @ Y
    intercept = stream.shares(counts if old is None else model.forgetting * old.y + counts).astype(rows.dtype)
    with parts_in_memory(model, rows, to_contrasts(Y - intercept), weight) as (chunks, walk, dtype):
        problem = descent.pose(chunks, walk, lams(model))
        Omega = _atoms(model).astype(dtype)
        W = None
        if hasattr(model, "coef_"):
            W = send(to_contrasts(model.coef_.T.astype(np.float64)).T, model.backend)
        codes = stream.codes_of(problem, send(Omega, model.backend), W)
        sums = stream.gather(problem, codes, intercept)
    return _fitted(model, sums if old is None else stream.add(old, sums, model.forgetting), dtype)


def _begun(model: Any, X: Any, y: Any, classes: Any) -> tuple[np.ndarray, np.ndarray]:
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
    model.classes_, model.grid_, model.image_shape_ = names, grid, shape
    return rows, y


def _next(model: Any, X: Any, y: Any, classes: Any) -> tuple[np.ndarray, np.ndarray]:
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
    return rows, y


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


def _atoms(model: Any) -> np.ndarray:
    if hasattr(model, "atoms_"):
        return model._Omega()
    return gaussian_atoms(model.n_atoms, model.grid_.d, model.random_state)


def _fitted(model: Any, sums: stream.Statistics, dtype: Any) -> dict[str, Any]:
    _, lam2, lam3, lam4 = lams(model)
    Omega, W = stream.solve(sums, lam2, lam3, lam4)
    trace = model.objective_ if hasattr(model, "_stream") else np.empty(0)
    return {
        "_stream": sums,
        "atoms_": np.ascontiguousarray(Omega, dtype=dtype).reshape(-1, *model._atom_shape()),
        "coef_": np.ascontiguousarray(W, dtype=dtype),
        "intercept_": stream.shares(sums.y).astype(dtype),
        "objective_": np.append(trace, stream.bound(sums, Omega, W, lams(model))),
        "n_iter_": len(trace) + 1,
    }
