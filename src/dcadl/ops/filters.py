"""Filters slid over every pixel: zero padding, responses of all positions, and filters from a covariance."""

from __future__ import annotations

from dcadl.arrays import Array, array_namespace, zeros
from dcadl.ops.patches import Grid, take_patches


def pad_images(X: Array, grid: Grid) -> tuple[Array, Grid]:
    """Rows of pixels with zeros around them, and the grid on which each pixel has its patch."""
    xp = array_namespace(X)
    (H, W, c), (h, w), _ = grid
    n = X.shape[0]
    images = xp.reshape(X, (n, H, W, c))
    above, left = (h - 1) // 2, (w - 1) // 2
    sides = zeros((n, H, left, c), X), zeros((n, H, w - 1 - left, c), X)
    images = xp.concat([sides[0], images, sides[1]], axis=2)
    wide = W + w - 1
    images = xp.concat([zeros((n, above, wide, c), X), images, zeros((n, h - 1 - above, wide, c), X)], axis=1)
    padded = Grid((H + h - 1, wide, c), grid.patch, (1, 1))
    return xp.reshape(images, (n, -1)), padded


def same_size_responses(X: Array, filters: Array, grid: Grid) -> Array:
    """Response of each filter at each pixel, zeros beyond the border: (n, H·W·c) → (n, H·W, filters)."""
    xp = array_namespace(X)
    padded, everywhere = pad_images(X, grid)
    P = take_patches(padded, everywhere)
    return xp.reshape(xp.reshape(P, (-1, everywhere.d)) @ filters.T, (X.shape[0], everywhere.p, -1))


def leading_filters(covariance: Array, count: int) -> Array:
    """The `count` leading eigenvectors as rows, largest first, each with its largest entry positive."""
    xp = array_namespace(covariance)
    filters = xp.flip(xp.linalg.eigh(covariance)[1].T, axis=0)[:count, :]
    # An eigenvector's sign is arbitrary: fix it, so that every machine learns alike.
    largest = xp.max(filters, axis=1, keepdims=True) + xp.min(filters, axis=1, keepdims=True)
    return xp.where(largest < 0, -filters, filters)
