"""Checks at the door for data that is not loaded."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, column_or_1d

from dcadl.estimators.validation import fit_rows
from dcadl.solvers.sources import Labels, StoredImages, readable


def fit_source(estimator: Any, X: Any, y: Any) -> tuple[StoredImages, np.ndarray, tuple[int, ...]]:
    """Training images left where they are, labels, and the shape of one image."""
    if not readable(X):
        X, y, shape = fit_rows(estimator, X, y)
        return StoredImages(X, X.dtype), y, shape
    if y is None:
        fit_rows(estimator, X[:1], y)  # scikit-learn's own words
    y = column_or_1d(y, warn=True)
    check_consistent_length(X, y)
    assert_all_finite(y, input_name="y")
    check_classification_targets(y)
    first, _, shape = fit_rows(estimator, np.zeros((1, *X.shape[1:]), X.dtype), y[:1])
    return StoredImages(X, first.dtype), y, shape


def numbered_labels(y: np.ndarray, weight: np.ndarray | None, dtype: Any) -> tuple[np.ndarray, Labels]:
    """The class labels in order; and of each image the number of its class, less the classes' shares."""
    classes, index = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f"y must hold at least 2 classes; got one class: {classes.tolist()}.")
    counts = np.bincount(index, weights=weight, minlength=len(classes))
    return classes, Labels(index, (counts / counts.sum()).astype(dtype), weight)
