"""PCANet: filters from the patches' covariance, stage by stage, and hashed block histograms of their signs.

| Paper | Code | Meaning |
|---|---|---|
| k1 × k2 | `grid.patch` | size of a filter |
| L1, L2 | rows of `filters` | filters of each stage |
| W_l | `filters` | (L, k1·k2) leading eigenvectors of the patches' covariance, as rows |
| I_i^l | responses | a map of the size of the image for each filter |
| T_i^l | `binary_codes` | the signs of a stage's maps, packed into one number a pixel |
| B, Bhist | `blocks`, `block_histograms` | blocks, and the histogram of 2^L bins of each |

Nothing here iterates: a stage is one eigendecomposition of a sum over chunks of images.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from dcadl.arrays import Array, array_namespace, as_float64, row_major, zeros
from dcadl.ops.codes import by_image, by_patch
from dcadl.ops.filters import leading_filters, same_size_responses
from dcadl.ops.hashing import binary_codes, block_histograms
from dcadl.ops.patches import Grid, take_patches
from dcadl.solvers.walk import chunk_slices, walker


class Stage(NamedTuple):
    """Filters of one stage and what is taken off their responses."""

    filters: Array  # (L, d)
    offset: Array  # (L,) response of the mean patch; zero where each patch loses its own mean
    grid: Grid  # every position of a filter in an image, step 1


def learn_stage(X: Array, stages: tuple[Stage, ...], grid: Grid, count: int, centre: str) -> Stage:
    """The next stage's filters, from the valid patches of every map that `stages` make of every image."""
    xp = array_namespace(X)
    mean = zeros((grid.d,), X)
    if centre == "dataset":
        total, patches = _sums(X, stages, grid, lambda P: (xp.sum(as_float64(P), axis=0), P.shape[0]))
        mean = xp.astype(total / patches, X.dtype)

    def scatter(P: Array) -> tuple[Array]:
        P = P - (mean if centre == "dataset" else xp.mean(P, axis=1, keepdims=True))
        return (as_float64(P.T @ P),)

    (covariance,) = _sums(X, stages, grid, scatter)
    filters = row_major(xp.astype(leading_filters(covariance, count), X.dtype))
    if centre == "patch":  # exactly blind to brightness, so that no patch need be centred again
        filters = filters - xp.mean(filters, axis=1, keepdims=True)
    return Stage(filters, filters @ mean, grid)


def histograms(
    X: Array, stages: tuple[Stage, ...], blocks: Grid, keep: Callable[[Array], Any] = lambda rows: rows
) -> list[Any]:
    """`keep` of each chunk's features: histograms over maps of the stages before the last, then blocks.

    Each histogram is scaled to sum to its number of bins.
    """
    last = stages[-1]
    bins = 2 ** last.filters.shape[0]
    xp = array_namespace(X)

    def visit(part: slice) -> tuple[Any, tuple[()]]:
        maps = _maps(X[part, :], stages[:-1])
        responses = _responses(maps, last)
        counts = block_histograms(binary_codes(responses, _rounding(maps, last)), blocks, bins)
        scaled = xp.astype(counts, X.dtype) * (bins / blocks.d)
        return keep(xp.reshape(scaled, (part.stop - part.start, -1))), ()

    slices = _slices(X, stages[:-1], last.grid)
    with walker(X, slices) as walk:
        return list(walk(visit, slices)[0])


def _sums(X: Array, stages: tuple[Stage, ...], grid: Grid, sums: Callable[[Array], Any]) -> Any:
    """`sums` of the patches of each chunk, added up."""
    slices = _slices(X, stages, grid)

    def visit(part: slice) -> tuple[None, Any]:
        return None, sums(by_patch(take_patches(_maps(X[part, :], stages), grid)))

    with walker(X, slices) as walk:
        return walk(visit, slices)[1]


def _maps(X: Array, stages: tuple[Stage, ...]) -> Array:
    """The maps of every image after `stages`, one map a row, (n·L1·…, H·W)."""
    for stage in stages:
        xp = array_namespace(X)
        responses = xp.permute_dims(_responses(X, stage), (0, 2, 1))
        X = xp.reshape(responses, (-1, responses.shape[2]))
    return X


def _responses(X: Array, stage: Stage) -> Array:
    return same_size_responses(X, stage.filters, stage.grid) - stage.offset


def _rounding(X: Array, stage: Stage) -> Array:
    """What a flat patch may respond with by rounding alone, for each map: not to be hashed as a sign."""
    xp = array_namespace(X)
    largest = xp.max(xp.abs(by_image(X)), axis=1) + xp.max(xp.abs(stage.offset))
    return (float(xp.finfo(X.dtype).eps) * stage.grid.d * largest)[:, None, None]


def _slices(X: Array, stages: tuple[Stage, ...], grid: Grid) -> list[slice]:
    """Chunks whose patches stay in the cache, however many maps an image has after `stages`."""
    maps = math.prod(int(stage.filters.shape[0]) for stage in stages)
    n, step = int(X.shape[0]), max(1, chunk_slices(X, grid)[0].stop // maps)
    return [slice(i, min(i + step, n)) for i in range(0, n, step)]
