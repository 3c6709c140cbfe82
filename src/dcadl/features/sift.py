"""
Dense SIFT: gradient histograms of square patches on a regular grid, every patch upright and of one size.

A patch has 4×4 spatial bins and 8 orientations. A gradient counts by its length, shared linearly between
neighbouring orientations and between neighbouring bins, under a Gaussian window as wide as half the patch.
Both shares and the window are products of a row factor and a column factor, so that all histograms of an
image are `Ky · maps · Kxᵀ`: two matrix products for each orientation.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from dcadl.arrays import tiny

BINS = 4  # along each side
ORIENTATIONS = 8
DIMENSION = BINS * BINS * ORIENTATIONS
CLIP = 0.2  # Lowe's bound on one entry, against single strong edges
GREY_RANGE = 255.0


class PatchCentres(NamedTuple):
    """Centres of the patches, in pixels: rows × columns of them."""

    rows: Any
    columns: Any


def dense_sift(image: Any, *, patch: int = 16, step: int = 6, floor: float = 0.0) -> tuple[Any, PatchCentres]:
    """
    SIFT descriptors (patches, 128) float32 of a grey image, row by row of the grid, and the grid.

    Parameters
    ----------
    image : (H, W) grey values, uint8 or floats in 0..255
    patch : side of a patch in pixels, a multiple of 4
    step : distance of neighbouring patches in pixels
    floor : smallest length a histogram is divided by; faint patches below it stay short instead of noisy
    """
    if image.ndim != 2 or min(image.shape) < patch:
        raise ValueError(
            f"expected a grey image of at least {patch}×{patch} pixels; got shape {image.shape}."
        )
    grid = PatchCentres(*(_centres(length, patch, step) for length in image.shape))
    Ky, Kx = (_share_matrix(length, patch, step) for length in image.shape)
    return unit(histograms(image, Ky, Kx), floor), grid


def histograms(image: Any, Ky: Any, Kx: Any) -> Any:
    """Gradient histograms (patches, 128), not normalised, under the share matrices of rows and columns."""
    maps = orientation_maps(image)  # (8, H, W)
    counts = np.matmul(np.matmul(Ky, maps), Kx.T)  # (8, 4·rows, 4·columns)
    rows, columns = len(Ky) // BINS, len(Kx) // BINS
    counts = counts.reshape(ORIENTATIONS, rows, BINS, columns, BINS)
    return counts.transpose(1, 3, 2, 4, 0).reshape(rows * columns, DIMENSION)


def orientation_maps(image: Any) -> Any:
    """Gradient lengths (8, H, W), each pixel's shared between the two orientations next to its own."""
    dy, dx = np.gradient(np.asarray(image, dtype=np.float32) / np.float32(GREY_RANGE))
    length = np.sqrt(dx * dx + dy * dy)
    turn = np.arctan2(dy, dx) * np.float32(ORIENTATIONS / (2 * np.pi))
    turn[turn < 0] += ORIENTATIONS  # in bins, 0..8
    maps = np.empty((ORIENTATIONS, *image.shape), dtype=np.float32)
    for orientation in range(ORIENTATIONS):
        share = np.abs(turn - np.float32(orientation))
        np.minimum(share, ORIENTATIONS - share, out=share)  # the circle closes
        np.maximum(1 - share, 0, out=share)
        np.multiply(share, length, out=maps[orientation])
    return maps


def shares(centres: Any, length: int, patch: int) -> Any:
    """Weights (4·centres, length) of every pixel along one axis in the four bins of every patch."""
    width = patch / BINS
    pixels = np.arange(length)
    offset = pixels[None, :] - np.asarray(centres, dtype=float)[:, None]  # (centres, length)
    bins = (np.arange(BINS) - (BINS - 1) / 2) * width
    triangle = np.maximum(0.0, 1.0 - np.abs(offset[:, None, :] - bins[None, :, None]) / width)
    window = np.exp(-0.5 * (offset / (patch / 2)) ** 2)
    return (triangle * window[:, None, :]).reshape(-1, length).astype(np.float32)


def unit(counts: Any, floor: float = 0.0) -> Any:
    """Histograms at length 1, entries clipped at 0.2, at length 1 again; an empty one stays zero."""
    shortest = np.float32(max(floor, tiny(counts)))
    counts = counts / np.maximum(np.linalg.norm(counts, axis=1, keepdims=True), shortest)
    faint = np.linalg.norm(counts, axis=1, keepdims=True)  # below 1 only where the floor held
    counts = np.minimum(counts, np.float32(CLIP))
    again = np.maximum(np.linalg.norm(counts, axis=1, keepdims=True), tiny(counts))
    return counts * (np.minimum(faint, 1) / again)


def root_sift(descriptors: Any) -> Any:
    """RootSIFT: √(x / ‖x‖₁); distances between these are Hellinger distances of the histograms."""
    return np.sqrt(descriptors / np.maximum(descriptors.sum(axis=1, keepdims=True), 1))


def _centres(length: int, patch: int, step: int) -> Any:
    """Centres along one axis, the unused margin shared between both ends."""
    start = (length - patch) % step // 2
    return np.arange(start, length - patch + 1, step) + (patch - 1) / 2


@lru_cache(maxsize=256)
def _share_matrix(length: int, patch: int, step: int) -> Any:
    """Share matrix of an axis; images of one set repeat few lengths."""
    return shares(_centres(length, patch, step), length, patch)
