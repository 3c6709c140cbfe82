"""Labelled data a user names: a folder of class folders, an archive of one, or a `.npz` / `.mat` file."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from dcadl.data.archives import is_archive, unpacked
from dcadl.data.bunch import flat_labels, make_bunch
from dcadl.data.errors import shortened
from dcadl.data.folder import OnError, image_folder
from dcadl.data.images import Size, as_height_width, conform
from dcadl.data.limits import MAX_BYTES, MAX_PIXELS
from dcadl.data.mat import read_arrays

SAMPLE_KEYS = ("images", "X", "data", "features", "fea", "featureMat", "x", "faces")
LABEL_KEYS = ("labels", "y", "target", "gnd", "labelMat", "label", "targets", "Y")
NAME_KEYS = ("class_names", "target_names", "classes")
# files that keep a training and a test part apart: they are joined, training part first
PARTS = (
    ("train_images", "train_labels", "test_images", "test_labels"),
    ("x_train", "y_train", "x_test", "y_test"),
    ("X_train", "y_train", "X_test", "y_test"),
)


def read_labelled(
    path: str | Path,
    *,
    size: Size = None,
    color: bool | None = False,
    on_error: OnError = "raise",
    max_side: int | None = None,
    max_pixels: int = MAX_PIXELS,
    max_bytes: int = MAX_BYTES,
) -> Bunch:
    """
    Samples and labels from whatever `path` is.

    A folder with one sub-folder per class, or an archive of one, is read by `image_folder` with `size`,
    `color`, `on_error` and `max_side`. Of arrays, `color=None` keeps the channels that there are.
    A `.npz` or `.mat` file must hold samples (images, X, data, features, fea, featureMat) and labels
    (labels, y, target, gnd, labelMat), samples in rows or in columns. A picture of more than `max_pixels`, or
    arrays of more than `max_bytes`, are refused before they are unfolded in memory.

    Returns
    -------
    Bunch with `data` (n, features), `target` 0 … C-1, `target_names`, `DESCR`; for pictures also `images`
    (n, H, W) or (n, H, W, 3); for folders also what `image_folder` adds; `train_size` where the file
    keeps a training and a test part, training part first; `train` (n,) where a boolean `train` in the file
    says which samples are the training part, and both parts have some.
    """
    path = Path(path)
    if path.suffix.lower() in (".npz", ".mat") and not path.is_dir():
        return bunch_of_arrays(read_arrays(path, max_bytes=max_bytes), path, size=size, color=color)
    if path.is_dir() or (path.is_file() and is_archive(path)):
        folder = path if path.is_dir() else unpacked(path)
        return image_folder(
            folder, size=size, color=bool(color), on_error=on_error, max_side=max_side, max_pixels=max_pixels
        )
    if path.exists():
        raise ValueError(f"expected a folder of class folders, an archive of one, .npz or .mat; got {path}.")
    raise FileNotFoundError(f"data not found: {path}")


def bunch_of_arrays(
    arrays: dict[str, Any], path: Path, *, size: Size = None, color: bool | None = False, **extra: Any
) -> Bunch:
    """Arrays by name as a Bunch, whichever of the common names they use; what does not fit names the file."""
    try:
        return _bunch(arrays, path, size, color, extra)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _bunch(
    arrays: dict[str, Any], path: Path, size: Size, color: bool | None, extra: dict[str, Any]
) -> Bunch:
    arrays = _join_parts(arrays, extra)
    samples_key = _pick(arrays, SAMPLE_KEYS, "samples")
    labels_key = _pick(arrays, LABEL_KEYS, "labels")
    if arrays[labels_key].dtype.kind not in "biufUS":
        raise ValueError(f"{labels_key} must hold integers or texts; got {arrays[labels_key].dtype}.")
    labels = flat_labels(arrays[labels_key])
    samples = by_row(arrays[samples_key], len(labels), columns_first=samples_key == "featureMat")
    _check_numbers(samples, samples_key)
    if samples.dtype == np.float16:
        samples = samples.astype(np.float32)  # a form for storage: no BLAS multiplies it
    samples = _shaped(samples, size, color)
    given = {key: arrays[key] for key in NAME_KEYS if key in arrays}
    texts = [found.ravel() for found in given.values() if found.dtype.kind == "U"]
    names = next((found for found in texts if found.size > 1), None)
    if "names" in arrays and arrays["names"].shape == (len(labels),):
        extra["filenames"] = arrays["names"]
    extra |= _training_mask(arrays, len(labels))
    extra.setdefault("DESCR", f"{len(labels)} samples from {path.name} ({samples_key}, {labels_key})")
    return make_bunch(samples, labels, names, **extra)


def _training_mask(arrays: dict[str, Any], n: int) -> dict[str, Any]:
    """`train`, as `dcadl features` writes it; all or none of the samples are no two parts."""
    mask = arrays.get("train")
    if mask is None or mask.dtype != bool or mask.ndim == 0:
        return {}
    if mask.size != n:
        raise ValueError(f"train must say of each of {n} samples whether it trains; got shape {mask.shape}.")
    return {"train": mask.ravel()} if mask.any() and not mask.all() else {}


def by_row(samples: Any, n: int, columns_first: bool = False) -> Any:
    """Samples along the first axis, whichever axis of length n they lie on."""
    ends = (samples.shape[:1] == (n,), samples.shape[-1:] == (n,))
    if samples.ndim < 2 or not any(ends):
        raise ValueError(
            f"expected {n} samples in rows or columns, as many as labels; got shape {samples.shape}."
        )
    in_columns = ends[1] and (columns_first or not ends[0])
    return np.moveaxis(samples, -1, 0) if in_columns else samples


def _pick(arrays: dict[str, Any], keys: Sequence[str], what: str) -> str:
    for key in keys:
        if key in arrays:
            return key
    found = shortened(", ".join(sorted(arrays))) or "nothing"
    raise ValueError(f"it holds no {what}: expected one of {', '.join(keys)}; found {found}.")


def _join_parts(arrays: dict[str, Any], extra: dict[str, Any]) -> dict[str, Any]:
    for keys in PARTS:
        if all(key in arrays for key in keys):
            train, train_labels, test, test_labels = (arrays[key] for key in keys)
            extra["train_size"] = len(train_labels.ravel())
            joined = {"images": np.concatenate([train, test])}
            return joined | {"labels": np.concatenate([train_labels.ravel(), test_labels.ravel()])}
    return arrays


def _check_numbers(samples: Any, key: str) -> None:
    if samples.dtype.kind not in "buif":
        raise ValueError(f"{key} must hold numbers; got {samples.dtype}.")
    if samples.dtype.kind == "f" and not np.isfinite(samples).all():
        raise ValueError(f"{key} holds NaN or infinite values.")


def _shaped(samples: Any, size: Size, color: bool | None) -> Any:
    """Pictures brought to size; rows folded into pictures where `size` says how."""
    if samples.ndim > 2:
        return conform(samples, size, color)
    wanted = as_height_width(size)
    if wanted is None:
        return samples
    height, width = wanted
    if samples.shape[1] != height * width:
        raise ValueError(
            f"size {height}×{width} needs rows of {height * width} values; got {samples.shape[1]}."
        )
    return samples.reshape(len(samples), height, width)
