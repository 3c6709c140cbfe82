"""Trained models → operations: one function per method."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import singledispatch
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dcadl import __version__
from dcadl.deploy.operations import (
    FilterBank,
    GridPool,
    HardThreshold,
    HashedLinear,
    Linear,
    Operation,
    Program,
    Relu,
    Rescale,
    Softmax,
    SoftThreshold,
    Span,
    Split,
    UnitImage,
)
from dcadl.estimators import ADLSVM, DCADL, LOOADL, SADL, ConvNet, PatchRidge, PCANet, RandomAtoms
from dcadl.ops.floors import CONTRAST_FLOOR, WHITENED_FLOOR, WHITENER_RANK
from dcadl.ops.patches import Grid
from dcadl.ops.pool import Pyramid

if TYPE_CHECKING:
    from dcadl.estimators.base import Classifier

LOCAL = {"patch": "unit", "centred": "centred", "image": None, None: None}  # `normalize` → FilterBank.local


def operations_of(model: Classifier, *, scale: float = 1.0) -> Program:
    """
    A fitted model as a list of operations.

    Parameters
    ----------
    model : a fitted classifier of this package
    scale : float, default=1
        What pixels are multiplied by first: the operations on X give what `model.predict(scale * X)` gives.

    Returns
    -------
    Program

    Raises
    ------
    ValueError
        For methods whose prediction is no such list; the message says why.
    """
    body = _body(model)
    check_is_fitted(model)
    first = () if scale == 1 else (Rescale(float(scale)),)
    end = Softmax(float(getattr(model, "temperature_", 1.0)))
    program = Program(
        type(model).__name__,
        tuple(int(size) for size in model.image_shape_),
        np.asarray(model.classes_),
        (*first, *body(model), end),
        facts_of(model),
    )
    _check_features(program)
    return program


def facts_of(model: Classifier) -> dict[str, Any]:
    """What an export says of the model: method, version, parameters, and the training run where known."""
    facts = {
        "method": type(model).__name__,
        "dcadl_version": __version__,
        "parameters": {name: _plain(value) for name, value in model.get_params(deep=False).items()},
        "calibrated": hasattr(model, "temperature_"),
    }
    training = dict(getattr(model, "training_", {}))
    expected = getattr(model, "expected_accuracy_", _cross_validated(training))
    if expected is not None:
        facts["expected_accuracy"] = float(expected)
    return facts | ({"training": training} if training else {})


def _cross_validated(training: Mapping[str, Any]) -> float | None:
    """What cross-validation found, where the record has it; a model file may hold anything there."""
    found = training.get("cross_validated_accuracy")
    return found if isinstance(found, int | float) and 0 <= found <= 1 else None


def _check_features(program: Program) -> None:
    """Refuse a list whose classifier was fitted to other features: parameters were changed after the fit."""
    for operation, before, _ in program.steps():
        if isinstance(operation, Linear) and operation.coef.shape[1] != math.prod(before):
            raise ValueError(
                f"The model is not as its parameters say: its classifier takes {operation.coef.shape[1]} "
                f"features, but there are {math.prod(before)}. Were parameters set after fit?"
            )


@singledispatch
def _operations(model: Classifier) -> tuple[Operation, ...]:
    raise ValueError(_REFUSALS.get(type(model).__name__, f"{type(model).__name__} cannot be exported."))


def _body(model: Classifier) -> Any:
    """The method's translation; a refusal comes before any complaint that the model is not fitted."""
    body = _operations.dispatch(type(model))
    if body is _operations.dispatch(object):
        body(model)
    return body


_REFUSALS = {
    "LCKSVD": "LCKSVD cannot be exported: its codes come from orthogonal matching pursuit, a search for each "
    "sample.",
    "DADL": "DADL cannot be exported: it compares with the codes of all training samples.",
    "DPL": "DPL cannot be exported: its scores are reconstruction errors, not linear in features.",
}


@_operations.register
def _dcadl(model: DCADL) -> tuple[Operation, ...]:
    threshold = 0.0 if model.solver == "paper" else float(model.lam1)
    if model.codes == "split":
        return _on_patches(model, Split(np.full(model.n_atoms, threshold)))
    return _on_patches(model, SoftThreshold(threshold) if threshold > 0 else None)


@_operations.register
def _loo_adl(model: LOOADL) -> tuple[Operation, ...]:
    grid = model.grid_
    rows, columns = Program("", model.image_shape_, np.empty(0), (), {}).image[:2]
    down, across = rows // grid.image[0], columns // grid.image[1]  # large images are averaged down first
    average = FilterBank(np.full((1, down, across, 1), 1 / (down * across)), np.zeros(1), (down, across))
    reduced = () if down == across == 1 else (average._replace(per_channel=True),)
    cells, m = _cells(Pyramid(grid.counts, model.pool_)), len(model.atoms_)
    coef = np.moveaxis(model.coef_.reshape(-1, 2 * m, model.coef_.shape[1] // (2 * m)), 1, 2)
    end = Linear(coef.reshape(len(coef), -1), model.intercept_)
    return (*reduced, *_window_transform(model, grid), Split(model.thresholds_), cells, end)


def _window_transform(model: LOOADL, grid: Grid) -> tuple[FilterBank, ...]:
    """Responses of windows to the atoms: one bank, or whitening and then a bank on vectors of unit length."""
    if not model._usual:
        return (_bank(grid, model.atoms_, None if model.normalize_ is None else "centred"),)
    whitener = model._whitener.astype(np.float64)
    # atoms_ act on pixels, Φ = ΩZC; what acts on whitened windows is Ω = Φ(ZC)⁺, for ZC loses only the mean
    Omega = model.atoms_.reshape(len(model.atoms_), -1) @ np.linalg.pinv(whitener, rcond=WHITENER_RANK)
    mix = Omega.reshape(len(Omega), 1, 1, -1)
    second = FilterBank(mix, np.zeros(len(mix)), local="unit", floor=WHITENED_FLOOR * model._usual)
    return (_bank(grid, whitener, "centred"), second)


def _cells(pyramid: Pyramid) -> GridPool:
    """The grids of a pyramid as spans of rows and of columns."""

    def spans(n: int, side: int) -> tuple[Span, ...]:
        return tuple((i * n // side, (i + 1) * n // side) for i in range(side))

    rows, columns = pyramid.counts
    sides = [pyramid.sides(level) for level in pyramid.levels]
    return GridPool(tuple((spans(rows, down), spans(columns, across)) for down, across in sides))


@_operations.register
def _random_atoms(model: RandomAtoms) -> tuple[Operation, ...]:
    return _on_patches(model, SoftThreshold(float(model.lam1)) if model.lam1 > 0 else None)


@_operations.register
def _patch_ridge(model: PatchRidge) -> tuple[Operation, ...]:
    bank = _bank(model.grid_, np.eye(model.grid_.d), model.normalize_)
    return (*_unit_image(model.normalize_), bank, Linear(model.coef_, model.intercept_))


@_operations.register
def _convnet(model: ConvNet) -> tuple[Operation, ...]:
    match model.activation:
        case "relu":
            activation: tuple[Operation, ...] = (Relu(),)
        case "shrink":
            activation = (SoftThreshold(float(model.lam1)),)
        case _:
            activation = ()
    first = _bank(model.grid_, model.filters_, model.normalize_)._replace(bias=model.filter_bias_)
    found = [*_unit_image(model.normalize_), first, *activation]
    for filters, bias in zip(*((model.deep_filters_, model.deep_bias_) if model.n_layers > 1 else ((), ()))):
        around = filters.shape[-1] // 2
        found += [FilterBank(np.moveaxis(filters, 1, -1), bias, padding=(around,) * 4), *activation]
    return (*found, Linear(model.coef_, model.intercept_))


@_operations.register
def _pcanet(model: PCANet) -> tuple[Operation, ...]:
    stages = model._stages(np.float32)
    banks = [
        FilterBank(
            stage.filters.reshape(len(stage.filters), *stage.grid.patch, stage.grid.image[2]),
            -stage.offset,
            padding=_same_padding(stage.grid.patch),
            per_channel=i > 0,
        )
        for i, stage in enumerate(stages)
    ]
    blocks, (C, _), bins = model._blocks(model.image_shape_), model.coef_.shape, 2 ** len(stages[-1].filters)
    # A histogram is scaled to sum to its number of bins; the table has that in it.
    table = model.coef_.reshape(C, -1, blocks.p, bins) * (bins / blocks.d)
    rounding = float(np.finfo(np.float32).eps) * stages[-1].grid.d
    last = HashedLinear(banks[-1], blocks, np.moveaxis(table, 0, -1), model.intercept_, rounding)
    return (*banks[:-1], last)


@_operations.register
def _adlsvm(model: ADLSVM) -> tuple[Operation, ...]:
    bank = _bank(_whole(model), model.atoms_, "patch")
    threshold = SoftThreshold(float(model.lam1)) if model.penalty == "l1" else HardThreshold(model.sparsity_)
    coef, intercept = model.coef_, model.intercept_
    if len(coef) == 1:  # one machine for two classes: half its score for, half against
        coef, intercept = np.vstack([-coef, coef]) / 2, np.concatenate([-intercept, intercept]) / 2
    return (bank, threshold, Linear(coef, intercept))


@_operations.register
def _sadl(model: SADL) -> tuple[Operation, ...]:
    coef = model.coef_ @ model.structure_ @ model.atoms_
    return (*_unit_image(model.normalize), Linear(coef, np.zeros(len(coef), coef.dtype)))


def _on_patches(model: Classifier, coding: Operation | None) -> tuple[Operation, ...]:
    """Responses to atoms, their codes, and a linear map: what DCADL and its control predict by."""
    bank = _bank(model.grid_, model.atoms_, model.normalize_)
    codes: tuple[Operation, ...] = () if coding is None else (coding,)
    return (*_unit_image(model.normalize_), bank, *codes, Linear(model.coef_, model.intercept_))


def _bank(grid: Grid, filters: np.ndarray, normalize: str | None) -> FilterBank:
    m = len(filters)
    return FilterBank(
        np.asarray(filters).reshape(m, *grid.patch, grid.image[2]),
        np.zeros(m),
        grid.stride,
        local=LOCAL[normalize],
        floor=CONTRAST_FLOOR if normalize == "centred" else 0.0,
    )


def _unit_image(normalize: str | None) -> tuple[Operation, ...]:
    return (UnitImage(),) if normalize == "image" else ()


def _whole(model: Classifier) -> Grid:
    """One patch that is the sample."""
    rows, columns, channels = Program("", model.image_shape_, np.empty(0), (), {}).image
    return Grid((rows, columns, channels), (rows, columns), (1, 1))


def _same_padding(patch: tuple[int, int]) -> tuple[int, int, int, int]:
    """Zeros around a map so that every pixel has its patch, as `ops.filters.pad_images` lays them."""
    above, left = (patch[0] - 1) // 2, (patch[1] - 1) // 2
    return above, left, patch[0] - 1 - above, patch[1] - 1 - left


def _plain(value: Any) -> Any:
    """A parameter as JSON has it."""
    if isinstance(value, str | bool | int | float | None):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return str(value)
