"""Operations → C statements. Operations that work place by place run in one loop: no codes are stored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dcadl.deploy.operations import (
    FilterBank,
    GridPool,
    HardThreshold,
    HashedLinear,
    Int8,
    Linear,
    Operation,
    Program,
    Relu,
    Rescale,
    Shape,
    SoftThreshold,
    Split,
    UnitImage,
    bank_grid,
    is_identity,
    output_shape,
)

Step = tuple[Operation, Shape, Shape]
POINTWISE = (SoftThreshold, HardThreshold, Relu, Split)


class Source:
    """C text in the making: constants, buffers and statements."""

    def __init__(self) -> None:
        self.constants: dict[str, np.ndarray] = {}
        self.buffers: dict[str, tuple[str, int]] = {}  # name → type and length
        self.lines: list[str] = []

    def say(self, *lines: str) -> None:
        """Add statements."""
        self.lines += lines

    def constant(self, word: str, values: Any) -> str:
        """Keep an array as a constant, the same one only once; the name it has in C."""
        values = np.asarray(values)
        for name, known in self.constants.items():
            if known.dtype == values.dtype and np.array_equal(known, values):
                return name
        name = f"NAME_{word}_{len(self.constants)}"
        self.constants[name] = values
        return name

    def buffer(self, word: str, length: int, kind: str = "float") -> str:
        """Memory for at least `length` values under that name."""
        before = self.buffers.get(word, (kind, 0))[1]
        self.buffers[word] = (kind, max(length, before))
        return word

    def weights(self, word: str, W: np.ndarray, int8: Int8 | None) -> tuple[str, str, str]:
        """W (inputs, outputs) as a constant: its name, and those of its rows' powers and outputs' scales."""
        powers, scales = "(const signed char *)0", "(const float *)0"
        if int8 is None:
            return self.constant(word, W.astype(np.float32)), powers, scales
        if int8.powers is not None:
            powers = self.constant(f"{word}_powers", int8.powers)
        return self.constant(word, int8.integers), powers, self.constant(f"{word}_scales", int8.scales)


def write_steps(source: Source, program: Program) -> None:
    """Statements from the buffer `x` to the array `scores`."""
    steps = program.steps()[:-1]
    x = "x"
    while steps:
        match steps[0]:
            case (Rescale(factor), (rows, columns, channels), _):
                source.say(f"for (i = 0; i < {rows * columns * channels}; i++) {{ {x}[i] *= {_c(factor)}; }}")
                steps = steps[1:]
            case (UnitImage(), (rows, columns, channels), _):
                source.say(f"NAME_unit({x}, {rows * columns * channels}, 0.0f);")
                steps = steps[1:]
            case (HashedLinear() as hashed, shape, _):
                _hashed(source, hashed, shape, x)
                steps = steps[1:]
            case _:
                x, steps = _one_loop(source, steps, x)


def _one_loop(source: Source, steps: list[Step], x: str) -> tuple[str, list[Step]]:
    """A loop over the places of the first operation's output, as many operations inside as work there."""
    operation, shape, after = steps[0]
    v = "v0"
    if isinstance(operation, FilterBank):
        steps = steps[1:]
    else:
        after = shape
    begin = len(source.lines)
    source.say(f"for (r = 0; r < {after[0]}; r++) {{", f"for (c = 0; c < {after[1]}; c++) {{")
    if isinstance(operation, FilterBank):
        v = _patch_responses(source, operation, shape, x)
    else:
        source.buffer(v, shape[2])
        place = f"(r * {shape[1]} + c) * {shape[2]}"
        source.say(f"for (i = 0; i < {shape[2]}; i++) {{ {v}[i] = {x}[{place} + i]; }}")
    while steps and _is_pointwise(steps[0]):
        operation, shape, after = steps[0]
        v = _pointwise(source, operation, v, shape[2], after[2])
        steps = steps[1:]
    return _sink(source, steps, v, after, begin)


def _is_pointwise(step: Step) -> bool:
    operation = step[0]
    if isinstance(operation, FilterBank):
        alone = operation.filters.shape[1:3] == operation.stride == (1, 1)
        return alone and not any(operation.padding) and not operation.per_channel
    return isinstance(operation, POINTWISE)


def _patch_responses(source: Source, bank: FilterBank, shape: Shape, x: str) -> str:
    """The patch of place (r, c), normalised, and its responses; the buffer that they are in."""
    grid = bank_grid(bank, shape)
    count = grid.image[2]
    h, w = grid.patch
    corner = f"r * {bank.stride[0]} - {bank.padding[0]}, c * {bank.stride[1]} - {bank.padding[1]}"
    source.buffer("v0", grid.d)
    for first in range(0, shape[2], count):
        source.say(
            f"NAME_take({x}, {shape[0]}, {shape[1]}, {shape[2]}, {first}, {count}, {corner}, {h}, {w}, v0);"
        )
        if not bank.per_channel:
            return _bank(source, bank, "v0")
        _products(source, bank, "v0", f"v1 + {first * len(bank.filters)}")
    source.buffer("v1", len(bank.filters) * shape[2])
    return "v1"


def _bank(source: Source, bank: FilterBank, v: str) -> str:
    """Normalise v and multiply it with the filters; the buffer that holds the responses."""
    if is_identity(bank):
        _normalise(source, bank, v)
        return v
    other = _other(v)
    source.buffer(other, len(bank.filters))
    _products(source, bank, v, other)
    return other


def _normalise(source: Source, bank: FilterBank, v: str) -> None:
    d = bank.filters[0].size
    if bank.local == "unit":
        source.say(f"NAME_unit({v}, {d}, {_c(bank.floor)});")
    elif bank.local == "centred":
        source.say(f"NAME_centred({v}, {d}, {_c(bank.floor)});")


def _products(source: Source, bank: FilterBank, v: str, out: str) -> None:
    m, d = len(bank.filters), bank.filters[0].size
    _normalise(source, bank, v)
    weights, powers, scales = source.weights("filters", bank.filters.reshape(m, d).T, bank.int8)
    bias = source.constant("bias", bank.bias.astype(np.float32))
    source.say(
        f"NAME_clear({out}, {m});",
        f"NAME_add_product({v}, {d}, {weights}, {powers}, {m}, {out});",
        f"NAME_affine({out}, {m}, {scales}, {bias});",
    )


def _pointwise(source: Source, operation: Operation, v: str, n: int, after: int) -> str:
    other = _other(v)
    match operation:
        case FilterBank():
            return _bank(source, operation, v)
        case SoftThreshold(threshold):
            source.say(f"NAME_soft_threshold({v}, {n}, {_c(threshold)});")
            return v
        case Relu():
            source.say(f"NAME_relu({v}, {n});")
            return v
        case HardThreshold(keep):
            source.say(f"NAME_hard_threshold({v}, {n}, {keep}, {source.buffer(other, n)});")
        case Split(t):
            thresholds = source.constant("thresholds", t.astype(np.float32))
            source.say(f"NAME_split({v}, {n}, {thresholds}, {source.buffer(other, after)});")
    return other


def _sink(source: Source, steps: list[Step], v: str, shape: Shape, begin: int) -> tuple[str, list[Step]]:
    """Where the values of a place go: into the scores, into cells, or into a map for the next loop."""
    rows, columns, n = shape
    match steps[0][0]:
        case Linear(coef, intercept, int8):
            weights, powers, scales = source.weights("coef", coef.T, int8)
            bias = source.constant("intercept", intercept.astype(np.float32))
            C = len(intercept)
            place = f"{weights} + (r * {columns} + c) * {n * C}"
            shifts = f"{powers} + (r * {columns} + c) * {n}" if int8 else powers
            source.lines.insert(begin, f"NAME_clear(scores, {C});")
            source.say(f"NAME_add_product({v}, {n}, {place}, {shifts}, {C}, scores);", "}", "}")
            source.say(f"NAME_affine(scores, {C}, {scales}, {bias});")
            return "scores", steps[1:]
        case GridPool(grids):
            return _pool(source, grids, v, n, begin), steps[1:]
    kept = source.buffer(f"maps{len(source.buffers)}", rows * columns * n)
    source.say(f"for (i = 0; i < {n}; i++) {{ {kept}[(r * {columns} + c) * {n} + i] = {v}[i]; }}", "}", "}")
    return kept, steps


def _pool(source: Source, grids: Sequence[Any], v: str, n: int, begin: int) -> str:
    cells = sum(len(rows) * len(columns) for rows, columns in grids)
    kept = source.buffer("cells", cells * n)
    source.lines.insert(begin, f"NAME_clear({kept}, {cells * n});")
    before = 0
    for rows, columns in grids:
        names = [source.constant("spans", np.asarray(spans, dtype=np.int16)) for spans in (rows, columns)]
        source.say(
            f"NAME_add_to_cells({v}, {n}, r, c, {names[0]}, {len(rows)}, {names[1]}, {len(columns)}, "
            f"{kept} + {before * n});"
        )
        before += len(rows) * len(columns)
    source.say("}", "}")
    return kept


def _hashed(source: Source, hashed: HashedLinear, shape: Shape, x: str) -> None:
    """PCANet's end, one map at a time: numbers of its pixels, then the table's rows of each block."""
    maps, n_blocks, bins, C = hashed.table.shape
    bank, L = hashed.bank, len(hashed.bank.filters)
    rows, columns, _ = output_shape(bank, shape)
    count = 1 if bank.per_channel else shape[2]
    codes = source.buffer("codes", rows * columns, "unsigned short")
    table, _, scales = source.weights("table", hashed.table.reshape(-1, C), hashed.int8)
    source.say(f"NAME_clear(scores, {C});", f"for (k = 0; k < {maps}; k++) {{")
    source.say(
        f"const float lowest = {_c(hashed.rounding)} * (NAME_largest({x}, {shape[0] * shape[1]}, {shape[2]}, "
        f"k * {count}, {count}) + {_c(float(np.abs(bank.bias).max()))});"
    )
    source.say(f"for (r = 0; r < {rows}; r++) {{", f"for (c = 0; c < {columns}; c++) {{", "int code = 0;")
    h, w = bank.filters.shape[1:3]
    source.say(
        f"NAME_take({x}, {shape[0]}, {shape[1]}, {shape[2]}, k * {count}, {count}, r - {bank.padding[0]}, "
        f"c - {bank.padding[1]}, {h}, {w}, {source.buffer('v0', bank.filters[0].size)});"
    )
    _products(source, bank, "v0", source.buffer("v1", L))
    source.say(
        f"for (i = 0; i < {L}; i++) {{ code = 2 * code + (v1[i] > lowest); }}",
        f"{codes}[r * {columns} + c] = (unsigned short)code;",
        "}",
        "}",
    )
    _block_sums(source, hashed, f"{table} + (k * {n_blocks} + i) * {bins * C}", columns)
    bias = source.constant("intercept", hashed.intercept.astype(np.float32))
    source.say("}", f"NAME_affine(scores, {C}, {scales}, {bias});")


def _block_sums(source: Source, hashed: HashedLinear, table: str, columns: int) -> None:
    (h, w), (down, right) = hashed.blocks.patch, hashed.blocks.stride
    C, across = hashed.table.shape[-1], hashed.blocks.counts[1]
    source.say(
        f"for (i = 0; i < {hashed.blocks.p}; i++) {{",
        f"const NAME_weight *rows = {table};",
        f"const int top = i / {across} * {down}, left = i % {across} * {right};",
        f"for (r = top; r < top + {h}; r++) {{",
        f"for (c = left; c < left + {w}; c++) {{",
        f"const NAME_weight *row = rows + codes[r * {columns} + c] * {C};",
        f"for (j = 0; j < {C}; j++) {{ scores[j] += (float)row[j]; }}",
        "}",
        "}",
        "}",
    )


def _other(v: str) -> str:
    return "v1" if v == "v0" else "v0"


def _c(value: float) -> str:
    """A number as a float constant of C."""
    return f"{np.float32(value)!s}f"
