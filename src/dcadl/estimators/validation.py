"""Checks at the door: images to rows or chunks, labels to one-hot, weights, and parameters."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator
from sklearn.utils import assert_all_finite
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_consistent_length, column_or_1d, validate_data

from dcadl.arrays import Array, array_namespace, fetch, is_device_array, send
from dcadl.ops.codes import by_patch, encode
from dcadl.ops.patches import NORMALISATIONS, Grid, normalised_patches, patch_grid, value_fault
from dcadl.ops.ridge import to_contrasts
from dcadl.ops.span import span_of
from dcadl.solvers.code_ridge import LARGEST, Code, Opened, chosen_normalisation
from dcadl.solvers.sources import StoredImages, read_part
from dcadl.solvers.walk import chunked

if TYPE_CHECKING:
    from dcadl.estimators.dcadl import DCADL

DTYPES = [np.float32, np.float64]  # anything else, such as 8-bit pixels, becomes float32

WEIGHTS = (1e-10, 1e10)  # least and greatest weight that float32 can add to others
NUMBERS = (1e-30, 1e30)  # least and greatest parameter that is not 0

LIBRARIES = ("h5py", "zarr")  # of arrays on disk
LONG = 1024  # values of a patch below which a matrix of their square is cheap


class Training(NamedTuple):
    """Checked training data of a method that works in memory."""

    rows: np.ndarray  # (n, r) one image each
    y: np.ndarray  # (n,) labels as given
    Y: np.ndarray  # (n, C) one-hot
    classes: np.ndarray  # (C,)
    image_shape: tuple[int, ...]


def training_data(estimator: BaseEstimator, X: Any, y: Any) -> Training:
    """Images and labels, checked."""
    rows, y, shape = fit_rows(estimator, open_npy(X), y)
    classes, Y = one_hot(y, rows.dtype)
    return Training(rows, y, Y, classes, shape)


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
    code = random_code(model, grid, rows.dtype)
    how = chosen_normalisation(model.normalize, grid, partial(chunked, X, Y, s, grid), *code)
    dtype, basis, where = rows.dtype, None, (grid, how)
    if LONG <= grid.d > len(rows) * grid.p:  # atoms lie in the span of the patches: n·p values long, not d
        Z, basis = span_of(by_patch(normalised_patches(rows, grid, how)))
        r = Z.shape[1]
        X = send(Z.reshape(len(rows), -1), model.backend)
        where = Grid((1, grid.p * r, 1), (1, r), (1, r)), None
    open_chunks = partial(chunked, X, Y, s, *where)
    return TrainingSet(classes, intercept, shape, grid, how, dtype, y, weight, open_chunks, basis=basis)


def random_code(model: DCADL, grid: Grid, dtype: Any) -> tuple[Code, int]:
    """What codes a patch by random atoms, the same whatever the seed, and the number of its codes.

    They are orthogonal: how alike some of few random atoms are would decide, where two ways are close.
    """
    drawn = np.random.default_rng(0).standard_normal((grid.d, min(model.n_atoms, grid.d)))
    Omega = send(np.linalg.qr(drawn)[0].T.astype(dtype), model.backend)
    width = len(Omega) * (model._codes_per_patch() // model.n_atoms)
    return partial(encode, Omega, float(model.lam1), model.codes == "split"), width


def fit_rows(estimator: BaseEstimator, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray, tuple[int, ...]]:
    """Training images as rows, labels, and the shape of one image."""
    shape = _sample_shape(X)
    X, y = validate_data(estimator, _as_rows(X), y, dtype=DTYPES, ensure_all_finite=False)
    assert_all_finite(y, input_name="y", estimator_name=type(estimator).__name__)
    _check_values(estimator, X)
    check_classification_targets(y)
    given = getattr(estimator, "image_shape", None)
    if given is None:
        return X, y, shape or (X.shape[1],)
    given = tuple(np.atleast_1d(np.asarray(given, dtype=object)).tolist())
    if not 1 <= len(given) <= 3 or not all(isinstance(size, int | np.integer) and size > 0 for size in given):
        raise ValueError(f"image_shape must be 1 to 3 integers of at least 1; got {estimator.image_shape!r}.")
    if math.prod(given) != X.shape[1] or (shape and shape not in (given, (*given, 1))):
        raise ValueError(
            f"image_shape must match the data; got {given} for samples of shape {shape or (X.shape[1],)}."
        )
    return X, y, given


def predict_rows(estimator: BaseEstimator, X: Any, image_shape: tuple[int, ...]) -> Array:
    """Images to predict, as rows, of the shape that was fitted. Arrays on a device are checked there.

    A model whose arithmetic runs in NumPy fetches them.
    """
    shape = _sample_shape(X)
    if getattr(X, "shape", None) == image_shape and math.prod(image_shape) != image_shape[-1]:
        raise ValueError(f"X must hold images of shape {image_shape}; got one of them: give X[np.newaxis].")
    if shape and shape not in (image_shape, (*image_shape, 1)) and len(image_shape) > 1:
        raise ValueError(
            f"X must hold images of shape {image_shape}, as in fit; got {shape}. Resize them, or fit again."
        )
    if is_device_array(X):
        if getattr(estimator, "backend", "numpy") != "numpy":
            return _device_rows(X, estimator.n_features_in_)
        X = fetch(X)
    rows = validate_data(estimator, _as_rows(X), reset=False, dtype=DTYPES, ensure_all_finite=False)
    _check_values(estimator, rows)
    return rows


def _check_values(estimator: BaseEstimator, rows: np.ndarray) -> None:
    """Refuse NaN, infinity and values whose squares are no numbers, unless scikit-learn is told not to."""
    if get_config()["assume_finite"]:
        return
    fault = value_fault(rows)
    if fault is not None:
        assert_all_finite(rows, input_name="X", estimator_name=type(estimator).__name__)  # in its own words
        raise ValueError(f"X {fault} in {rows.dtype}; scale the images to [0, 1], for example.")


def is_dask(X: Any) -> bool:
    """Whether X is a dask array."""
    return type(X).__module__.startswith("dask.")


def on_disk(X: Any) -> bool:
    """Whether X is an image stack or rows of numbers that should not be loaded whole."""
    library = type(X).__module__.partition(".")[0]
    return (isinstance(X, np.memmap) or library in LIBRARIES) and readable(X)


def readable(X: Any) -> bool:
    """Whether X holds images or rows of plain numbers that can be read a chunk at a time."""
    library = type(X).__module__.partition(".")[0]
    if not isinstance(X, np.ndarray) and library not in LIBRARIES:
        return False
    shape, dtype = getattr(X, "shape", ()), getattr(X, "dtype", None)
    return len(shape) in (2, 3, 4) and 0 not in shape and np.dtype(dtype).kind in "fiub"


def open_npy(X: Any) -> Any:
    """The memory map of a `.npy` file where X is the path of one, else X itself."""
    if not isinstance(X, str | Path):
        return X
    path = Path(X)
    if path.suffix != ".npy" or not path.is_file():
        raise ValueError(f"X must be an array, or the path of a .npy file that exists; got {str(X)!r}.")
    try:
        return np.load(path, mmap_mode="r")
    except Exception as error:  # np.load lets through what its parsers raise, TokenError for example
        raise ValueError(f"{path} is no readable .npy file ({type(error).__name__}).") from None


def stored_rows(estimator: BaseEstimator, X: Any, y: Any) -> tuple[StoredImages, np.ndarray, tuple[int, ...]]:
    """Training images left where they are, labels, and the shape of one image."""
    if not readable(X):
        X, y, shape = fit_rows(estimator, X, y)
        return StoredImages(X, X.dtype), y, shape
    if y is None:
        fit_rows(estimator, X[:1], y)  # scikit-learn's own words
    y = checked_labels(X.shape[0], y)
    first, _, shape = fit_rows(estimator, np.zeros((1, *X.shape[1:]), X.dtype), y[:1])
    return StoredImages(X, first.dtype), y, shape


def checked_labels(n: int, y: Any) -> np.ndarray:
    """Labels of n images."""
    y = column_or_1d(y, warn=True)
    if len(y) != n:
        raise ValueError(f"Found input variables with inconsistent numbers of samples: {[n, len(y)]}")
    assert_all_finite(y, input_name="y")
    check_classification_targets(y)
    return y


def class_numbers(y: np.ndarray, weight: np.ndarray | None, dtype: Any) -> tuple[np.ndarray, ...]:
    """The class labels in order, the number of each image's class, and the share of each class."""
    classes, index = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f"y must hold at least 2 classes; got one class: {classes.tolist()}.")
    counts = np.bincount(index, weights=weight, minlength=len(classes))
    return classes, index, (counts / counts.sum()).astype(dtype)


def one_hot(y: np.ndarray, dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    """The class labels in order, and Y (n, C)."""
    classes, numbers, _ = class_numbers(y, None, dtype)
    return classes, np.eye(len(classes), dtype=dtype)[numbers]


def class_shares(Y: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
    """The weighted share of each class: the best constant guess at Y, and so a classifier's intercept."""
    return np.average(Y, axis=0, weights=weight).astype(Y.dtype)


def sample_weights(sample_weight: Any, class_weight: Any, y: np.ndarray, dtype: Any) -> np.ndarray | None:
    """The weight of each image, or None if all weigh the same."""
    if sample_weight is None and class_weight is None:
        return None
    total = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight)
    if total.ndim == 0:
        total = np.full(len(y), total)
    total = check_array(total, ensure_2d=False, dtype=np.float64, input_name="sample_weight")
    if total.ndim != 1:
        raise ValueError(f"sample_weight must be 1D: one weight per sample; got {total.ndim} dimensions.")
    check_consistent_length(y, total)
    check_weights("sample_weight", total)
    per_class = compute_sample_weight(class_weight, y)
    check_weights("class_weight", per_class)
    total = total * per_class
    if not total.any():
        raise ValueError("sample_weight must not be zero for every sample.")
    return total.astype(dtype)


def check_weights(name: str, weights: np.ndarray) -> None:
    """Refuse weights that are negative or no numbers, or that vanish or overflow in sums."""
    if not np.isfinite(weights).all():
        raise ValueError(f"{name} contains NaN or infinity.")
    if (weights < 0).any():
        raise ValueError(f"{name} must not be negative; got {weights.min():g}.")
    low, high = WEIGHTS
    outside = weights[(weights > 0) & ((weights < low) | (weights > high))]
    if len(outside):
        raise ValueError(f"{name} must be 0, or lie between {low:g} and {high:g}; got {outside[0]:g}.")


class PatchParameters(Protocol):
    """Parameters that lay a grid of patches on an image."""

    patch_shape: Any
    stride: Any
    normalize: str | None


def grid_of(estimator: PatchParameters, shape: tuple[int, ...]) -> Grid:
    """The patch grid that the estimator's parameters lay on an image."""
    check_option("normalize", estimator.normalize, ("auto", *NORMALISATIONS))
    return patch_grid(shape, estimator.patch_shape, estimator.stride)


def check_number(name: str, value: Any, low: float, *, integer: bool = False, above: bool = False) -> None:
    """Refuse what is not a finite number of at least (or, with `above`, more than) `low`."""
    kind = Integral if integer else Real
    fits = isinstance(value, kind) and not isinstance(value, bool)
    fits = fits and (
        isinstance(value, Integral) or math.isfinite(value)
    )  # an int may be too large for a float
    if not fits or value < low or (above and value == low):
        what = "an integer" if integer else "a number"
        bound = "more than" if above else "at least"
        raise ValueError(f"{name} must be {what} of {bound} {low:g}; got {value!r}.")
    least, most = (1, 2**63 - 1) if integer else NUMBERS
    if value != 0 and not least <= value <= most:
        raise ValueError(f"{name} must lie between {least:g} and {most:g}; got {value!r}.")


def check_ridge(name: str, value: Any) -> None:
    """Refuse what is neither "auto" nor a positive number."""
    if isinstance(value, str):
        check_option(name, value, ("auto",))
    else:
        check_number(name, value, 0, above=True)


def check_flag(name: str, value: Any) -> None:
    """Refuse what is neither True nor False."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True or False; got {value!r}.")


def check_option(name: str, value: Any, options: tuple[Any, ...]) -> None:
    """Refuse what is not one of `options`."""
    if not any(value is option or (isinstance(value, str) and value == option) for option in options):
        raise ValueError(f"{name} must be one of {', '.join(map(repr, options))}; got {value!r}.")


def _sample_shape(X: Any) -> tuple[int, ...]:
    """The shape of one image where X holds images as such, else ()."""
    shape = getattr(X, "shape", None)
    if shape is None and isinstance(X, list):  # a list of images, or a list of rows
        shape = np.shape(np.asarray(X, dtype=object)) if len({np.shape(x) for x in X}) == 1 else None
    if shape is not None and len(shape) > 4:
        raise ValueError(
            "X must hold images, (n, height, width) or (n, height, width, channels), or rows (n, values); "
            f"got shape {tuple(shape)}."
        )
    return tuple(shape[1:]) if shape is not None and len(shape) in (3, 4) else ()


def _device_rows(X: Array, width: int) -> Array:
    xp = array_namespace(X)
    rows = xp.reshape(X, (X.shape[0], -1))
    if rows.shape[1] != width:
        raise ValueError(f"X has {rows.shape[1]} features, but {width} were fitted.")
    if rows.dtype not in (xp.float32, xp.float64):
        rows = xp.astype(rows, xp.float32)
    if not bool(xp.all(xp.isfinite(rows))):
        raise ValueError("X contains NaN or infinity; remove or replace such images.")
    return rows


def _as_rows(X: Any) -> Any:
    """Images flattened to rows; what is not an image stack is left for scikit-learn to check."""
    if type(X).__module__.partition(".")[0] in LIBRARIES and readable(X):
        X = read_part(X, slice(0, X.shape[0]))
    if not _sample_shape(X):
        return X
    X = fetch(X)
    return X.reshape(len(X), math.prod(X.shape[1:]))  # not -1: no images at all are refused further on
