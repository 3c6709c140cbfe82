"""Data sets as the methods see them, and the split of each seed: the same for every method."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from dcadl import data
from dcadl.bench.settings import dataset_config


class Dataset(NamedTuple):
    """All samples of a data set, ready for any method."""

    name: str
    X: np.ndarray  # (n, H, W) images in [0, 1], or (n, values) features, float32
    y: np.ndarray  # 0 … C−1
    names: tuple[str, ...]


class Fold(NamedTuple):
    """One split; `test` holds the places of the test samples in the data set."""

    X_train: np.ndarray
    y_train: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    test: np.ndarray


@lru_cache(maxsize=1)
def load_dataset(name: str) -> Dataset:
    """The data set of that name, from DCADL_DATA."""
    known = dataset_config(name)
    bunch = data.load(name, kind="arrays" if known.get("features") else None)
    X = bunch.get("images", bunch.data)
    scaled = np.asarray(X, dtype=np.float32) / np.float32(known.get("divide_by", 1))
    return Dataset(name, scaled, bunch.target, tuple(str(n) for n in bunch.target_names))


def fold(found: Dataset, seed: int) -> Fold:
    """The split of one seed, as the paper's protocol cuts it."""
    train, test = data.split(
        found.y, per_class=dataset_config(found.name)["per_class"], seed=seed, names=found.names
    )
    return Fold(found.X[train], found.y[train], found.X[test], found.y[test], test)


def is_picture(X: Any) -> bool:
    """Whether a sample can be shown."""
    return np.ndim(X) == 3
