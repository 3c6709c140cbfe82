"""MNIST's own file format: big-endian header, then bytes; plain or gzipped."""

import gzip
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from dcadl.data.bunch import make_bunch
from dcadl.data.limits import MAX_BYTES, check_bytes

UNSIGNED_BYTES = 8  # type code in the header
PARTS = ("train", "t10k")
BLOCK_BYTES = 2**20
MOST_AXES = 4  # images in colour


def read_mnist(folder: Path) -> Bunch:
    """Training and test part, in this order, from the four files of the original distribution."""
    images = [read_idx(_find(folder, f"{part}-images", "3")) for part in PARTS]
    labels = [read_idx(_find(folder, f"{part}-labels", "1")) for part in PARTS]
    return make_bunch(np.concatenate(images), np.concatenate(labels), train_size=len(labels[0]))


def read_idx(path: Path, max_bytes: int = MAX_BYTES) -> Any:
    """The array of one IDX file of bytes; a header that promises more than `max_bytes` is refused."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            zeros, kind, axes = struct.unpack(">HBB", file.read(4))
            if zeros != 0 or kind != UNSIGNED_BYTES:
                raise ValueError("its header is not that of an IDX file of bytes")
            shape = struct.unpack(f">{axes}I", file.read(4 * axes))
            size = check_bytes(shape, 1, max_bytes)
            if axes > MOST_AXES:
                raise ValueError(f"at most {MOST_AXES} axes are read; its header tells of {axes}")
            content = np.empty(size, np.uint8)
            found = _read_into(file, content)  # never more than the header promises
    except (OSError, EOFError, struct.error, zlib.error, ValueError, MemoryError) as error:
        raise ValueError(f"cannot read {path} as an IDX file: {error}") from error
    if found != size:
        raise ValueError(f"{path} is cut short: expected {size} bytes after its header; got {found}.")
    return content.reshape(shape)


def _read_into(file: Any, content: Any) -> int:
    """Fill the array block by block: memory that a header promises is taken only as it is filled."""
    found = 0
    while found < content.size and (block := file.read(min(content.size - found, BLOCK_BYTES))):
        content[found : found + len(block)] = np.frombuffer(block, np.uint8)
        found += len(block)
    return found


def _find(folder: Path, stem: str, axes: str) -> Path:
    names = [f"{stem}{dot}idx{axes}-ubyte{gz}" for dot in "-." for gz in ("", ".gz")]
    for name in names:
        for path in sorted(folder.rglob(name)):
            return path
    raise FileNotFoundError(f"expected {names[0]} or {names[1]} below {folder}; found neither.")
