"""Images that stay where they are: read a chunk at a time from memory, a memory map, HDF5 or Zarr."""

from __future__ import annotations

import mmap
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np

from dcadl.arrays import Array, send
from dcadl.ops.patches import Grid, normalised_patches, value_fault
from dcadl.ops.ridge import to_contrasts
from dcadl.solvers.walk import even_slices, threads

OnDisk = Any  # anything with shape, dtype and slices along its first axis


def read_part(X: OnDisk, part: slice, first: int = 0) -> Any:
    """Some images from where they lie; what HDF5, Zarr and their codecs raise of damage is a ValueError."""
    if isinstance(X, np.ndarray):
        return X[part]
    try:
        return np.asarray(X[part])
    except Exception as error:
        fault = " ".join(f"{type(error).__name__}: {error}".split())
        raise ValueError(
            f"Images {first + part.start} to {first + part.stop - 1} of X cannot be read ({fault}); "
            "its file or a chunk of it is damaged."
        ) from error


class StoredImages(NamedTuple):
    """Images as rows of pixels in one precision, made when asked for."""

    X: OnDisk
    dtype: Any
    first: int = 0  # number of the first image where X is part of a larger array

    @property
    def n(self) -> int:
        """Number of images."""
        return int(self.X.shape[0])

    def rows(self, part: slice) -> np.ndarray:
        """Some images as rows; NaN and infinity are refused here, since no one looked before."""
        found = read_part(self.X, part, self.first)
        rows = self._rows_of(found)
        if isinstance(found, np.memmap):
            drop_pages(found)
        fault = value_fault(rows)
        if fault is not None:
            raise ValueError(
                f"Input X {fault} among images {self.first + part.start} to "
                f"{self.first + part.stop - 1}; "
                "remove or replace such images, or scale them to [0, 1]."
            )
        return rows

    def take(self, places: np.ndarray) -> np.ndarray:
        """Images as rows, in the order of `places`, whose values were looked at before (`digests`).

        What does not lie in memory is read one by one: others between them may be gigabytes.
        """
        if type(self.X) is np.ndarray:
            return self._rows_of(self.X[places])
        return np.concatenate([self.rows(slice(i, i + 1)) for i in places.tolist()])

    def _rows_of(self, found: Any) -> np.ndarray:
        return np.array(found, dtype=self.dtype, order="C").reshape(found.shape[0], -1)  # rows are hashed

    def digests(self) -> np.ndarray:
        """A number for each image, the same for the same pixels."""
        slices = even_slices(self.n, 1024)
        with threads(len(slices) if type(self.X) is np.ndarray else 1) as walk:
            found, _ = walk(lambda part: (self._digests(part), ()), slices)
        return np.concatenate(found)

    def _digests(self, part: slice) -> np.ndarray:
        found = [blake2b(row, digest_size=8).digest() for row in self.rows(part)]
        return np.array([int.from_bytes(digest) for digest in found], np.uint64)


class Labels(NamedTuple):
    """Labels less the intercept, and weights; rows are made for a chunk and dropped."""

    numbers: np.ndarray  # (n,) class of each image
    intercept: np.ndarray  # (C,)
    weight: np.ndarray | None  # (n,), or None for 1

    def rows(self, part: slice) -> np.ndarray:
        """Y of some images by contrasts, (b, C − 1)."""
        eye = np.eye(len(self.intercept), dtype=self.intercept.dtype)
        return to_contrasts(eye - self.intercept)[self.numbers[part]]


class StoredChunk:
    """A chunk as `descent.Chunk` has it, whose arrays live for one visit; patches longer where asked for."""

    def __init__(
        self, source: StoredImages, labels: Labels, part: slice, cut: PatchCutter, backend: str
    ) -> None:
        self._source, self._labels, self._part = source, labels, part
        self._cut, self._backend = cut, backend
        self._kept: Array | None = None

    def patches(self) -> Array:
        """(b, p, d), normalised."""
        if self._kept is not None:
            return self._kept
        return self._cut(send(self._source.rows(self._part), self._backend))

    def keep_patches(self) -> None:
        """Make them once: there is room."""
        self._kept = self.patches()

    @property
    def Y(self) -> Array:
        return send(self._labels.rows(self._part), self._backend)

    @property
    def weight(self) -> Array | None:
        weight = self._labels.weight
        return None if weight is None else send(weight[self._part], self._backend)


class PatchCutter(NamedTuple):
    """Rows of pixels to normalised patches. A class, so that it travels to other processes."""

    grid: Grid
    how: str | None

    def __call__(self, rows: Array) -> Array:
        return normalised_patches(rows, self.grid, self.how)


def drop_pages(found: np.memmap) -> None:
    """Pages of a memory map count as this process's memory until it lets go of them."""
    root: Any = found
    while isinstance(root, np.ndarray) and root.base is not None:
        root = root.base
    # Private pages (mode "c") may hold what was written to them and is nowhere else.
    if not isinstance(root, mmap.mmap) or found.mode == "c" or not hasattr(root, "madvise"):
        return
    if not found.flags.c_contiguous:
        return
    origin = np.frombuffer(root, np.uint8).__array_interface__["data"][0]
    begin = found.__array_interface__["data"][0] - origin
    aligned = begin - begin % mmap.PAGESIZE
    root.madvise(mmap.MADV_DONTNEED, aligned, begin + found.nbytes - aligned)
