"""Checks of what a model file says, before any of it is believed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np
from sklearn.base import clone

from dcadl.estimators.validation import check_option, grid_of
from dcadl.ops.patches import NORMALISATIONS

if TYPE_CHECKING:
    from dcadl.estimators.base import Classifier

LONGEST_MESSAGE = 300  # characters of an error that quotes a file


def check_parameters_of(model: Classifier) -> None:
    """Refuse parameters that the estimator's own check refuses.

    They are checked on the class's own backend: a model that was fitted on a device may be loaded where there
    is none, and moved with `set_params(backend=...)`.
    """
    if hasattr(model, "backend"):
        if not isinstance(model.backend, str):
            raise ValueError(f"backend must be a name; got {model.backend!r}")
        clone(model).set_params(backend=type(model)().backend)._check_parameters()
    else:
        model._check_parameters()


def set_values(model: Classifier, values: Mapping[str, Any]) -> None:
    """The plain values as attributes of the model; those that every model has are checked."""
    for key, value in values.items():
        if not key.isidentifier() or hasattr(type(model), key) or key in model.get_params():
            raise ValueError(f"{key!r} is no fitted value")
        setattr(model, key, value)
    for key in ("n_features_in_", "n_iter_"):
        if key in values and not (is_integer(values[key]) and 0 < values[key] < 2**63):
            raise ValueError(f"{key} must be an integer of at least 1; got {values[key]!r}")
    shape = model.image_shape_
    if not _is_shape(shape) or math.prod(shape) != model.n_features_in_:
        raise ValueError(f"image_shape_ must hold {model.n_features_in_} values; got {shape!r}")
    if "grid_" in values:
        model.grid_ = grid_of(model, shape)
        if values["grid_"] != tuple(model.grid_):
            raise ValueError(f"grid_ must be {tuple(model.grid_)}; got {values['grid_']!r}")
        model.normalize_ = values.get("normalize_", model.normalize)
        check_option("normalize_", model.normalize_, NORMALISATIONS)


def set_told(model: Classifier, names: tuple[str, ...], told: Any) -> None:
    """What a file tells of the fit, as attributes of the model; all of them are numbers of at least 0."""
    if not isinstance(told, dict) or not set(told) <= set(names):
        raise ValueError(f"what it tells of its fit must be among {sorted(names)}; got {told!r}")
    for name, value in told.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
            raise ValueError(f"{name} must be a number of at least 0; got {value!r}")
        setattr(model, name, value)


def check_shapes(wanted: Mapping[str, tuple[int | str, ...]], found: Mapping[str, tuple[int, ...]]) -> None:
    """Refuse arrays that are not those of the layout, or not of its shapes."""
    if set(found) != set(wanted):
        raise ValueError(f"it must hold the arrays {sorted(wanted)}; got {sorted(found)}")
    lengths: dict[str, int] = {}
    for name, shape in wanted.items():
        if len(shape) != len(found[name]):
            raise ValueError(f"{name} must have shape {shape}; got {found[name]}")
        for length, here in zip(shape, found[name]):
            if here != (lengths.setdefault(length, here) if isinstance(length, str) else length):
                raise ValueError(f"{name} must have shape {shape}; got {found[name]}")


def finite_array(name: str, array: np.ndarray) -> np.ndarray:
    """The array, if it holds finite numbers of the kinds that fits give."""
    if array.dtype not in (np.float32, np.float64, np.int64):
        raise ValueError(f"{name} must hold float32, float64 or int64; got {array.dtype}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} holds NaN or infinity")
    return array


def check_class_numbers(name: str, array: np.ndarray, n_classes: int) -> None:
    """Refuse an array that does not hold numbers of classes."""
    if array.dtype.kind != "i" or array.min() < 0 or array.max() >= n_classes:
        raise ValueError(f"{name} must hold integers from 0 to {n_classes - 1}")


def is_integer(value: Any) -> TypeGuard[int]:
    """Whether value is an int, and not True or False."""
    return isinstance(value, int) and not isinstance(value, bool)


def one_line(text: Any) -> str:
    """An error's text on one line, cut short: it may quote a file."""
    line = " ".join(str(text).split())
    return line if len(line) <= LONGEST_MESSAGE else f"{line[:LONGEST_MESSAGE]}…"


def _is_shape(value: Any) -> bool:
    sizes = isinstance(value, tuple) and all(is_integer(size) and size > 0 for size in value)
    return sizes and 1 <= len(value) <= 3
