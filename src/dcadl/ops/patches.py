"""Which patches an image has, and the patches themselves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dcadl.arrays import Array, array_namespace, device_of, is_numpy


class Grid(NamedTuple):
    """Where patches lie: every valid position, no padding; leftover rows and columns are dropped."""

    image: tuple[int, int, int]  # (H, W, channels); a signal is one row high
    patch: tuple[int, int]
    stride: tuple[int, int]

    @property
    def counts(self) -> tuple[int, int]:
        """Patch positions down and across."""
        (H, W, _), (h, w), (down, right) = self
        return (H - h) // down + 1, (W - w) // right + 1

    @property
    def p(self) -> int:
        """Patches per image."""
        return math.prod(self.counts)

    @property
    def d(self) -> int:
        """Values in a patch: it spans all channels."""
        return math.prod(self.patch) * self.image[2]


def patch_grid(
    image_shape: Sequence[int], patch_shape: Any = None, stride: Any = None, *, name: str = "patch_shape"
) -> Grid:
    """The grid for images (H, W), (H, W, channels) or signals (length,).

    `patch_shape=None` is the whole sample; `stride=None` steps by half a patch. `name` is what the user calls
    the shape.
    """
    shape = _positive_ints(image_shape, "image_shape", (1, 2, 3))
    spatial = shape[:2]
    patch = spatial if patch_shape is None else _per_axis(patch_shape, len(spatial), name)
    if any(s > size for s, size in zip(patch, spatial)):
        raise ValueError(f"{name} must fit in image_shape; got {patch} in {spatial}. Use a smaller {name}.")
    step = (
        tuple(max(1, s // 2) for s in patch) if stride is None else _per_axis(stride, len(spatial), "stride")
    )
    if len(shape) == 1:
        return Grid((1, shape[0], 1), (1, patch[0]), (1, step[0]))
    channels = shape[2] if len(shape) == 3 else 1
    return Grid((shape[0], shape[1], channels), (patch[0], patch[1]), (step[0], step[1]))


def take_patches(X: Array, grid: Grid) -> Array:
    """P: every patch of every image, from rows (n, H·W·c) to (n, p, d)."""
    if is_numpy(X):
        return _strided_patches(X, grid)
    xp = array_namespace(X)
    table = xp.asarray(patch_table(grid).reshape(-1), device=device_of(X))
    return xp.reshape(xp.take(X, table, axis=1), (X.shape[0], grid.p, grid.d))


def patch_table(grid: Grid) -> np.ndarray:
    """(p, d): the position in the image's row of each value of each patch."""
    (H, W, c), (h, w), (down, right) = grid
    rows, cols = grid.counts
    pixels = np.arange(H * W * c).reshape(H, W, c)
    corners = np.arange(rows)[:, None] * down, np.arange(cols) * right
    windows = np.lib.stride_tricks.sliding_window_view(pixels, (h, w), axis=(0, 1))  # (…, c, h, w)
    return np.moveaxis(windows[corners], 2, -1).reshape(grid.p, grid.d)


def _strided_patches(X: np.ndarray, grid: Grid) -> np.ndarray:
    """The same by copying one run of a patch's row at a time: three times as fast as a gather."""
    (H, W, c), (h, w), (down, right) = grid
    rows, cols = grid.counts
    X = np.ascontiguousarray(X)
    item = X.itemsize
    runs = np.ndarray(
        (X.shape[0], rows, cols, h),
        dtype=np.dtype((np.void, w * c * item)),
        buffer=X,
        strides=(H * W * c * item, down * W * c * item, right * c * item, W * c * item),
    )
    return np.ascontiguousarray(runs).view(X.dtype).reshape(X.shape[0], grid.p, grid.d)


def _per_axis(value: Any, axes: int, name: str) -> tuple[int, ...]:
    """One number for every axis, or a number for each."""
    return _positive_ints([value] * axes if np.ndim(value) == 0 else value, name, (axes,))


def _positive_ints(value: Any, name: str, lengths: tuple[int, ...]) -> tuple[int, ...]:
    try:
        found = tuple(int(v) for v in value)
        whole = all(int(v) == v for v in value)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be whole numbers; got {value!r}.") from None
    if not whole or len(found) not in lengths or min(found, default=0) < 1:
        expected = " or ".join(str(length) for length in lengths)
        raise ValueError(f"{name} must be {expected} whole number(s) of at least 1; got {value!r}.")
    return found
