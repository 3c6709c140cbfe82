"""MATLAB v5 files before they are unfolded: are they sound, how much do they hold, which cells are texts.

SciPy's reader believes what it reads: an element of an unknown kind ends the process, and a cell may hold
anything.
"""

import math
import struct
import zlib
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from typing import NamedTuple

from dcadl.data.limits import check_bytes

INT32, UINT32, MATRIX, COMPRESSED = 5, 6, 14, 15  # kinds of elements
DATA = {1, 2, 3, 4, 5, 6, 7, 9, 12, 13, 16, 17, 18}  # those of numbers and letters
TEXT = {1, 16}  # of names
CELL, CHAR, SPARSE, NUMBERS = 1, 4, 5, range(6, 16)  # classes of matrices
COMPLEX = 0x0800
HEAD_BYTES = 128
PIECE_BYTES = 2**18
MOST_AXES = 32


def text_cells(path: Path, max_bytes: int) -> set[str]:
    """Names of the cell arrays whose cells are texts; a file that holds more than `max_bytes` is refused.

    The shapes that a file tells of are no measure: a matrix may hold more than its shape says, and a cell
    anything at all.
    """
    found, used = set(), 0
    with path.open("rb") as file:
        order = "<" if file.read(HEAD_BYTES)[-2:] == b"IM" else ">"
        while len(tag := file.read(8)) == 8:
            kind, size = struct.unpack(f"{order}II", tag)
            if kind not in (MATRIX, COMPRESSED):
                raise ValueError(f"an element is of kind {kind}, where a matrix should be")
            content = _Content(_pieces(file, size, kind == COMPRESSED), order, used, max_bytes)
            if kind == COMPRESSED:
                content.tag()  # of the matrix inside
            name = content.name_of_text_cell()
            if name is not None:
                found.add(name)
            used = content.end()
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


class _Head(NamedTuple):
    """What a matrix begins with."""

    kind: int  # its class
    parts: int  # elements of data that follow
    entries: int
    name: str


class _Content:
    """The bytes of one element, read from front to back; what was read is counted."""

    def __init__(self, pieces: Iterator[bytes], order: str, used: int, max_bytes: int) -> None:
        self._pieces, self._order = pieces, order
        self._held = b""
        self._used, self._most = used, max_bytes

    def end(self) -> int:
        """Bytes up to the end of the element."""
        self._count(len(self._held))
        for piece in self._pieces:
            self._count(len(piece))
        return self._used

    def _count(self, size: int) -> None:
        self._used += size
        check_bytes((self._used,), 1, self._most, "its content")

    def tag(self) -> tuple[int, int, bytes]:
        """Kind and size of the next element, and its content where that is inside the tag."""
        first, second = struct.unpack(f"{self._order}II", self._take(8))
        if first >> 16:  # at most four bytes
            return first & 0xFFFF, 0, struct.pack(f"{self._order}I", second)[: first >> 16]
        return first, second, b""

    def name_of_text_cell(self) -> str | None:
        """The matrix's name, if it is a cell array of texts; data that are not sound are refused."""
        head = self._head()
        if head.kind == CELL:
            return head.name if all(self._is_text() for _ in range(head.entries)) else None
        self._check_data(head)
        return None

    def _is_text(self) -> bool:
        """Whether the next cell is one sound text; it is passed by."""
        kind, size, _ = self.tag()
        if kind != MATRIX or size == 0:
            return False
        end = self._used + size
        head = self._head()
        if head.kind != CHAR:
            return False
        self._check_data(head)
        if self._used > end:
            raise ValueError("a text is longer than its cell")
        self._skip(end - self._used)
        return True

    def _check_data(self, head: _Head) -> None:
        """Pass by the data of a matrix, each an element of a kind that there is, and whole."""
        for _ in range(head.parts):
            kind, size, _inside = self.tag()
            if kind not in DATA:
                raise ValueError(f"data of kind {kind} are not known")
            self._skip(size + -size % 8)

    def _head(self) -> _Head:
        """Class, number of entries and name of a matrix, as SciPy will read them."""
        kind, size, _ = self.tag()
        flags = struct.unpack(f"{self._order}II", self._take(8))[0]
        if (kind, size) != (UINT32, 8):
            raise ValueError("a matrix has no flags")
        if flags & 0xFF not in (CELL, CHAR, SPARSE, *NUMBERS):  # never unfolded, nor looked into
            return _Head(flags & 0xFF, 0, 0, "")
        kind, size, _ = self.tag()
        if kind != INT32 or size % 4 or not 2 <= size // 4 <= MOST_AXES:
            raise ValueError("a matrix has no dimensions")
        sides = struct.unpack(f"{self._order}{size // 4}i", self._take(size + -size % 8)[:size])
        kind, size, inside = self.tag()
        if kind not in TEXT or size > PIECE_BYTES or min(sides) < 0:
            raise ValueError("a matrix has no name, or no dimensions")
        name = inside or self._take(size + -size % 8)[:size]
        parts = {CELL: 0, SPARSE: 3}.get(flags & 0xFF, 1) + bool(flags & COMPLEX)
        return _Head(flags & 0xFF, parts, math.prod(sides), name.decode("latin1"))

    def _take(self, size: int) -> bytes:
        """The next bytes."""
        while len(self._held) < size and (piece := next(self._pieces, None)) is not None:
            self._held += piece
        found, self._held = self._held[:size], self._held[size:]
        self._count(len(found))
        if len(found) < size:
            raise ValueError("a matrix ends too early")
        return found

    def _skip(self, size: int) -> None:
        while size > 0:
            size -= len(self._take(min(size, PIECE_BYTES)))
