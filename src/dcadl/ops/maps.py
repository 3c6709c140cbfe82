"""Dense responses as maps: windows of images, their lengths, and responses to a filter bank.

A patch x is a column of `windows`. Its mean is removed (C), its length made one, it is whitened (Z) and again
made of length one; the response of atom ω to it is then

    r = ωᵀZCx / ‖ZCx‖ = scale(x) · φᵀx,   φ = CZω

so that one filter bank Φ = ΩZC acts on raw pixels, and one number a place, `scale`, holds all lengths.

Maps of b images lie as (m, rows, b, columns): atoms first, images between rows and columns of places. Every
element-wise pass and every sum over rows then runs along memory, and responses are one large product.
"""

from __future__ import annotations

from typing import NamedTuple

from dcadl.arrays import Array, array_namespace, as_float64, at_least, at_most, row_major
from dcadl.ops.floors import CONTRAST_FLOOR, WHITENED_FLOOR
from dcadl.ops.patches import Grid
from dcadl.ops.pool import Pyramid, pool, unpool


class Front(NamedTuple):
    """How windows become comparable before they meet an atom."""

    grid: Grid
    whitener: Array  # (d, d): ZC, or C, or the identity
    contrast: bool  # whether lengths are taken out
    usual: float | None  # root mean square of ‖ZCx‖/‖Cx‖; None: lengths are not taken out again

    def on_places(self, stride: tuple[int, int]) -> Front:
        """The same with another step between windows."""
        return self._replace(grid=self.grid._replace(stride=stride))


def windows(X: Array, grid: Grid) -> Array:
    """Every window of every image, (b, H·W·c) → (d, rows, b, columns): values in the order of a patch."""
    xp = array_namespace(X)
    (h, w), (down, right) = grid.patch, grid.stride
    rows, cols = grid.counts
    images = _between(X, grid)
    shifted = [
        images[i : i + down * (rows - 1) + 1 : down, :, j : j + right * (cols - 1) + 1 : right, k]
        for i in range(h)
        for j in range(w)
        for k in range(grid.image[2])
    ]
    return xp.stack(shifted, axis=0)


def respond(Phi: Array, P: Array) -> Array:
    """ΦP, (m, d) and (d, rows, b, columns) → (m, rows, b, columns)."""
    xp = array_namespace(P)
    return xp.reshape(Phi @ xp.reshape(P, (P.shape[0], -1)), (Phi.shape[0], *P.shape[1:]))


def window_scales(X: Array, P: Array, front: Front) -> Array:
    """scale(x) of each window x, (rows, b, columns), given the images X and their windows P."""
    if not front.contrast:
        return array_namespace(X).ones_like(P[0, ...])
    inverse = inverse_contrast(X, front.grid)
    if front.usual is None:
        return inverse
    return inverse_whitened(P, inverse, front.whitener, front.usual)


def inverse_contrast(X: Array, grid: Grid) -> Array:
    """1/‖Cx‖ of each window x, (rows, b, columns): at most 1/(floor·‖x‖), and 0 where x = 0.

    Σx² − (Σx)²/d cancels where contrast is low. In float32 that leaves 1e-7 of ‖x‖², a thousandth of the
    floor below which contrast does not count.
    """
    xp = array_namespace(X)
    images = _between(X, grid)
    squares, sums = _window_sums(images * images, grid), _window_sums(images, grid)
    left = xp.maximum(squares - sums * sums / grid.d, CONTRAST_FLOOR**2 * squares)
    empty = xp.astype(left <= 0, left.dtype)  # xp.where takes NumPy ten times as long
    return (1 - empty) / xp.sqrt(left + empty)


def inverse_whitened(P: Array, inverse: Array, whitener: Array, usual: float) -> Array:
    """1/‖ZCx‖, (rows, b, columns), of windows P given 1/‖Cx‖ and ZC.

    Where ‖ZCx‖/‖Cx‖ is far below the usual it is rounding in a flat window, which must not become a pattern.
    """
    xp = array_namespace(P)
    white = respond(whitener, P)
    white *= white
    lengths = xp.sqrt(xp.sum(white, axis=0)) * inverse
    return inverse / xp.clip(lengths, min=WHITENED_FLOOR * usual)


def scaled_windows(X: Array, front: Front) -> Array:
    """Q = scale·P, (d, rows, b, columns): responses are ΦQ."""
    P = windows(X, front.grid)
    P *= window_scales(X, P, front)
    return P


def split_averages(R: Array, t: Array, pyramid: Pyramid) -> Array:
    """Averages of max(R − t, 0) and max(−R − t, 0) over the cells: (m, rows, b, columns) → (b, 2, m, cells).

    An average of max(R, t) is t more than one of max(R − t, 0): a pass over memory is saved on either side.
    """
    xp = array_namespace(R)
    wide, tall = xp.reshape(t, (-1, 1, 1, 1)), xp.reshape(t, (-1, 1))
    above, below = pool(at_least(R, wide), pyramid), pool(at_most(R, -wide), pyramid)
    return xp.stack([above - tall, -below - tall], axis=1)


def split_averages_back(D: Array, R: Array, t: Array, pyramid: Pyramid) -> tuple[Array, Array]:
    """dL/dR (m, rows, b, columns) and dL/dt (m,) from dL/d(averages), through the masks r > t and −r > t.

    Masks are multiplied by: xp.where takes NumPy ten times as long.
    """
    xp = array_namespace(R)
    t = xp.reshape(t, (-1, 1, 1, 1))
    above, below = xp.astype(t < R, R.dtype), xp.astype(-t > R, R.dtype)
    for mask, slope in ((above, D[:, 0, :, :]), (below, D[:, 1, :, :])):
        for rows, pull in zip(pyramid.row_slices(), unpool(slope, pyramid)):
            mask[:, rows, :, :] *= pull
    raised = as_float64(xp.sum(above, axis=(1, 2, 3)) + xp.sum(below, axis=(1, 2, 3)))
    above -= below
    return above, -raised


def _between(X: Array, grid: Grid) -> Array:
    """Rows of pixels as (H, b, W, c), in memory too: all that is made of them lies like them."""
    xp = array_namespace(X)
    return row_major(xp.permute_dims(xp.reshape(X, (X.shape[0], *grid.image)), (1, 0, 2, 3)))


def _window_sums(images: Array, grid: Grid) -> Array:
    """Σ of the values in each window, (H, b, W, c) → (rows, b, columns); no window is looked at."""
    (h, w), (down, right) = grid.patch, grid.stride
    total = images[..., 0] if grid.image[2] == 1 else array_namespace(images).sum(images, axis=3)
    return _run_sums(_run_sums(total, h, 0)[::down, :, :], w, 2)[:, :, ::right]


def _run_sums(A: Array, length: int, axis: int) -> Array:
    """Sums over every run of `length` along an axis: runs of 2, 4, 8, … added up as `length` is in binary."""
    count = A.shape[axis] - length + 1
    total, begin, size = None, 0, 1
    while True:
        if length & size:
            part = _along(A, axis, begin, begin + count)
            total, begin = part if total is None else total + part, begin + size
        if 2 * size > length:
            return total
        A = _along(A, axis, 0, A.shape[axis] - size) + _along(A, axis, size, A.shape[axis])
        size *= 2


def _along(A: Array, axis: int, begin: int, end: int) -> Array:
    return A[(slice(None),) * axis + (slice(begin, end), ...)]
