"""Data sets as the methods see them, and the split of each seed: the same for every method."""

from __future__ import annotations

from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dcadl import data
from dcadl.bench.own import is_own, own_fold, read_own
from dcadl.bench.settings import dataset_config
from dcadl.data.archives import cache_folder
from dcadl.data.images import decode
from dcadl.data.load import Kind
from dcadl.data.parallel import parallel_map, with_progress
from dcadl.features.cache import ArrayCache, digest


class Dataset(NamedTuple):
    """All samples of a data set, ready for any method."""

    name: str
    X: np.ndarray  # (n, H, W) images in [0, 1], or (n, values) features, float32
    y: np.ndarray  # 0 … C−1
    names: tuple[str, ...]
    train_size: int | None = None  # where the set has a training part of its own, which comes first


class Fold(NamedTuple):
    """One split; `test` holds the places of the test samples in the data set."""

    X_train: np.ndarray
    y_train: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    test: np.ndarray


@lru_cache(maxsize=1)
def load_dataset(name: str) -> Dataset:
    """The data set of that name, from DCADL_DATA, or a user's own at that path."""
    if is_own(name):
        return Dataset(name, *read_own(name))
    known = dataset_config(name)
    kind: Kind | None = "arrays" if known.get("features") else "original" if "size" in known else None
    bunch = data.load(known.get("data", name), kind=kind)
    X = bunch.get("images", bunch.data)
    if X.dtype.kind == "U":
        X = _pictures(X, known["size"])
    scaled = np.asarray(X, dtype=np.float32) / np.float32(known.get("divide_by", 1))
    names = tuple(str(n) for n in bunch.target_names)
    return Dataset(name, scaled, bunch.target, names, bunch.get("train_size"))


def fold(found: Dataset, seed: int) -> Fold:
    """The split of one seed, as the protocol cuts it.

    Where it is `tested_on` the set's own test part, training samples are drawn from its training part alone;
    without `per_class` they are all of that part, whatever the seed. A user's own data are split into folds.
    """
    if is_own(found.name):
        train, test = own_fold(found.y, seed)
        return Fold(found.X[train], found.y[train], found.X[test], found.y[test], test)
    known = dataset_config(found.name)
    own = known.get("tested_on") == "its test part"
    drawn_from = found.y[: found.train_size] if own else found.y
    if "per_class" in known:
        train, test = data.split(drawn_from, per_class=known["per_class"], seed=seed, names=found.names)
    else:
        train, test = np.arange(len(drawn_from)), np.arange(0)
    if own:
        test = np.arange(len(drawn_from), len(found.y))
    return Fold(found.X[train], found.y[train], found.X[test], found.y[test], test)


def _pictures(files: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Picture files in grey at one size; decoded once, then found in the cache."""
    cache = ArrayCache(cache_folder() / "bench")
    facts = [Path(file).stat() for file in files]
    key = digest(*size, *files, *((fact.st_size, fact.st_mtime_ns) for fact in facts))
    images = cache.get(key)
    if images is None:
        decoded = parallel_map(partial(decode, size=(size[0], size[1])), files)
        images = np.stack(list(with_progress(decoded, len(files), "reading pictures", None)))
        cache.put(key, images)
    return images


def is_picture(X: Any) -> bool:
    """Whether a sample can be shown."""
    return np.ndim(X) == 3
