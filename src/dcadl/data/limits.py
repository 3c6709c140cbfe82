"""How much a file may unfold to: a few compressed kilobytes can claim all the memory there is."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dcadl.data.errors import TooManyPixelsError

MAX_PIXELS = 64_000_000  # of one picture: a camera's 8000×6000 and some more
MAX_BYTES = 2 * 2**30  # of the arrays of one file, as they lie in memory


def check_pixels(width: int, height: int, most: int) -> None:
    """Refuse a picture by what its header says, before anything is decoded."""
    if width * height > most:
        raise TooManyPixelsError(
            f"a picture may have at most {most} pixels; got {width}×{height}. "
            "Shrink it, or raise max_pixels (--max-pixels) if you trust it."
        )


def check_bytes(shape: Sequence[int], itemsize: int, most: int, name: str = "its array") -> int:
    """Bytes of an array of this shape; refused where they are more than `most`."""
    size = math.prod(int(length) for length in shape) * itemsize
    if size > most:
        raise ValueError(
            f"{name} of shape {tuple(map(int, shape))} takes {size} bytes, more than the limit of {most}. "
            "Raise max_bytes (--max-bytes) if you trust the file."
        )
    return size
