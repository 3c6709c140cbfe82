"""PCANet's output: signs of several maps packed into one number a pixel, then counted block by block."""

from __future__ import annotations

import numpy as np

from dcadl.arrays import Array, array_namespace, device_of, fetch, is_numpy
from dcadl.ops.patches import Grid, patch_table


def binary_codes(maps: Array, floor: Array | float = 0.0) -> Array:
    """T = Σ_l 2^(L−l)·1[map_l > floor], (n, pixels, L) → integers (n, pixels), the first map highest."""
    xp = array_namespace(maps)
    L = maps.shape[-1]
    # float32 counts exactly up to 2²⁴; a product is much faster than a sum over the short last axis
    weights = xp.asarray(2.0 ** np.arange(L - 1, -1, -1), dtype=maps.dtype, device=device_of(maps))
    codes = xp.astype(maps > floor, maps.dtype) @ weights
    return xp.astype(codes, xp.int64)


def block_histograms(codes: Array, blocks: Grid, bins: int) -> Array:
    """Counts of each code in each block, (n, pixels) → (n, blocks, bins)."""
    xp = array_namespace(codes)
    n = codes.shape[0]
    table = xp.asarray(patch_table(blocks).reshape(-1), device=device_of(codes))
    inside = xp.reshape(xp.take(codes, table, axis=1), (n * blocks.p, -1))  # one row per block
    offsets = xp.arange(n * blocks.p, dtype=codes.dtype, device=device_of(codes)) * bins
    flat = xp.reshape(inside + offsets[:, None], (-1,))
    return xp.reshape(_count(flat, n * blocks.p * bins), (n, blocks.p, bins))


def _count(values: Array, length: int) -> Array:
    """How often each of 0 … length−1 occurs."""
    if is_numpy(values):
        return np.bincount(fetch(values), minlength=length)
    xp = array_namespace(values)  # the standard has no bincount
    edges = xp.arange(length + 1, dtype=values.dtype, device=device_of(values))
    places = xp.searchsorted(xp.sort(values), edges)
    return places[1:] - places[:-1]
