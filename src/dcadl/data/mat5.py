"""MATLAB v5 files before they are unfolded: how many bytes they hold, and which cells hold texts only."""

import struct
import zlib
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path

from dcadl.data.limits import check_bytes

COMPRESSED, MATRIX = 15, 14  # kinds of elements
CELL, CHAR = 1, 4  # classes of matrices
HEAD_BYTES = 128
PIECE_BYTES = 2**18


def text_cells(path: Path, max_bytes: int) -> set[str]:
    """Names of the cell arrays whose cells are texts; a file that holds more than `max_bytes` is refused.

    The shapes that a file tells of are no measure: a matrix may hold more than its shape says, and a cell
    anything at all.
    """
    found, left = set(), max_bytes
    with path.open("rb") as file:
        order = "<" if file.read(HEAD_BYTES)[-2:] == b"IM" else ">"
        while len(tag := file.read(8)) == 8:
            kind, size = struct.unpack(f"{order}II", tag)
            content = _Content(_pieces(file, size, kind == COMPRESSED), order)
            if kind == COMPRESSED:
                content.tag()  # of the matrix inside
            name = content.name_of_text_cell()
            if name is not None:
                found.add(name)
            left -= content.rest(left)
            if left < 0:
                check_bytes((max_bytes - left,), 1, max_bytes, "its content")
    return found


def _pieces(file: BufferedReader, size: int, compressed: bool) -> Iterator[bytes]:
    """An element's bytes, some at a time."""
    inflate = zlib.decompressobj() if compressed else None
    while size > 0 and (raw := file.read(min(size, PIECE_BYTES))):
        size -= len(raw)
        if inflate is None:
            yield raw
            continue
        while raw:
            yield inflate.decompress(raw, PIECE_BYTES)
            raw = inflate.unconsumed_tail


class _Content:
    """The bytes of one element, read from front to back; what was read is counted."""

    def __init__(self, pieces: Iterator[bytes], order: str) -> None:
        self._pieces, self._order = pieces, order
        self._held = b""
        self.used = 0

    def take(self, size: int) -> bytes:
        """The next bytes; fewer at the end."""
        while len(self._held) < size and (piece := next(self._pieces, None)) is not None:
            self._held += piece
        found, self._held = self._held[:size], self._held[size:]
        self.used += len(found)
        return found

    def rest(self, most: int) -> int:
        """Bytes of the element in all; counted no further than a little over `most`."""
        self.used += len(self._held)
        for piece in self._pieces:
            self.used += len(piece)
            if self.used > most:
                break
        return self.used

    def tag(self) -> tuple[int, int, bytes]:
        """Kind and size of the next element, and its content where that is inside the tag."""
        first, second = struct.unpack(f"{self._order}II", self.take(8))
        if first >> 16:  # at most four bytes
            return first & 0xFFFF, 0, struct.pack(f"{self._order}I", second)[: first >> 16]
        return first, second, b""

    def name_of_text_cell(self) -> str | None:
        """The matrix's name, if it is a cell array of texts; None for all else."""
        try:
            kind, _, name = self._matrix_head()
            return name.decode("latin1") if kind == CELL and self._holds_texts() else None
        except struct.error:  # it ends too early, or is no matrix: the reader will say so
            return None

    def _holds_texts(self) -> bool:
        while head := self.take(8):
            kind, size = struct.unpack(f"{self._order}II", head)
            begun = self.used
            if kind != MATRIX or self._matrix_head()[0] != CHAR:
                return False
            self._skip(size - (self.used - begun))
        return True

    def _matrix_head(self) -> tuple[int, bytes, bytes]:
        """Class, dimensions and name."""
        flags, dimensions, name = (self._small() for _ in range(3))
        return struct.unpack(f"{self._order}I", flags[:4])[0] & 0xFF, dimensions, name

    def _small(self) -> bytes:
        """The content of the next element, which is a few bytes."""
        _, size, inside = self.tag()
        return inside or self.take(min(size + -size % 8, PIECE_BYTES))[:size]

    def _skip(self, size: int) -> None:
        while size > 0 and (passed := len(self.take(min(size, PIECE_BYTES)))):
            size -= passed
