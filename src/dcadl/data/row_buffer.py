"""Arrays that grow one picture at a time, in memory or in a `.npy` file, complete or not at all."""

import os
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from dcadl.atomic import remove_leftovers, temporary_beside

COPY_ROWS = 256


class RowBuffer:
    """Up to `n` equal arrays, stacked in memory."""

    def __init__(self, n: int) -> None:
        self.n, self.used = n, 0
        self.shape: tuple[int, ...] | None = None
        self._array: Any = None

    def append(self, row: Any) -> None:
        """Store the next row; the first one settles the shape."""
        if self._array is None:
            self.shape = row.shape
            self._array = self._allocate((self.n, *row.shape), row.dtype)
        self._array[self.used] = row
        self.used += 1

    def finish(self) -> Any:
        """All rows stored so far, as one array."""
        return self._array[: self.used]

    def _allocate(self, shape: tuple[int, ...], dtype: Any) -> Any:
        return np.empty(shape, dtype)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._array = None


class RaggedRowBuffer(RowBuffer):
    """Arrays of any shapes, as one array of objects."""

    def append(self, row: Any) -> None:
        """Store the next array."""
        if self._array is None:
            self._array = np.empty(self.n, dtype=object)
        self._array[self.used] = row
        self.used += 1


class MappedRowBuffer(RowBuffer):
    """The same in a `.npy` file that appears under its name only when it is complete."""

    def __init__(self, n: int, path: Path) -> None:
        super().__init__(n)
        if path.suffix != ".npy":
            raise ValueError(f"memmap must name a .npy file; got {path}.")
        if path.exists():
            raise ValueError(f"memmap must name a new file; {path} already exists.")
        self.path = path
        remove_leftovers(path)
        self._part, self._short = temporary_beside(path), temporary_beside(path)

    def finish(self) -> Any:
        """Move the file to its name, without the rows that were never used, and open it read-only."""
        self._array.flush()
        if self.used < self.n:
            self._drop_unused_rows()
        self._array = None
        os.replace(self._part, self.path)
        return np.load(self.path, mmap_mode="r", allow_pickle=False)

    def _allocate(self, shape: tuple[int, ...], dtype: Any) -> Any:
        return np.lib.format.open_memmap(self._part, mode="w+", dtype=dtype, shape=shape)

    def _drop_unused_rows(self) -> None:
        full = self._array
        short = np.lib.format.open_memmap(
            self._short, mode="w+", dtype=full.dtype, shape=(self.used, *full.shape[1:])
        )
        for start in range(0, self.used, COPY_ROWS):
            stop = min(start + COPY_ROWS, self.used)
            short[start:stop] = full[start:stop]
        short.flush()
        os.replace(self._short, self._part)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        self._part.unlink(missing_ok=True)
        self._short.unlink(missing_ok=True)
