"""Model files: safetensors with a JSON header. Written whole or not at all; nothing is unpickled."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_bytes

from dcadl.atomic import write_atomically
from dcadl.ops.patches import Grid

if TYPE_CHECKING:
    from dcadl.estimators.base import Classifier

FORMAT = 1  # raised when an older reader could not understand a newer file
NAMES_IN_FILES = {"image_shape_": "_image_shape"}  # attributes that had another name when format 1 was made


class SavedModel(NamedTuple):
    """What an estimator keeps in a file: arrays with the shapes they must have, and plain values."""

    arrays: Mapping[str, tuple[int | None, ...]]  # None: any length
    values: tuple[str, ...]


def save(model: Classifier, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to `path`, replacing what was there only once the new file is complete."""
    if not model.__sklearn_is_fitted__():
        raise ValueError(f"This {type(model).__name__} is not fitted yet: call fit before save.")
    layout = model._saved()
    header = {
        "format": FORMAT,
        "class": type(model).__name__,
        "params": {name: _plain(name, value) for name, value in model.get_params(deep=False).items()},
        "classes": _labels_out(model.classes_),
        "values": {
            NAMES_IN_FILES.get(name, name): _plain(name, getattr(model, name)) for name in layout.values
        },
    }
    if hasattr(model, "training_"):
        header["training"] = model.training_
    arrays = {name: np.ascontiguousarray(getattr(model, name)) for name in layout.arrays}
    try:
        _check_arrays(layout, arrays)
    except ValueError as error:
        raise ValueError(
            f"The model is not as its parameters say: {error}. Were they set after fit?"
        ) from None
    write_atomically(Path(path), to_bytes(arrays, metadata={"dcadl": json.dumps(header)}))


def load(path: str | os.PathLike[str]) -> Classifier:
    """The model that `save` wrote to `path`."""
    header, arrays = _read(Path(path))
    try:
        return _rebuild(header, arrays)
    except ValueError as error:
        raise ValueError(f"{path} is not a usable dcadl model: {error}") from None
    except (KeyError, TypeError, AttributeError, IndexError, OverflowError) as error:
        raise ValueError(f"{path} is not a usable dcadl model: its header is damaged ({error!r}).") from None


def read_header(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Format, class, parameters and class names of a model file."""
    return _read(Path(path))[0]


def _read(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    if not path.is_file():
        raise ValueError(f"There is no model file {path}; save one with model.save(...) or `dcadl fit`.")
    try:
        with safe_open(path, framework="numpy") as file:
            text = (file.metadata() or {}).get("dcadl")
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
        header = None if text is None else json.loads(text)
    except (SafetensorError, ValueError, OSError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} is damaged or no safetensors file: {error}") from None
    if not isinstance(header, dict):
        raise ValueError(f"{path} is a safetensors file, but not one of dcadl's models.")
    version = header.get("format")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise ValueError(
            f"{path} is not a usable dcadl model: its format must be an integer; got {version!r}."
        )
    if version > FORMAT:
        raise ValueError(f"{path} has format {version}; this dcadl reads up to {FORMAT}. Upgrade dcadl.")
    return header, arrays


def _rebuild(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Classifier:
    from dcadl import estimators  # here: the classes themselves import this module

    name = header["class"]
    if name not in estimators.__all__:
        raise ValueError(f"it holds a {name!r}, which this dcadl does not know")
    cls = getattr(estimators, name)
    model = cls(**{key: _unplain(key, value) for key, value in header["params"].items()})
    model.classes_ = _labels_in(header["classes"])
    attributes = {name: attribute for attribute, name in NAMES_IN_FILES.items()}
    values = {attributes.get(key, key): _tuples(value) for key, value in header["values"].items()}
    for key, value in values.items():
        setattr(model, key, Grid(*value) if key == "grid_" else value)
    layout = model._saved()
    if set(values) != set(layout.values):
        raise ValueError(f"it must hold the values {sorted(layout.values)}; got {sorted(values)}")
    _check_arrays(layout, arrays)
    for key, value in arrays.items():
        setattr(model, key, value)
    if "training" in header:
        model.training_ = dict(header["training"])
    return model


def _check_arrays(layout: SavedModel, arrays: dict[str, np.ndarray]) -> None:
    if set(arrays) != set(layout.arrays):
        raise ValueError(f"it must hold the arrays {sorted(layout.arrays)}; got {sorted(arrays)}")
    for name, shape in layout.arrays.items():
        found = arrays[name].shape
        if len(found) != len(shape) or any(s not in (None, f) for s, f in zip(shape, found)):
            raise ValueError(f"{name} must have shape {shape}; got {found}")
        if not np.isfinite(arrays[name]).all():
            raise ValueError(f"{name} holds NaN or infinity")


def _labels_out(classes: np.ndarray) -> dict[str, Any]:
    kind = "str" if classes.dtype.kind in "OU" else classes.dtype.str
    if kind == "str" and not all(isinstance(c, str) for c in classes):
        raise ValueError(f"Class labels must be strings or numbers to be saved; got {classes.tolist()[:5]}.")
    return {"dtype": kind, "labels": classes.tolist()}


def _labels_in(saved: dict[str, Any]) -> np.ndarray:
    dtype = saved["dtype"]
    if dtype != "str" and np.dtype(dtype).kind not in "iufb":
        raise ValueError(f"class labels of dtype {dtype!r} are not supported")
    classes = np.array(saved["labels"], dtype=str if dtype == "str" else dtype)
    if classes.ndim != 1 or len(classes) < 2 or (classes[1:] <= classes[:-1]).any():
        raise ValueError("class labels must be two or more, sorted, each once")
    return classes


def _plain(name: str, value: Any) -> Any:
    """A parameter as JSON. A generator's state is not worth keeping: the fit is done."""
    if name == "random_state" and not isinstance(value, int | np.integer | None):
        return None
    if isinstance(value, dict):
        return [[_plain("", k), _plain("", v)] for k, v in value.items()]
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, list | tuple):
        return [_plain("", inner) for inner in value]
    return value


def _unplain(name: str, value: Any) -> Any:
    if name == "class_weight" and isinstance(value, list):
        return dict(value)
    return _tuples(value)


def _tuples(value: Any) -> Any:
    return tuple(_tuples(v) for v in value) if isinstance(value, list) else value
