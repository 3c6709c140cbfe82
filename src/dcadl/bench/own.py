"""A user's own data as a data set of the benchmark: it is named by its path, and split into folds."""

from __future__ import annotations

import tomllib
from functools import cache, lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import StratifiedKFold

from dcadl.bench.pyramid_ridge import LEAST_SIDE
from dcadl.data.archives import cache_folder, is_archive, unpacked
from dcadl.data.bunch import make_bunch
from dcadl.data.folder import image_folder
from dcadl.data.images import unit_range
from dcadl.data.labelled import read_labelled
from dcadl.data.survey import survey_folder
from dcadl.features.cache import ArrayCache, digest

FOLDS, LEAST_FOLDS = 5, 2


class OwnData(NamedTuple):
    """Samples as methods take them; what a file keeps as its test part is left out."""

    X: np.ndarray  # (n, H, W), (n, H, W, 3) or (n, values), float32
    y: np.ndarray  # 0 … C−1
    names: tuple[str, ...]


@cache
def own_config() -> dict[str, Any]:
    """`own.toml`."""
    return tomllib.loads(files("dcadl.bench").joinpath("own.toml").read_text(encoding="utf-8"))


def own_name(word: str) -> str:
    """What data at a path are called in records: the whole path, so that two folders of one name differ."""
    return str(Path(word).resolve())


def is_own(name: str) -> bool:
    """Whether a data set's name is a path: no other name has a separator."""
    return Path(name).is_absolute()


def own_dataset_config(name: str) -> dict[str, Any]:
    """What the benchmark knows of any own data, without a look at them."""
    rows = own_config()["pictures"] | own_config()["rows"]
    return {"title": Path(name).name, "fact": own_config()["fact"], "results": [], "settings": rows}


def own_rows(name: str) -> dict[str, Any]:
    """The rows that suit the data: pictures have patches, and large ones a pyramid."""
    shape = read_own(name).X.shape[1:]
    rows = dict(own_config()["pictures" if len(shape) > 1 else "rows"])
    if min(shape[:2]) < LEAST_SIDE:
        rows.pop("PyramidRidge", None)
    return rows


@lru_cache(maxsize=1)
def read_own(name: str) -> OwnData:
    """Everything that `dcadl fit` accepts, pictures at the size and colour that suit them."""
    path = Path(name)
    if path.is_dir() or (path.is_file() and is_archive(path)):
        bunch = _pictures(path if path.is_dir() else unpacked(path))
    else:
        bunch = read_labelled(path, color=None)
    X, y = unit_range(bunch.get("images", bunch.data)), bunch.target
    train = bunch.get("train", slice(None, bunch.get("train_size")))
    if len(bunch.target_names) < 2:
        raise ValueError(f"{name} must hold at least 2 classes; got {list(map(str, bunch.target_names))}.")
    return OwnData(X[train], y[train], tuple(map(str, bunch.target_names)))


def own_fold(y: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Training and test places of a seed: seeds 0 to 4 are the folds of one shuffle, and so on."""
    n = count_folds(y)
    folds = StratifiedKFold(n, shuffle=True, random_state=seed // n)
    return list(folds.split(np.zeros(len(y)), y))[seed % n]


def count_folds(y: np.ndarray) -> int:
    """Five, or as many as the smallest class has samples: each fold needs one of every class."""
    fewest = int(np.bincount(y).min())
    if fewest < LEAST_FOLDS:
        raise ValueError(f"every class must have at least {LEAST_FOLDS} samples; the smallest has {fewest}.")
    return min(FOLDS, fewest)


def _pictures(folder: Path) -> Any:
    """Pictures of a folder, decoded once for all the processes of a benchmark."""
    seen = survey_folder(folder)
    if not len(seen.sizes):
        return image_folder(folder)  # names every file that cannot be read
    size, color = seen.working_size, seen.color
    facts = [file.stat() for file in seen.listing.files]
    stamps = ((fact.st_size, fact.st_mtime_ns) for fact in facts)
    cache_key = digest(*size, color, *seen.listing.files, *stamps)
    kept = ArrayCache(cache_folder() / "bench")
    images = kept.get(cache_key)
    if images is None:
        images = image_folder(folder, size=size, color=color).images
        kept.put(cache_key, images)
    parts = {} if seen.listing.train is None else {"train": seen.listing.train}
    return make_bunch(images, seen.listing.target, seen.listing.names, **parts)
