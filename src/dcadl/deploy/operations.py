"""The one intermediate form of a trained model: a short list of operations from pixels to class scores.

Every export (ONNX, C, web page) is written from this list and from nothing else, so that they cannot differ.
A sample travels through the list as maps (rows, columns, channels), later as one vector of scores:

| Operation | From | To |
|---|---|---|
| `Rescale` | maps | maps, every value times a factor |
| `UnitImage` | maps | maps, the whole sample of unit length |
| `FilterBank` | maps | maps: responses of (normalised) patches to filters; 1×1 mixes channels |
| `SoftThreshold`, `HardThreshold`, `Relu`, `Split` | maps | maps, place by place |
| `GridPool` | maps | maps (1, cells, channels): averages over the cells of grids |
| `Linear`, `HashedLinear` | maps | scores |
| `Softmax` | scores | probabilities |
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from dcadl.ops.patches import Grid

Shape = tuple[int, int, int]  # rows, columns, channels
Span = tuple[int, int]  # from the first to before the second


class Int8(NamedTuple):
    """Weights (inputs, outputs) in 8 bits."""

    integers: np.ndarray  # (inputs, outputs) int8
    scales: np.ndarray  # (outputs,) float32
    powers: np.ndarray | None = None  # (inputs,) int8: the input's row is divided by 2^power

    @property
    def values(self) -> np.ndarray:
        """The weights that the integers stand for, float64."""
        values = self.integers * self.scales.astype(np.float64)
        return values if self.powers is None else values / 2.0 ** self.powers[:, None]


class Rescale(NamedTuple):
    """x·factor: what brings raw pixels to the range that the model was trained on."""

    factor: float


class UnitImage(NamedTuple):
    """x/‖x‖ over the whole sample; an all-zero one stays zero."""


class FilterBank(NamedTuple):
    """f·q + bias for every filter f at every place, q the patch there, normalised as `local` says.

    "unit": q = p/max(‖p‖, floor). "centred": q = (p − mean p)/max(‖p − mean p‖, floor·‖p‖). None: q = p.
    A length of zero counts as one.
    """

    filters: np.ndarray  # (m, h, w, c)
    bias: np.ndarray  # (m,)
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)  # zeros above, left, below, right
    local: str | None = None
    floor: float = 0.0
    per_channel: bool = False  # each filter (c = 1) on each channel alone; outputs ordered channel, filter
    int8: Int8 | None = None  # where filters are in 8 bits


class SoftThreshold(NamedTuple):
    """sign(x)·max(|x| − threshold, 0)."""

    threshold: float


class HardThreshold(NamedTuple):
    """The `keep` channels of largest magnitude at each place, the others zero."""

    keep: int


class Relu(NamedTuple):
    """max(x, 0)."""


class Split(NamedTuple):
    """max(x − t, 0) for every channel, then max(−x − t, 0) for every channel."""

    thresholds: np.ndarray  # (m,)


class GridPool(NamedTuple):
    """Averages over cells; cells ordered grid by grid, each row by row."""

    grids: tuple[tuple[tuple[Span, ...], tuple[Span, ...]], ...]  # of each grid: spans of rows, of columns


class Linear(NamedTuple):
    """W·features + b; features ordered row, column, channel."""

    coef: np.ndarray  # (C, features)
    intercept: np.ndarray  # (C,)
    int8: Int8 | None = None  # where coef is in 8 bits


class HashedLinear(NamedTuple):
    """PCANet's end: signs of a bank's responses as bits of one number a pixel, and for each block the sum of
    the table's rows that its pixels' numbers name (the histogram times the classifier, without histogram).

    A response counts as positive above rounding·(max |x| of its input map + max |bias|).
    """

    bank: FilterBank
    blocks: Grid
    table: np.ndarray  # (maps, blocks, 2^L, C)
    intercept: np.ndarray  # (C,)
    rounding: float
    int8: Int8 | None = None  # where the table is in 8 bits


class Softmax(NamedTuple):
    """exp(s/temperature), scaled to sum to one."""

    temperature: float


Operation = (
    Rescale
    | UnitImage
    | FilterBank
    | SoftThreshold
    | HardThreshold
    | Relu
    | Split
    | GridPool
    | Linear
    | HashedLinear
    | Softmax
)


class Program(NamedTuple):
    """A trained model as operations, and what a reader of an export wants to know of it."""

    method: str
    sample_shape: tuple[int, ...]  # as `predict` takes a sample: (H, W), (H, W, channels) or (length,)
    classes: np.ndarray
    operations: tuple[Operation, ...]
    facts: Mapping[str, Any]  # parameters, version and, where known, the training run

    @property
    def image(self) -> Shape:
        """Rows, columns and channels of a sample; a signal is one row high."""
        match self.sample_shape:
            case (length,):
                return (1, length, 1)
            case (rows, columns):
                return (rows, columns, 1)
            case (rows, columns, channels):
                return (rows, columns, channels)
        raise ValueError(f"sample_shape must have 1 to 3 numbers; got {self.sample_shape}.")

    def steps(self) -> list[tuple[Operation, Shape, Shape]]:
        """Every operation with the shape that comes in and the shape that goes out."""
        found, shape = [], self.image
        for operation in self.operations:
            after = output_shape(operation, shape)
            found.append((operation, shape, after))
            shape = after
        return found

    @property
    def temperature(self) -> float:
        """What scores are divided by before the softmax."""
        last = self.operations[-1]
        assert isinstance(last, Softmax)
        return last.temperature


def bank_grid(bank: FilterBank, shape: Shape) -> Grid:
    """Where the bank's patches lie on maps of `shape`, the zeros around them included."""
    rows, columns, channels = shape
    above, left, below, right = bank.padding
    _, h, w, _ = bank.filters.shape
    c = 1 if bank.per_channel else channels
    return Grid((rows + above + below, columns + left + right, c), (h, w), bank.stride)


def output_shape(operation: Operation, shape: Shape) -> Shape:
    """The shape of the maps after `operation`; scores are (1, 1, C)."""
    match operation:
        case FilterBank(filters=filters, per_channel=per_channel):
            return (*bank_grid(operation, shape).counts, len(filters) * (shape[2] if per_channel else 1))
        case Split():
            return (shape[0], shape[1], 2 * shape[2])
        case GridPool(grids=grids):
            return (1, sum(len(rows) * len(columns) for rows, columns in grids), shape[2])
        case Linear(intercept=b) | HashedLinear(intercept=b):
            return (1, 1, len(b))
    return shape


def is_identity(bank: FilterBank) -> bool:
    """Whether the bank hands the normalised patch on as it is."""
    m = len(bank.filters)
    flat = bank.filters.reshape(m, -1)
    return flat.shape == (m, m) and not bank.bias.any() and bool((flat == np.eye(m)).all())
