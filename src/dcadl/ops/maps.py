"""Dense responses as maps: windows of images with places last, their lengths, and responses to a filter bank.

A patch x is a column of `windows`. Its mean is removed (C), its length made one, it is whitened (Z) and again
made of length one; the response of atom ω to it is then

    r = ωᵀZCx / ‖ZCx‖ = scale(x) · φᵀx,   φ = CZω

so that one filter bank Φ = ΩZC acts on raw pixels, and one number a place, `scale`, holds all lengths. Places
come last, (b, m, p): every element-wise pass then runs along memory.
"""

from __future__ import annotations

from typing import NamedTuple

from dcadl.arrays import Array, array_namespace, as_float64
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
    """Every window of every image, (b, H·W·c) → (b, d, p): values in the order of a patch, places last."""
    xp = array_namespace(X)
    (H, W, c), (h, w), (down, right) = grid
    rows, cols = grid.counts
    images = xp.reshape(X, (X.shape[0], H, W, c))
    shifted = [
        images[:, i : i + down * (rows - 1) + 1 : down, j : j + right * (cols - 1) + 1 : right, k]
        for i in range(h)
        for j in range(w)
        for k in range(c)
    ]
    return xp.reshape(xp.stack(shifted, axis=1), (X.shape[0], grid.d, grid.p))


def window_scales(X: Array, P: Array, front: Front) -> Array:
    """scale(x) of each window x, (b, p), given the images X and their windows P."""
    if not front.contrast:
        return array_namespace(X).ones_like(P[:, 0, :])
    inverse = inverse_contrast(X, front.grid)
    if front.usual is None:
        return inverse
    return inverse_whitened(P, inverse, front.whitener, front.usual)


def inverse_contrast(X: Array, grid: Grid) -> Array:
    """1/‖Cx‖ of each window x, (b, p): at most 1/(floor·‖x‖), and 0 where x = 0.

    Σx² − (Σx)²/d cancels where contrast is low. In float32 that leaves 1e-7 of ‖x‖², a thousandth of the
    floor below which contrast does not count.
    """
    xp = array_namespace(X)
    squares, sums = window_sums(X * X, grid), window_sums(X, grid)
    left = xp.maximum(squares - sums * sums / grid.d, CONTRAST_FLOOR**2 * squares)
    return xp.where(left > 0, 1 / xp.sqrt(xp.where(left > 0, left, 1.0)), 0.0)


def inverse_whitened(P: Array, inverse: Array, whitener: Array, usual: float) -> Array:
    """1/‖ZCx‖, (b, p), of windows P given 1/‖Cx‖ and ZC.

    Where ‖ZCx‖/‖Cx‖ is far below the usual it is rounding in a flat window, which must not become a pattern.
    """
    xp = array_namespace(P)
    white = whitener @ P  # (b, d, p)
    white *= white
    lengths = xp.sqrt(xp.sum(white, axis=1)) * inverse
    return inverse / xp.clip(lengths, min=WHITENED_FLOOR * usual)


def window_sums(X: Array, grid: Grid) -> Array:
    """Σ of the values in each window, (b, H·W·c) → (b, p): h + w additions a place instead of h·w·c."""
    xp = array_namespace(X)
    (H, W, c), (h, w), (down, right) = grid
    rows, cols = grid.counts
    total = xp.sum(xp.reshape(X, (X.shape[0], H, W, c)), axis=3)
    total = sum(total[:, i : i + down * (rows - 1) + 1 : down, :] for i in range(h))
    total = sum(total[:, :, j : j + right * (cols - 1) + 1 : right] for j in range(w))
    return xp.reshape(total, (X.shape[0], grid.p))


def scaled_windows(X: Array, front: Front) -> Array:
    """Q = scale·P, (b, d, p): responses are ΦQ."""
    P = windows(X, front.grid)
    P *= window_scales(X, P, front)[:, None, :]
    return P


def split_averages(R: Array, t: Array, pyramid: Pyramid) -> Array:
    """Averages of max(R − t, 0) and max(−R − t, 0) over the cells: (b, m, p) → (b, 2, m, cells).

    An average of max(R, t) is t more than one of max(R − t, 0): a pass over memory is saved on either side.
    """
    xp = array_namespace(R)
    t = xp.reshape(t, (-1, 1))
    above, below = pool(xp.maximum(R, t), pyramid), pool(xp.minimum(R, -t), pyramid)
    return xp.stack([above - t, -below - t], axis=1)


def split_averages_back(D: Array, R: Array, t: Array, pyramid: Pyramid) -> tuple[Array, Array]:
    """dL/dR (b, m, p) and dL/dt (m,) from dL/d(averages), through the masks r > t and −r > t."""
    xp = array_namespace(R)
    t = xp.reshape(t, (-1, 1))
    above = xp.where(t < R, unpool(D[:, 0, :, :], pyramid), 0.0)
    below = xp.where(-t > R, unpool(D[:, 1, :, :], pyramid), 0.0)
    raised = xp.sum(as_float64(xp.sum(above, axis=2) + xp.sum(below, axis=2)), axis=0)
    above -= below
    return above, -raised
