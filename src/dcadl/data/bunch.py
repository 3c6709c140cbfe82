"""What every reader returns: scikit-learn's Bunch with data, target, target_names and DESCR."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils import Bunch

LARGEST = 2**62  # of a label: floats just below 2⁶³ round up to it


def make_bunch(samples: Any, labels: Any, names: Sequence[str] | None = None, **extra: Any) -> Bunch:
    """
    Samples and their labels as a Bunch.

    `data` is (n, features). Samples that are pictures, (n, H, W) or (n, H, W, 3), are there a second time
    under `images` (the same memory). `target` holds 0 … C-1 and `target_names` the classes in that order.
    """
    target, target_names = encode(labels, names)
    check_lengths(samples, target)
    if samples.ndim > 2:
        extra["images"] = samples
    data = samples.reshape(len(samples), -1) if samples.ndim > 2 else samples
    return Bunch(data=data, target=target, target_names=target_names, **extra)


def encode(labels: Any, names: Sequence[str] | None = None) -> tuple[Any, Any]:
    """Labels of any kind as 0 … C-1 with the names of the classes in that order."""
    labels = flat_labels(labels)
    if names is None:
        classes, target = np.unique(labels, return_inverse=True)
        return target.astype(np.int64), np.array([_name(c) for c in classes])
    check_distinct(names)
    if labels.dtype.kind not in "biu":
        raise ValueError(f"labels must be integers where class names are given; got {labels.dtype}.")
    target = _as_int64(labels)
    if target.size and (target.min() < 0 or target.max() >= len(names)):
        raise ValueError(
            f"labels must lie in 0..{len(names) - 1} as there are {len(names)} class names; "
            f"got {target.min()}..{target.max()}."
        )
    return target, np.array([str(name) for name in names])


def flat_labels(labels: Any) -> Any:
    """Labels as one vector: (n,), (n, 1), (1, n), or one-hot with one row or one column per sample."""
    labels = np.asarray(labels)
    if labels.dtype.kind == "f":
        if not np.isfinite(labels).all() or (labels != np.rint(labels)).any():
            raise ValueError("labels must be integers or strings; got fractions or NaN.")
        labels = _as_int64(labels)
    if labels.ndim == 2 and 1 in labels.shape:
        return labels.ravel()
    if labels.ndim == 2:
        return _from_one_hot(labels)
    if labels.ndim != 1:
        raise ValueError(f"labels must be one vector or one-hot; got shape {labels.shape}.")
    return labels


def check_lengths(samples: Any, target: Any) -> None:
    """Refuse an empty set, and one with more or fewer labels than samples."""
    if len(samples) == 0:
        raise ValueError("expected at least one sample; got none.")
    if len(samples) != len(target):
        raise ValueError(f"expected one label per sample; got {len(samples)} samples, {len(target)} labels.")


def check_distinct(names: Sequence[str]) -> None:
    """Refuse two classes of one name."""
    values, counts = np.unique(np.asarray(names, dtype=str), return_counts=True)
    if (counts > 1).any():
        raise ValueError(f"class names must be distinct; repeated: {', '.join(values[counts > 1])}.")


def _as_int64(labels: Any) -> Any:
    """Integers that 64 bits hold; beyond them a cast would wrap around in silence."""
    if labels.size and (labels.max() > LARGEST or labels.min() < -LARGEST):
        raise ValueError(f"labels must lie within 64-bit integers; got {labels.min()} to {labels.max()}.")
    return labels.astype(np.int64)


def _from_one_hot(matrix: Any) -> Any:
    """Index of the single one of each sample; more samples than classes tells which way it lies."""
    by_sample = matrix if matrix.shape[0] >= matrix.shape[1] else matrix.T
    if not (np.isin(matrix, (0, 1)).all() and (by_sample.sum(axis=1) == 1).all()):
        raise ValueError(
            f"two-dimensional labels must be one-hot; got shape {matrix.shape} with other values."
        )
    return by_sample.argmax(axis=1)


def _name(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
