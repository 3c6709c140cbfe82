"""Operations → ONNX nodes. Maps are (n, channels, rows, columns) there; patches never become an array."""

from __future__ import annotations

from itertools import count
from typing import Any

import numpy as np

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
    Shape,
    Softmax,
    SoftThreshold,
    Split,
    UnitImage,
    bank_grid,
    output_shape,
)
from dcadl.ops.patches import Grid, patch_table

OPSET = 17  # what every runtime of the last years reads


class Graph:
    """Nodes and constants, each with a name of its own."""

    def __init__(self, prefix: str = "") -> None:
        self.nodes: list[Any] = []
        self.constants: dict[str, np.ndarray] = {}
        self._prefix = prefix
        self._number = count()

    def node(self, kind: str, *inputs: Any, **attributes: Any) -> str:
        """Add a node; an array among its inputs becomes a constant. Returns its output's name."""
        from onnx import helper

        names = [self._constant(value) if isinstance(value, np.ndarray) else value for value in inputs]
        output = self._name(kind.lower())
        self.nodes.append(helper.make_node(kind, names, [output], name=output, **attributes))
        return output

    def rename(self, old: str, new: str) -> None:
        """Give a node's output the name that the outside knows it by."""
        for node in self.nodes:
            for names in (node.input, node.output):
                names[:] = [new if name == old else name for name in names]

    def _constant(self, value: np.ndarray) -> str:
        name = self._name("constant")
        self.constants[name] = value
        return name

    def _name(self, word: str) -> str:
        return f"{self._prefix}{word}_{next(self._number)}"


def add_program(graph: Graph, program: Program, pixels: str) -> tuple[str, str, str]:
    """The whole program on the value named `pixels`; the names of label, scores and probabilities."""
    rows, columns, channels = program.image
    maps = graph.node("Cast", pixels, to=_type("FLOAT"))
    maps = graph.node("Reshape", maps, np.array([-1, rows, columns, channels]))
    maps = graph.node("Transpose", maps, perm=[0, 3, 1, 2])
    for operation, shape, _ in program.steps()[:-1]:
        maps = _add(graph, operation, maps, shape)
    scores = graph.node("Flatten", maps)
    best = graph.node("ArgMax", scores, axis=1, keepdims=0)
    label = graph.node("Gather", label_array(program.classes), best)
    scaled = graph.node("Mul", scores, _float(1 / program.temperature))
    return label, scores, graph.node("Softmax", scaled, axis=1)


def label_array(classes: np.ndarray) -> np.ndarray:
    """Class labels in a type that ONNX has."""
    match classes.dtype.kind:
        case "i" | "u":
            return classes.astype(np.int64)
        case "f":
            return classes.astype(np.float32)
        case "b":
            return classes
    return classes.astype(str).astype(object)


def _add(graph: Graph, operation: Operation, x: str, shape: Shape) -> str:
    match operation:
        case Rescale(factor):
            return graph.node("Mul", x, _float(factor))
        case UnitImage():
            squares = graph.node("ReduceSum", graph.node("Mul", x, x), np.array([1, 2, 3]))
            return graph.node("Mul", x, _inverse_root(graph, squares))
        case FilterBank():
            return _filter_bank(graph, operation, x, shape)
        case SoftThreshold(threshold):
            clipped = graph.node("Clip", x, _float(-threshold), _float(threshold))
            return graph.node("Sub", x, clipped)
        case HardThreshold(keep):
            return _hard_threshold(graph, keep, x, shape)
        case Relu():
            return graph.node("Relu", x)
        case Split(thresholds):
            t = _float(thresholds).reshape(-1, 1, 1)
            positive = graph.node("Relu", graph.node("Sub", x, t))
            negative = graph.node("Relu", graph.node("Sub", graph.node("Neg", x), t))
            return graph.node("Concat", positive, negative, axis=1)
        case GridPool():
            return _grid_pool(graph, operation, x, shape)
        case Linear(coef, intercept):
            # our features are ordered row, column, channel; here the channel comes first
            ordered = np.moveaxis(coef.reshape(-1, *shape), -1, 1).reshape(len(coef), -1)
            found = graph.node("Gemm", graph.node("Flatten", x), _float(ordered), _float(intercept), transB=1)
            return graph.node("Unsqueeze", found, np.array([2, 3]))
        case HashedLinear():
            return _hashed_linear(graph, operation, x, shape)
        case Softmax():
            raise AssertionError("the softmax is the end of a program, not inside it")


def _filter_bank(graph: Graph, bank: FilterBank, x: str, shape: Shape) -> str:
    """One convolution; local lengths divide its outputs, and filters that add up to zero remove the mean."""
    filters = np.moveaxis(np.asarray(bank.filters, dtype=np.float64), -1, 1)  # (m, c, h, w)
    groups = shape[2] if bank.per_channel else 1
    if bank.local == "centred":
        filters = filters - filters.mean(axis=(1, 2, 3), keepdims=True)
    bias = np.tile(bank.bias, groups)
    options = {"strides": list(bank.stride), "pads": list(bank.padding), "group": groups}
    weights = _float(np.tile(filters, (groups, 1, 1, 1)))
    if bank.local is None:
        return graph.node("Conv", x, weights, _float(bias), **options)
    found = graph.node("Conv", x, weights, **options)
    lengths = _unit_lengths if bank.local == "unit" else _centred_lengths
    found = graph.node("Mul", found, lengths(graph, bank, x, shape))
    return graph.node("Add", found, _float(bias).reshape(-1, 1, 1)) if bias.any() else found


def _unit_lengths(graph: Graph, bank: FilterBank, x: str, shape: Shape) -> str:
    """1/max(‖p‖, floor) of every patch."""
    _, h, w, _ = bank.filters.shape
    ones = np.ones((1, shape[2], h, w), np.float32)
    squares = graph.node(
        "Conv", graph.node("Mul", x, x), ones, strides=list(bank.stride), pads=list(bank.padding)
    )
    if bank.floor > 0:
        squares = graph.node("Max", squares, _float(bank.floor**2))
    return _inverse_root(graph, squares)


def _centred_lengths(graph: Graph, bank: FilterBank, x: str, shape: Shape) -> str:
    """1/max(‖p − mean p‖, floor·‖p‖) of every patch, from sums over boxes.

    ‖p − mean p‖² = Σp² − (Σp)²/d loses in float32 what a patch of little contrast has: float64 here. A
    convolution in float64 is not what runtimes offer; a box sum is two products with matrices of ones.
    """
    grid = bank_grid(bank, shape)
    doubles = graph.node("Cast", x, to=_type("DOUBLE"))
    if any(bank.padding):
        above, left, below, right = bank.padding
        doubles = graph.node("Pad", doubles, np.array([0, 0, above, left, 0, 0, below, right]))
    down, across = (_box_sums(grid, axis) for axis in (0, 1))

    def box(values: str) -> str:
        summed = graph.node("ReduceSum", values, np.array([1]))  # patches span all channels
        return graph.node("MatMul", graph.node("MatMul", down, summed), across.T)

    sums, squares = box(doubles), box(graph.node("Mul", doubles, doubles))
    mean_part = graph.node("Mul", graph.node("Mul", sums, sums), np.array(1 / grid.d))
    contrast = graph.node("Sub", squares, mean_part)
    lowest = graph.node("Mul", squares, np.array(bank.floor**2))
    return _inverse_root(graph, graph.node("Cast", graph.node("Max", contrast, lowest), to=_type("FLOAT")))


def _inverse_root(graph: Graph, squares: str) -> str:
    """1/√x, and 1 for what is not above 0."""
    positive = graph.node("Greater", squares, _float(0))
    safe = graph.node("Where", positive, squares, _float(1))
    return graph.node("Reciprocal", graph.node("Sqrt", safe))


def _box_sums(grid: Grid, axis: int) -> np.ndarray:
    """(places, size): ones where a patch covers a row (axis 0) or a column (axis 1)."""
    found = np.zeros((grid.counts[axis], grid.image[axis]))
    for i, row in enumerate(found):
        start = i * grid.stride[axis]
        row[start : start + grid.patch[axis]] = 1
    return found


def _hard_threshold(graph: Graph, keep: int, x: str, shape: Shape) -> str:
    if keep >= shape[2]:
        return x
    from onnx import helper

    top = graph.node("TopK", graph.node("Abs", x), np.array([keep]), axis=1)
    places = f"{top}_places"
    graph.nodes[-1].output.append(places)
    nothing = graph.node(
        "ConstantOfShape",
        graph.node("Shape", x),
        value=helper.make_tensor("zero", _type("FLOAT"), [1], [0.0]),
    )
    return graph.node(
        "ScatterElements", nothing, places, graph.node("GatherElements", x, places, axis=1), axis=1
    )


def _grid_pool(graph: Graph, pool: GridPool, x: str, shape: Shape) -> str:
    """Averages over cells: for each grid a product from the left (rows) and one from the right (columns)."""
    parts = []
    for rows, columns in pool.grids:
        down, across = _cell_means(rows, shape[0]), _cell_means(columns, shape[1])
        cells = graph.node("MatMul", graph.node("MatMul", down, x), across.T.copy())
        parts.append(graph.node("Reshape", cells, np.array([0, 0, 1, -1])))
    return graph.node("Concat", *parts, axis=3)


def _cell_means(spans: Any, size: int) -> np.ndarray:
    found = np.zeros((len(spans), size), np.float32)
    for row, (start, stop) in zip(found, spans):
        row[start:stop] = 1 / (stop - start)
    return found


def _hashed_linear(graph: Graph, operation: HashedLinear, x: str, shape: Shape) -> str:
    """Bits → one number a pixel → rows of the table, summed over the blocks."""
    maps, n_blocks, bins, C = operation.table.shape
    bank, L = operation.bank, len(operation.bank.filters)
    rows, columns, _ = output_shape(bank, shape)
    # of each map that is hashed: the largest value that went into the bank
    sizes = graph.node("Reshape", graph.node("Abs", x), np.array([0, maps, 1, -1]))
    largest = graph.node("GlobalMaxPool", sizes)  # ReduceMax is written differently before and after opset 18
    floor = graph.node("Add", largest, _float(np.abs(bank.bias).max()))
    floor = graph.node("Mul", floor, _float(operation.rounding))
    responses = _filter_bank(graph, bank, x, shape)
    by_map = graph.node("Reshape", responses, np.array([-1, maps, L, rows * columns]))
    bits = graph.node("Cast", graph.node("Greater", by_map, floor), to=_type("FLOAT"))
    powers = _float(2.0 ** np.arange(L - 1, -1, -1)).reshape(1, L)
    codes = graph.node("Cast", graph.node("MatMul", powers, bits), to=_type("INT64"))  # (n, maps, 1, pixels)
    inside = graph.node("Gather", codes, patch_table(operation.blocks).astype(np.int64), axis=3)
    offsets = np.arange(maps * n_blocks).reshape(maps, 1, n_blocks, 1) * bins
    chosen = graph.node("Gather", _float(operation.table.reshape(-1, C)), graph.node("Add", inside, offsets))
    scores = graph.node("ReduceSum", chosen, np.array([1, 2, 3, 4]), keepdims=0)
    return graph.node("Unsqueeze", graph.node("Add", scores, _float(operation.intercept)), np.array([2, 3]))


def _float(value: Any) -> np.ndarray:
    return np.asarray(value, dtype=np.float32)


def _type(name: str) -> int:
    from onnx import TensorProto

    return int(getattr(TensorProto, name))
