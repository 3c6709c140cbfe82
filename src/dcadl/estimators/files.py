"""Model files: safetensors with a JSON header. Written whole or not at all; nothing is unpickled."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_bytes

from dcadl.atomic import write_atomically
from dcadl.estimators.loaded import (
    check_parameters_of,
    check_shapes,
    finite_array,
    is_integer,
    one_line,
    set_told,
    set_values,
)
from dcadl.estimators.validation import check_number

if TYPE_CHECKING:
    from dcadl.estimators.base import Classifier

LONGEST_HEADER = 10_000_000  # characters: a header of a thousand classes has some ten thousand
FORMAT = 2  # the newest that is read; raised when an older reader could not understand a newer file
CLASSIFIER_FORMAT = 1  # of a classifier by itself; 2 has steps before it, see `dcadl.model_files`
NAMES_IN_FILES = {"image_shape_": "_image_shape"}  # attributes that had another name when format 1 was made


class SavedModel(NamedTuple):
    """What an estimator keeps in a file: arrays with the shapes they must have, and plain values."""

    arrays: Mapping[str, tuple[int | str, ...]]  # a name: any length, the same wherever it is named
    values: tuple[str, ...]
    told: tuple[str, ...] = ()  # numbers of the fit that predictions do without; older files have none


class Tensors:
    """The arrays of an open file whose names begin with `prefix`, by what follows it."""

    def __init__(self, file: Any, prefix: str = "") -> None:
        self._file, self._prefix = file, prefix
        names = [name for name in file.keys() if name.startswith(prefix)]  # noqa: SIM118
        self.shapes = {name.removeprefix(prefix): tuple(file.get_slice(name).get_shape()) for name in names}

    def read(self, name: str) -> np.ndarray:
        """One of them."""
        return self._file.get_tensor(self._prefix + name)


def save(model: Classifier, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to `path`, replacing what was there only once the new file is complete."""
    write(path, *contents(model))


def write(path: str | os.PathLike[str], header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
    """A model file of this header and these arrays."""
    text = json.dumps(header, allow_nan=False)
    write_atomically(Path(path), to_bytes(dict(arrays), metadata={"dcadl": text}))


def contents(model: Classifier) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Header and arrays of a fitted classifier's file."""
    if not model.__sklearn_is_fitted__():
        raise ValueError(f"This {type(model).__name__} is not fitted yet: call fit before save.")
    layout = model._saved()
    header = {
        "format": CLASSIFIER_FORMAT,
        "class": type(model).__name__,
        "params": {name: _plain(name, value) for name, value in model.get_params(deep=False).items()},
        "classes": _labels_out(model.classes_),
        "values": {
            NAMES_IN_FILES.get(name, name): _plain(name, getattr(model, name)) for name in layout.values
        },
    }
    if told := {name: _plain(name, getattr(model, name)) for name in layout.told if hasattr(model, name)}:
        header["told"] = told
    if hasattr(model, "temperature_"):
        header["temperature"] = float(model.temperature_)
    if hasattr(model, "training_"):
        header["training"] = model.training_
    arrays = {name: np.ascontiguousarray(getattr(model, name)) for name in layout.arrays}
    try:
        check_shapes(layout.arrays, {name: array.shape for name, array in arrays.items()})
        for name, array in arrays.items():
            finite_array(name, array)
    except ValueError as error:
        raise ValueError(
            f"The model is not as its parameters say: {error}. Were they set after fit?"
        ) from None
    return header, arrays


def read_header(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Format, class, parameters and class names of a model file."""
    with open_model_file(Path(path)) as (_, header):
        return header


@contextmanager
def open_model_file(path: Path) -> Iterator[tuple[Any, dict[str, Any]]]:
    """The file and its header; every error while it is open becomes a ValueError that names the file."""
    if not path.is_file():
        raise ValueError(f"Model file not found: {path}; save one with model.save(...) or `dcadl fit`.")
    try:
        open(path, "rb").close()  # safetensors calls a file that may not be read one that is not there
    except OSError as error:
        raise ValueError(f"Model file cannot be read: {path}: {error.strerror}.") from None
    try:
        with safe_open(path, framework="numpy") as file:
            yield file, _header_of(file)
    except SafetensorError as error:
        raise ValueError(f"{path} is damaged or no safetensors file: {one_line(error)}") from None
    except ValueError as error:
        raise ValueError(f"{path} is not a usable dcadl model: {one_line(error)}") from None
    except (KeyError, TypeError, AttributeError, IndexError, OverflowError, RecursionError, OSError) as error:
        what = one_line(repr(error))
        raise ValueError(f"{path} is not a usable dcadl model: its header is damaged ({what}).") from None


def _header_of(file: Any) -> dict[str, Any]:
    text = (file.metadata() or {}).get("dcadl")
    if text is None:
        raise ValueError("it is a safetensors file, but not one of dcadl's models")
    if len(text) > LONGEST_HEADER:
        raise ValueError(f"its header has {len(text)} characters; at most {LONGEST_HEADER} are read")
    header = json.loads(text, parse_constant=_no_constant)
    if not isinstance(header, dict):
        raise ValueError("its header is not a JSON object")
    version = header.get("format")
    if not is_integer(version) or version < 1:
        raise ValueError(f"its format must be an integer; got {version!r}")
    if version > FORMAT:
        raise ValueError(f"it has format {version}; this dcadl reads up to {FORMAT}. Upgrade dcadl.")
    return header


def rebuild(tensors: Tensors, header: dict[str, Any]) -> Classifier:
    """The classifier of a header, its arrays read from the file once their shapes are known to be right."""
    from dcadl import estimators  # here: the classes themselves import this module

    name = header["class"]
    if name not in estimators.__all__:
        raise ValueError(f"it holds a {name!r}, which this dcadl does not know")
    cls = getattr(estimators, name)
    model = cls(**{key: _unplain(key, value) for key, value in header["params"].items()})
    check_parameters_of(model)
    model.classes_ = _labels_in(header["classes"])
    attributes = {name: attribute for attribute, name in NAMES_IN_FILES.items()}
    values = {attributes.get(key, key): _tuples(value) for key, value in header["values"].items()}
    set_values(model, values)
    layout = model._saved()
    if set(values) != set(layout.values):
        raise ValueError(f"it must hold the values {sorted(layout.values)}; got {sorted(values)}")
    check_shapes(layout.arrays, tensors.shapes)
    for key in layout.arrays:
        setattr(model, key, finite_array(key, tensors.read(key)))
    model._check_fitted()
    set_told(model, layout.told, header.get("told", {}))
    if "temperature" in header:  # models of older files have none
        check_number("temperature", header["temperature"], 0, above=True)
        model.temperature_ = float(header["temperature"])
    if "training" in header:
        if not isinstance(header["training"], dict):
            raise ValueError(f"what it says of its training must be an object; got {header['training']!r}")
        model.training_ = header["training"]
    return model


def _no_constant(name: str) -> None:
    raise ValueError(f"its header holds {name}, which is no number")


def _labels_out(classes: np.ndarray) -> dict[str, Any]:
    kind = "str" if classes.dtype.kind in "OU" else classes.dtype.str
    if kind == "str" and not all(isinstance(c, str) for c in classes):
        raise ValueError(f"Class labels must be strings or numbers to be saved; got {classes.tolist()[:5]}.")
    return {"dtype": kind, "labels": classes.tolist()}


def _labels_in(saved: dict[str, Any]) -> np.ndarray:
    dtype = saved["dtype"]
    # NumPy takes many texts for a dtype, and parses some of them as Python
    if dtype != "str" and not re.fullmatch(r"[<>|][iufb]\d{1,2}", dtype):
        raise ValueError(f"class labels of dtype {dtype!r} are not supported")
    labels = saved["labels"]
    kinds = {"str": str, "b": bool, "f": int | float}
    kind = kinds.get("str" if dtype == "str" else np.dtype(dtype).kind, int)
    if not isinstance(labels, list) or not all(isinstance(label, kind) for label in labels):
        raise ValueError(f"class labels must be a list of {dtype}")
    # NumPy gives every label the room of the longest one.
    if dtype == "str" and len(labels) * max(map(len, labels), default=0) > LONGEST_HEADER:
        raise ValueError(f"class labels must fit in {LONGEST_HEADER} characters, each as long as the longest")
    classes = np.array(labels, dtype=str if dtype == "str" else dtype)
    # Written so that NaN, which is neither more nor less than anything, is refused as well.
    if len(classes) < 2 or not (classes[1:] > classes[:-1]).all() or not np.array_equal(classes, classes):
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
    if value is not None and not isinstance(value, str | int | float):
        raise ValueError(f"{name or 'A parameter'} cannot be kept in a model file: {value!r}.")
    return value


def _unplain(name: str, value: Any) -> Any:
    if name == "class_weight" and isinstance(value, list):
        return dict(value)
    return _tuples(value)


def _tuples(value: Any) -> Any:
    return tuple(_tuples(v) for v in value) if isinstance(value, list) else value


def normalisation_value(normalize: str | None) -> tuple[str, ...]:
    """What a model file must hold beside the parameters: the choice, where there was one."""
    return ("normalize_",) if normalize == "auto" else ()
