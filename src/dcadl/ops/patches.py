"""Which patches an image has, the patches themselves, and the contrast taken out of them.

How contrast is taken out decides the accuracy: see docs/errata.md, point 15.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dcadl.arrays import Array, array_namespace, device_of
from dcadl.ops.floors import CONTRAST_FLOOR, RANGE_MARGIN

# Of an image that nobody said more of: by cross-validation inside training halves (benchmarks/defaults.py).
AUTO_SHARE = 1 / 4  # of the shorter side
AUTO_LEAST, AUTO_SIDE = 3, 32  # pixels: smaller patches hold no pattern, larger ones cost their square
AUTO_PLACES = 12  # on an axis, at most

LARGEST = 2**31 - 1  # side or step of patches: with rows and bytes of pixels it is still an address
NORMALISATIONS = ("patch", "centred", "image", None)


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
        (H, W, _), (h, w), (down, right) = self
        return ((H - h) // down + 1) * ((W - w) // right + 1)

    @property
    def d(self) -> int:
        """Values in a patch: it spans all channels."""
        return math.prod(self.patch) * self.image[2]


def patch_grid(
    image_shape: Sequence[int], patch_shape: Any = None, stride: Any = None, *, name: str = "patch_shape"
) -> Grid:
    """The grid for images (H, W), (H, W, channels) or signals (length,).

    `patch_shape=None` is the whole sample, "auto" a quarter of an image's shorter side, or a whole vector;
    `stride=None` steps by half a patch. `name` is what the user calls the shape.
    """
    shape = _positive_ints(image_shape, "image_shape", (1, 2, 3))
    spatial = shape[:2]
    auto = isinstance(patch_shape, str) and patch_shape == "auto" and len(spatial) == 2
    if auto:
        side = max(AUTO_LEAST, round(AUTO_SHARE * min(spatial)))
        patch_shape = min(side, AUTO_SIDE, *spatial)
    elif isinstance(patch_shape, str) and patch_shape == "auto":
        patch_shape = None
    patch = spatial if patch_shape is None else _per_axis(patch_shape, len(spatial), name)
    if any(s > size for s, size in zip(patch, spatial)):
        raise ValueError(f"{name} must fit in image_shape; got {patch} in {spatial}. Use a smaller {name}.")
    step = _per_axis(stride, len(spatial), "stride") if stride is not None else _half(patch, spatial, auto)
    if len(shape) == 1:
        return Grid((1, shape[0], 1), (1, patch[0]), (1, step[0]))
    channels = shape[2] if len(shape) == 3 else 1
    return Grid((shape[0], shape[1], channels), (patch[0], patch[1]), (step[0], step[1]))


def _half(patch: tuple[int, ...], spatial: tuple[int, ...], auto: bool) -> tuple[int, ...]:
    """Half a patch; where the patch was not given either, more on large images, so that places stay few."""
    far = [-(-(size - s) // (AUTO_PLACES - 1)) if auto else 0 for s, size in zip(patch, spatial)]
    return tuple(max(1, s // 2, least) for s, least in zip(patch, far))


def atom_shape(grid: Grid, image_shape: tuple[int, ...]) -> tuple[int, ...]:
    """An atom in the user's own terms: (h, w), (h, w, channels) or (length,)."""
    return (*grid.patch[2 - len(image_shape[:2]) :], *image_shape[2:])


def value_fault(X: np.ndarray) -> str | None:
    """What is wrong with the numbers in X, or None; one pass over X where nothing is."""
    flat, info = X.ravel(order="K"), np.finfo(X.dtype)
    low = RANGE_MARGIN * math.sqrt(info.smallest_normal)
    high = math.sqrt(info.max) / RANGE_MARGIN
    with np.errstate(over="ignore", invalid="ignore"):
        energy = float(flat @ flat)
    if low**2 * X.size <= energy <= high**2:  # then so is the largest square, and nothing is NaN
        return None
    return _range_fault(flat, low, high) if X.size else None


def normalised_patches(X: Array, grid: Grid, how: str | None) -> Array:
    """Rows of pixels (n, H·W·c) to patches (n, p, d), contrast taken out as `how` says."""
    P = take_patches(X * inverse_lengths(X) if how == "image" else X, grid)
    if how == "patch":
        return P * inverse_lengths(P)
    return centred_rows(P) if how == "centred" else P


def responses(X: Array, grid: Grid, how: str | None, Omega: Array) -> Array:
    """ΩX̄ of rows of pixels, (n, p, m). Lengths may divide the responses: they are fewer than the pixels."""
    xp, m = array_namespace(X), Omega.shape[0]
    by_response = how == "patch" and m < grid.d
    P = take_patches(X, grid) if by_response else normalised_patches(X, grid, how)
    found = xp.reshape(xp.reshape(P, (-1, grid.d)) @ Omega.T, (X.shape[0], P.shape[1], m))
    if by_response:
        found *= inverse_lengths(P)
    return found


def take_patches(X: Array, grid: Grid) -> Array:
    """P: every patch of every image, from rows (n, H·W·c) to (n, p, d)."""
    if not isinstance(X, np.ndarray):
        xp = array_namespace(X)
        table = xp.asarray(patch_table(grid).reshape(-1), device=device_of(X))
        return xp.reshape(xp.take(X, table, axis=1), (X.shape[0], grid.p, grid.d))
    # One run of a patch's row copied at a time: three times as fast as a gather.
    (H, W, c), (h, w), (down, right) = grid
    rows, columns = (H - h) // down + 1, (W - w) // right + 1
    X = np.ascontiguousarray(X)
    item = X.itemsize
    runs = np.ndarray(
        (X.shape[0], rows, columns, h),
        dtype=np.dtype((np.void, w * c * item)),
        buffer=X,
        strides=(H * W * c * item, down * W * c * item, right * c * item, W * c * item),
    )
    return np.ascontiguousarray(runs).view(X.dtype).reshape(X.shape[0], rows * columns, h * w * c)


def patch_table(grid: Grid) -> np.ndarray:
    """(p, d): the position in the image's row of each value of each patch."""
    (H, W, c), (h, w), (down, right) = grid
    rows, cols = grid.counts
    pixels = np.arange(H * W * c).reshape(H, W, c)
    corners = np.arange(rows)[:, None] * down, np.arange(cols) * right
    windows = np.lib.stride_tricks.sliding_window_view(pixels, (h, w), axis=(0, 1))  # (…, c, h, w)
    return np.moveaxis(windows[corners], 2, -1).reshape(grid.p, grid.d)


def normalise_images(X: Array, how: str | None) -> Array:
    """X with rows of unit length, if `how` asks for that ("image"); else X."""
    return unit_rows(X) if how == "image" else X


def unit_rows(P: Array) -> Array:
    """Each vector along the last axis divided by its length; an all-zero one stays zero."""
    return P * inverse_lengths(P)


def centred_rows(P: Array) -> Array:
    """Each vector along the last axis less its mean, then divided by its length (with a floor)."""
    xp = array_namespace(P)
    centred = P - xp.mean(P, axis=-1, keepdims=True)
    own, before = xp.sqrt(xp.vecdot(centred, centred)), xp.sqrt(xp.vecdot(P, P))
    lengths = xp.maximum(own, CONTRAST_FLOOR * before)[..., None]
    return centred * (1 / xp.where(lengths > 0, lengths, 1.0))


def row_norms(P: Array) -> Array:
    """Length of each vector along the last axis, that axis kept."""
    xp = array_namespace(P)
    return xp.sqrt(xp.vecdot(P, P))[..., None]


def inverse_lengths(P: Array) -> Array:
    """One over the length of each vector along the last axis, and 1 for an all-zero one."""
    xp = array_namespace(P)
    lengths = xp.sqrt(xp.vecdot(P, P))[..., None]
    return 1 / xp.where(lengths > 0, lengths, 1.0)


def _range_fault(flat: np.ndarray, low: float, high: float) -> str | None:
    largest = max(float(flat.max()), -float(flat.min()))
    if not math.isfinite(largest):
        return "contains NaN or infinity"
    if largest > high or 0 < largest < low:
        return f"holds values up to {largest:.0e}, whose squares are no numbers,"
    return None


def _per_axis(value: Any, axes: int, name: str) -> tuple[int, ...]:
    """One number for every axis, or a number for each."""
    return _positive_ints([value] * axes if np.ndim(value) == 0 else value, name, (axes,))


def _positive_ints(value: Any, name: str, lengths: tuple[int, ...]) -> tuple[int, ...]:
    try:
        found = tuple(int(v) for v in value)
        whole = all(int(v) == v for v in value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} must be integers; got {value!r}.") from None
    if not whole or len(found) not in lengths or min(found, default=0) < 1:
        expected = " or ".join(str(length) for length in lengths)
        raise ValueError(f"{name} must be {expected} integer(s) of at least 1; got {value!r}.")
    if max(found) > LARGEST:
        raise ValueError(f"{name} must be at most {LARGEST}; got {value!r}.")
    return found
