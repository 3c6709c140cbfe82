"""Codes within a budget: kept in place while they fit, in a temporary file beyond."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np

from dcadl.arrays import fetch
from dcadl.solvers.walk import Recomputable, SerialWalk, Sums, Visit, Walk


class Spilled(NamedTuple):
    """Codes of a chunk that lie in a file."""

    store: CodeStore
    offset: int
    shape: tuple[int, ...]
    dtype: Any

    def read(self) -> np.ndarray:
        """Them, in memory."""
        U = np.empty(self.shape, self.dtype)
        self.store.read_into(U, self.offset)
        return U


class Dropped(NamedTuple):
    """Codes of a chunk that are computed again whenever they are asked for."""

    recompute: Callable[[], np.ndarray]
    shape: tuple[int, ...]

    def read(self) -> np.ndarray:
        """Them, in memory."""
        return self.recompute()


class CodeStore:
    """Places for the codes of each chunk: `room` bytes in memory, the rest in a file without a name.

    The file has no name from the start: however the process ends, nothing is left behind.
    """

    def __init__(self, room: int) -> None:
        self._room = room
        self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115
        self._end = 0

    def __enter__(self) -> CodeStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def places(self, shapes: Sequence[tuple[int, ...]], dtype: Any) -> list[tuple[Any, Any]]:
        """Two empty places for the codes of each chunk: for those of a pass, and of the one before it."""
        return [(self._place(shape, dtype), self._place(shape, dtype)) for shape in shapes]

    def _place(self, shape: tuple[int, ...], dtype: Any) -> Any:
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        if size <= self._room:
            self._room -= size
            return np.empty(shape, dtype)
        self._end += size
        return Spilled(self, self._end - size, shape, dtype)

    def read_into(self, U: np.ndarray, offset: int) -> None:
        """Fill U from the file."""
        view = U.data.cast("B")
        while view:
            count = os.preadv(self._file.fileno(), [view], offset)
            if not count:
                raise OSError("the temporary file of the codes ended early")
            view, offset = view[count:], offset + count

    def write(self, U: np.ndarray, offset: int) -> None:
        """Put U into the file."""
        view = np.ascontiguousarray(U).data.cast("B")
        while view:
            count = os.pwrite(self._file.fileno(), view, offset)
            view, offset = view[count:], offset + count


class KeepingWalk(SerialWalk):
    """A walk that puts what a chunk keeps into a place of that chunk, and hands it out from there.

    Codes that a visit is given stay as they are: a pass that is not taken has overwritten nothing. With
    `recompute`, codes that would lie in the file are computed again instead, where they can be.
    """

    def __init__(self, walk: Walk, places: Sequence[tuple[Any, Any]], recompute: bool = False) -> None:
        self._walk = walk
        self._places = places
        self._recompute = recompute

    def __call__(self, visit: Visit, *columns: Sequence[Any]) -> tuple[Sequence[Any], Sums]:
        def visit_at(places: tuple[Any, Any], *row: Any) -> tuple[Any, Sums]:
            kept, sums = visit(*(_here(entry) for entry in row))
            one, other = places
            free = other if any(entry is one for entry in row) else one
            return (None if kept is None else self._put(kept, free)), sums

        return self._walk(visit_at, self._places, *columns)

    def _put(self, kept: Any, place: Any) -> Any:
        U = kept.codes if isinstance(kept, Recomputable) else kept
        if not isinstance(place, Spilled):
            place[...] = U
        elif self._recompute and isinstance(kept, Recomputable) and not float(kept.rejected):
            return Dropped(kept.recompute, U.shape)
        else:
            place.store.write(U, place.offset)
        return place


def codes_at(entry: Any) -> np.ndarray:
    """Codes of a chunk as a NumPy array, wherever they lie."""
    return fetch(_here(entry))


def _here(entry: Any) -> Any:
    return entry.read() if isinstance(entry, Spilled | Dropped) else entry
