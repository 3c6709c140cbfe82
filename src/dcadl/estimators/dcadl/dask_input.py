"""Dask arrays at the door: checked, numbered and weighed where they lie."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import assert_all_finite
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets

from dcadl.estimators.prediction import along_samples
from dcadl.estimators.validation import TrainingSet, check_weights, fit_rows, grid_of, is_dask, random_code
from dcadl.solvers.code_ridge import chosen_normalisation
from dcadl.solvers.dask_walk import DaskWalk, WorkerBlock, blocks
from dcadl.solvers.dask_watch import active_client, in_words, results
from dcadl.solvers.sources import Labels
from dcadl.solvers.walk import Walk

if TYPE_CHECKING:
    from dcadl.estimators.dcadl.estimator import DCADL


def check_cluster_supports(model: DCADL, checkpoint: Any) -> None:
    """Refuse what a fit of dask arrays does not support."""
    if (model.solver, model.backend, model.max_memory, checkpoint) != ("descent", "numpy", None, None):
        raise ValueError(
            "Dask arrays are fitted with solver='descent' and backend='numpy', without checkpoint and "
            "without max_memory: workers have their own limit."
        )


def blocks_on_cluster(model: DCADL, X: Any, y: Any, sample_weight: Any) -> TrainingSet:
    """Blocks of X computed on the workers, each beside its labels; only counts of labels come home."""
    client = active_client()
    with in_words(client):
        return _blocks(client, model, along_samples(X), y, sample_weight)


def _blocks(client: Any, model: DCADL, X: Any, y: Any, sample_weight: Any) -> TrainingSet:
    first, _, shape = fit_rows(model, np.zeros((1, *X.shape[1:]), X.dtype), [0])
    grid, dtype = grid_of(model, shape), first.dtype
    ys = _beside(client, y, X, "y")
    counted = client.map(partial(np.unique, return_counts=True), ys, pure=False)
    classes, counts = _add_up(results(client, counted))
    weights = (
        [None] * len(ys) if sample_weight is None else _beside(client, sample_weight, X, "sample_weight")
    )
    per_class = _class_weights(model.class_weight, classes, counts)
    plain = sample_weight is None and per_class is None
    number = partial(_number, classes, np.ones(len(classes)) if per_class is None else per_class, dtype)
    numbers = client.map(partial(_plain, number) if plain else number, ys, weights, pure=False)
    sums = client.map(partial(_class_sums, len(classes)), numbers, pure=False)
    shares = np.sum(results(client, sums), axis=0)
    if not shares.any():
        raise ValueError("sample_weight must not be zero for every sample.")
    xs, firsts = client.compute(list(X.to_delayed().ravel())), np.cumsum((0, *X.chunks[0]))[:-1].tolist()
    intercept = (shares / shares.sum()).astype(dtype)

    @contextmanager
    def parts(how: str | None) -> Iterator[tuple[Any, Walk]]:
        make = partial(_block, intercept, grid, how)
        with in_words(client):
            yield blocks(client, make, xs, numbers, firsts), DaskWalk(client)

    how = chosen_normalisation(model.normalize, grid, parts, *random_code(model, grid, dtype))
    return TrainingSet(classes, intercept, shape, grid, how, dtype, np.empty(0), None, partial(parts, how))


def _beside(client: Any, values: Any, X: Any, name: str) -> list[Any]:
    """Futures of the values of each block of X."""
    import dask.array as da

    values = values if is_dask(values) else da.from_array(np.asarray(values), chunks=-1)
    if values.shape != X.shape[:1]:
        raise ValueError(
            f"{name} must have one value per sample: inconsistent numbers of samples, shape {values.shape} "
            f"for {X.shape[0]} samples."
        )
    return client.compute(list(values.rechunk((X.chunks[0],)).to_delayed().ravel()))


def _add_up(counted: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    names, index = np.unique(np.concatenate([found for found, _ in counted]), return_inverse=True)
    assert_all_finite(names, input_name="y")
    check_classification_targets(names)
    if len(names) < 2:
        raise ValueError(f"y must hold at least 2 classes; got one class: {names.tolist()}.")
    return names, np.bincount(index, weights=np.concatenate([count for _, count in counted]))


def _class_weights(class_weight: Any, classes: np.ndarray, counts: np.ndarray) -> np.ndarray | None:
    if class_weight is None:
        return None
    if isinstance(class_weight, str) and class_weight == "balanced":
        return counts.sum() / (len(classes) * counts)
    found = compute_class_weight(class_weight, classes=classes, y=classes)
    check_weights("class_weight", found)
    return found


def _number(
    classes: np.ndarray, per_class: np.ndarray, dtype: Any, y: np.ndarray, weight: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray | None]:
    index = np.searchsorted(classes, y)
    total = np.ones(len(y)) if weight is None else np.asarray(weight, np.float64)
    check_weights("sample_weight", total)
    return index, (total * per_class[index]).astype(dtype)


def _plain(number: Any, y: np.ndarray, weight: None) -> tuple[np.ndarray, None]:
    return number(y, weight)[0], None


def _class_sums(n_classes: int, numbers: tuple[np.ndarray, np.ndarray | None]) -> np.ndarray:
    return np.bincount(numbers[0], weights=numbers[1], minlength=n_classes)


def _block(
    intercept: np.ndarray,
    grid: Any,
    how: str | None,
    X: np.ndarray,
    numbers: tuple[np.ndarray, Any],
    first: int,
) -> WorkerBlock:
    return WorkerBlock(X, Labels(numbers[0], intercept, numbers[1]), grid, how, first)
