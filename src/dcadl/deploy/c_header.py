"""`to_c`: a trained model as one C99 header, without malloc and with no function of libm but sqrtf."""

from __future__ import annotations

import json
import os
import re
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dcadl.atomic import write_atomically
from dcadl.deploy.c_steps import Source, write_steps
from dcadl.deploy.operations import Program
from dcadl.deploy.quantise import Int8Loss, in_8_bits
from dcadl.deploy.translate import operations_of

if TYPE_CHECKING:
    from dcadl.estimators.base import Classifier

C_TYPES = {"f": ("float", 4), "i1": ("signed char", 1), "i2": ("short", 2)}
PER_LINE = 12


def to_c(
    model: Classifier,
    path: str | os.PathLike[str],
    *,
    name: str | None = None,
    scale: float = 1.0,
    int8_check: tuple[Any, Any] | None = None,
) -> Int8Loss | None:
    """
    Write a fitted model as a C99 header with `int NAME_predict(const unsigned char *pixels, float *scores)`.

    Parameters
    ----------
    model : a fitted classifier of this package
    path : the file to write
    name : str or None
        What all names in the file begin with. None: made from the file's name.
    scale : float, default=1
        What pixels are multiplied by: `NAME_predict` gives what `model.predict(scale * pixels)` gives.
    int8_check : (X, y) or None
        Keep weights in 8 bits, rounded so that the scores of every other of these samples (of raw pixels)
        stay what they were; the loss of accuracy on the rest is measured and written into the file.

    Returns
    -------
    Int8Loss or None
        What was measured, where weights are kept in 8 bits.
    """
    program = operations_of(model, scale=scale)
    loss = None
    if int8_check is not None:
        program, loss = in_8_bits(program, *int8_check)
    write_atomically(Path(path), c_header(program, name or c_name(path), loss).encode())
    return loss


def c_name(path: str | os.PathLike[str]) -> str:
    """A name made from the file's: whatever is no letter, digit or _ becomes _."""
    return re.sub(r"^(?=\d)|\W", "_", Path(path).stem, flags=re.ASCII)


def c_header(program: Program, name: str, loss: Int8Loss | None = None) -> str:
    """The header's text; of a program in 8 bits with the `loss` that was measured."""
    if not re.fullmatch(r"[A-Za-z_]\w*", name, flags=re.ASCII):
        raise ValueError(f"name must be an identifier of C, letters, digits and _; got {name!r}.")
    source = Source()
    source.buffer("x", int(np.prod(program.image)))
    write_steps(source, program)
    parts = [
        _comment(program, source, loss),
        "#ifndef NAME_H\n#define NAME_H\n\n#include <math.h>\n",
        f"#define NAME_CLASSES {len(program.classes)}\n#define NAME_PIXELS {int(np.prod(program.image))}\n",
        f"typedef {'float' if loss is None else 'signed char'} NAME_weight;\n",
        *(_array(key, values) for key, values in source.constants.items()),
        files("dcadl.deploy").joinpath("c/runtime.h").read_text("utf-8"),
        _label_function(program.classes),
        _predict_functions(source),
        "#endif\n",
    ]
    return re.sub(r"\bNAME_", f"{name}_", "\n".join(parts))


def _comment(program: Program, source: Source, loss: Int8Loss | None) -> str:
    flash = sum(values.size * _c_type(values)[1] for values in source.constants.values())
    ram = sum((2 if kind == "unsigned short" else 4) * length for kind, length in source.buffers.values())
    facts = program.facts
    shape = " x ".join(map(str, program.sample_shape))
    lines = [
        f"{program.method}, {len(program.classes)} classes, samples of {shape}; "
        f"dcadl {facts['dcadl_version']}.",
        f"Parameters: {json.dumps(facts['parameters'])}",
        f"Flash (constants): {flash} bytes. RAM (static buffers): {ram} bytes. Stack: a few dozen words.",
        "NAME_predict returns the index of the class and fills scores[NAME_CLASSES]; NAME_label names it.",
        "Pixels row by row, channels innermost. Buffers are static: one call at a time.",
    ]
    if loss is not None:
        lines.append(
            f"Weights in 8 bits: accuracy {loss.int8_accuracy:.4f}, with float weights {loss.accuracy:.4f}, "
            f"measured on {loss.n} samples."
        )
    text = "\n   ".join(lines).replace("*/", "* /").replace("/*", "/ *").replace("??", "? ?")
    return f"/* {text} */\n"


def _array(name: str, values: np.ndarray) -> str:
    kind, _ = _c_type(values)
    if kind == "float":
        words = [f"{v!s}f" for v in values.astype(np.float32).ravel()]
    else:
        words = [str(v) for v in values.ravel().tolist()]
    lines = [", ".join(words[i : i + PER_LINE]) for i in range(0, len(words), PER_LINE)]
    body = ",\n    ".join(lines)
    return f"static const {kind} {name}[{values.size}] = {{\n    {body}\n}};\n"


def _c_type(values: np.ndarray) -> tuple[str, int]:
    kind = values.dtype.kind
    return C_TYPES[kind if kind == "f" else values.dtype.str[1:]]


def _label_function(classes: np.ndarray) -> str:
    labels = ",\n        ".join(_c_string(str(label)) for label in classes)
    return (
        "static inline const char *NAME_label(int index) {\n"
        f"    static const char *const labels[NAME_CLASSES] = {{\n        {labels}\n    }};\n"
        '    return index >= 0 && index < NAME_CLASSES ? labels[index] : "";\n}\n'
    )


def _c_string(text: str) -> str:
    """A literal in plain ASCII; three octal digits each, so that no digit after them is taken in.

    Without an underscore, by which NAME_ is found and replaced in the whole header.
    """
    plain = "".join(
        chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\?_' else f"\\{byte:03o}"
        for byte in text.encode()
    )
    return f'"{plain}"'


def _predict_functions(source: Source) -> str:
    """The two doors, for bytes and for floats, and between them the work."""
    buffers = [
        f"static {kind} {name}[{length}];" for name, (kind, length) in source.buffers.items() if name != "x"
    ]
    indices = [f"int {name};" for name in "ijkrc" if _uses(source.lines, name)]
    copy = (
        "    int i;\n    for (i = 0; i < NAME_PIXELS; i++) {\n        NAME_x[i] = (float)pixels[i];\n    }\n"
    )
    run = "    NAME_run(NAME_x, scores);\n    return NAME_best(scores);\n}\n"
    work = "\n".join(_indented([*buffers, *indices, *source.lines]))
    return (
        "static float NAME_x[NAME_PIXELS];\n\n"
        f"static inline void NAME_run(float *x, float *scores) {{\n{work}\n}}\n\n"
        "static inline int NAME_predict(const unsigned char *pixels, float *scores) {\n"
        f"{copy}{run}\n"
        "static inline int NAME_predict_float(const float *pixels, float *scores) {\n"
        f"{copy}{run}"
    )


def _uses(lines: list[str], index: str) -> bool:
    return any(re.search(rf"\b{index}\b", line) for line in lines)


def _indented(lines: list[str]) -> list[str]:
    found, depth = [], 1
    for line in lines:
        depth -= line == "}"
        found.append("    " * depth + line)
        depth += line.endswith("{")
    return found
