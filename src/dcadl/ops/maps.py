"""Dense responses as maps: windows of images, their lengths, and responses to a filter bank.

A patch x is a column of `windows`. Its mean is removed (C), its length made one, it is whitened (Z) and again
made of length one; the response of atom ω to it is then

    r = ωᵀZCx / ‖ZCx‖ = scale(x) · φᵀx,   φ = CZω

so that one filter bank Φ = ΩZC acts on raw pixels, and one number a place, `scale`, holds all lengths.

Maps of b images lie as (rows, m, b, columns): every element-wise pass and every sum over rows runs along
memory. No window is cut for that. A `strip` holds each row of an image at every shift across that a window
looks at it with, and h strips that follow each other are, as they lie in memory, all windows of one row of
places: responses are one product a row, and what is copied of an image is h times smaller than its windows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from dcadl.arrays import Array, array_namespace, as_float64, row_major, zeros
from dcadl.ops.floors import CONTRAST_FLOOR, WHITENED_FLOOR
from dcadl.ops.patches import Grid
from dcadl.ops.pool import Pyramid, pool_bands, unpool


class WindowTransform(NamedTuple):
    """How windows become comparable before they meet an atom."""

    grid: Grid
    whitener: Array  # (d, d): ZC, or C, or the identity
    contrast: bool  # whether lengths are taken out
    typical_length: float | None  # root mean square of ‖ZCx‖/‖Cx‖; None: lengths are not taken out again

    def on_places(self, stride: tuple[int, int]) -> WindowTransform:
        """The same with another step between windows."""
        return self._replace(grid=self.grid._replace(stride=stride))


def strips(X: Array, grid: Grid) -> Array:
    """Rows of images at every shift across, (b, H·W·c) → (H, w·c, b, columns)."""
    xp = array_namespace(X)
    right, columns = grid.stride[1], grid.counts[1]
    images = _between(X, grid)
    shifted = [
        images[:, :, j : j + right * (columns - 1) + 1 : right, k]
        for j in range(grid.patch[1])
        for k in range(grid.image[2])
    ]
    return xp.stack(shifted, axis=1)


def rows_of_windows(S: Array, grid: Grid) -> list[Array]:
    """The windows of each row of places, (d, b·columns), values in the order of a patch: views of strips."""
    xp, down = array_namespace(S), grid.stride[0]
    begins = range(0, down * grid.counts[0], down)
    return [xp.reshape(S[i : i + grid.patch[0], ...], (grid.d, -1)) for i in begins]


def windows(X: Array, grid: Grid) -> Array:
    """Every window of every image, (b, H·W·c) → (rows, d, b, columns)."""
    return _stacked(strips(X, grid), grid)


def respond(Phi: Array, P: Array) -> Array:
    """ΦP, (m, d) and (rows, d, b, columns) → (rows, m, b, columns)."""
    xp = array_namespace(P)
    rows, d, *places = P.shape
    return xp.reshape(Phi @ xp.reshape(P, (rows, d, -1)), (rows, Phi.shape[0], *places))


def responses_by_row(Phi: Array, S: Array, scale: Array | None, grid: Grid) -> Iterator[Array]:
    """Scaled responses of the windows in strips S, a row of places at a time: (m, b, columns).

    `scale` is None, or (rows, k, b, columns) for a bank of k parts of equal size. What is made of a row
    before the next one comes stays in the processor's nearest cache.
    """
    xp = array_namespace(S)
    flat = None if scale is None else xp.reshape(scale, (*scale.shape[:2], 1, -1))
    fewer = flat is not None and flat.shape[1] == 1 and grid.d < Phi.shape[0]  # values of a window than atoms
    for i, P in enumerate(rows_of_windows(S, grid)):
        R = Phi @ (P * flat[i, 0, ...] if flat is not None and fewer else P)
        if flat is not None and not fewer:
            parts = xp.reshape(R, (flat.shape[1], -1, R.shape[1]))  # a view: R is multiplied
            parts *= flat[i, ...]
        yield xp.reshape(R, (-1, *S.shape[2:]))


def window_scales(X: Array, S: Array, transform: WindowTransform) -> Array | None:
    """scale(x) of each window x, (rows, b, columns), given images X and their strips S; None: all are 1."""
    if not transform.contrast:
        return None
    inverse = inverse_contrast(X, transform.grid)
    if transform.typical_length is None:
        return inverse
    return inverse_whitened(S, inverse, transform)


def inverse_contrast(X: Array, grid: Grid) -> Array:
    """1/‖Cx‖ of each window x, (rows, b, columns): at most 1/(floor·‖x‖), and 0 where x = 0.

    Σx² − (Σx)²/d cancels where contrast is low. In float32 that leaves 1e-7 of ‖x‖², a thousandth of the
    floor below which contrast does not count.
    """
    xp = array_namespace(X)
    images = _between(X, grid)
    both = _window_sums(xp.stack([images, images * images], axis=0), grid)
    sums, squares = both[0, ...], both[1, ...]
    left = xp.maximum(squares - sums * sums / grid.d, CONTRAST_FLOOR**2 * squares)
    empty = xp.astype(left <= 0, left.dtype)  # xp.where takes NumPy ten times as long
    return (1 - empty) / xp.sqrt(left + empty)


def inverse_whitened(S: Array, inverse: Array, transform: WindowTransform) -> Array:
    """1/‖ZCx‖, (rows, b, columns), of the windows in strips S given 1/‖Cx‖.

    Where ‖ZCx‖/‖Cx‖ is far below the usual it is rounding in a flat window, which must not become a pattern.
    """
    xp = array_namespace(S)
    assert transform.typical_length is not None
    squares = []
    for P in rows_of_windows(S, transform.grid):
        white = transform.whitener @ P
        white *= white
        squares.append(xp.sum(white, axis=0))
    lengths = xp.reshape(xp.sqrt(xp.stack(squares, axis=0)), inverse.shape) * inverse
    return inverse / xp.clip(lengths, min=WHITENED_FLOOR * transform.typical_length)


def scaled_windows(X: Array, transform: WindowTransform) -> Array:
    """Q = scale·P, (rows, d, b, columns): responses are ΦQ."""
    S = strips(X, transform.grid)
    scale, found = window_scales(X, S, transform), _stacked(S, transform.grid)
    if scale is not None:
        found *= scale[:, None, :, :]
    return found


def by_row(R: Array) -> list[Array]:
    """Maps (rows, m, b, columns) cut into rows of places."""
    return [R[i, ...] for i in range(R.shape[0])]


def split_averages(rows: Iterable[Array], t: Array, pyramid: Pyramid) -> Array:
    """Averages of max(R − t, 0) and max(−R − t, 0) over the cells, R given row by row: → (b, 2, m, cells).

    An average of max(R, t) is t more than one of max(R − t, 0): a pass over memory is saved on either side.
    """
    xp = array_namespace(t)
    found = pool_bands(_band_sums(rows, t, pyramid), pyramid)
    found = xp.reshape(found, (found.shape[0], 2, t.shape[0], -1))
    found[:, 1, ...] *= -1
    found -= xp.reshape(t, (-1, 1))
    return found


def _band_sums(rows: Iterable[Array], t: Array, pyramid: Pyramid) -> Iterator[Array]:
    """Sums of max(R, t) over the rows of each band, and of min(R, −t): (m, b, columns), two a band.

    Handed on as soon as a band ends: what is made of them finds them in the processor's cache.
    """
    xp, ends = array_namespace(t), set(pyramid.bands(0)[1:])
    above = below = up = down = None
    for i, R in enumerate(rows, start=1):
        if above is None:
            above = _spread(t, R)
            below = -above
        if up is None:
            up, down = xp.maximum(R, above), xp.minimum(R, below)
        else:
            up += xp.maximum(R, above)
            down += xp.minimum(R, below)
        if i in ends:
            yield up
            yield down
            up = None


def split_averages_back(D: Array, R: Array, t: Array, pyramid: Pyramid) -> tuple[Array, Array]:
    """dL/dR (rows, m, b, columns) and dL/dt (m,) from dL/d(averages), through the masks r > t and −r > t.

    Masks are multiplied by: xp.where takes NumPy ten times as long.
    """
    xp, (b, _, m, _) = array_namespace(R), D.shape
    above, below = _spread(t, R[0, ...]), -_spread(t, R[0, ...])
    pulls = unpool(xp.reshape(D, (b, 2 * m, -1)), pyramid)
    found, raised = xp.empty_like(R), zeros(R.shape[1:], R)
    for k, rows in enumerate(pyramid.row_slices()):
        for i in range(rows.start, rows.stop):
            up = xp.astype(R[i, ...] > above, R.dtype)
            up *= pulls[k, :m, ...]
            down = xp.astype(R[i, ...] < below, R.dtype)
            down *= pulls[k, m:, ...]
            found[i, ...] = up - down
            raised += up
            raised += down
    return found, -as_float64(xp.sum(raised, axis=(1, 2)))


def _spread(t: Array, R: Array) -> Array:
    """t for every image and column of a row R, (m, b, columns): NumPy compares whole rows far faster."""
    return array_namespace(R).reshape(t, (-1, 1, 1)) + zeros(R.shape, R)


def _stacked(S: Array, grid: Grid) -> Array:
    """Windows in strips S, cut: (rows, d, b, columns)."""
    xp = array_namespace(S)
    return xp.reshape(xp.stack(rows_of_windows(S, grid), axis=0), (-1, grid.d, *S.shape[2:]))


def _between(X: Array, grid: Grid) -> Array:
    """Rows of pixels as (H, b, W, c), in memory too: all that is made of them lies like them."""
    xp = array_namespace(X)
    return row_major(xp.permute_dims(xp.reshape(X, (X.shape[0], *grid.image)), (1, 0, 2, 3)))


def _window_sums(images: Array, grid: Grid) -> Array:
    """Σ of the values in each window, (…, H, b, W, c) → (…, rows, b, columns); no window is looked at.

    Runs across are added along rows of all images at once, those that reach into the next image too, and
    dropped then: sums over short runs of memory take longer.
    """
    xp, (h, w), (down, right) = array_namespace(images), grid.patch, grid.stride
    total = images[..., 0] if grid.image[2] == 1 else xp.sum(images, axis=-1)
    tall = _run_sums(total, h, -3)[..., ::down, :, :]
    flat = xp.reshape(tall, (*tall.shape[:-2], -1))
    behind = zeros((*flat.shape[:-1], w - 1), flat)
    wide = xp.reshape(_run_sums(xp.concat([flat, behind], axis=-1), w, -1), tall.shape)
    return wide[..., : right * (grid.counts[1] - 1) + 1 : right]


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
    """A cut along an axis counted from the end."""
    return A[(..., slice(begin, end), *(slice(None),) * (-1 - axis))]
