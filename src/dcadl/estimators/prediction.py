"""What predictions share: the way to a backend, scores of given patches, and data that is not loaded."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from scipy import sparse

from dcadl.arrays import Array, array_namespace, send
from dcadl.estimators.validation import is_dask, on_disk
from dcadl.ops.patches import Grid
from dcadl.solvers.sources import read_part
from dcadl.solvers.walk import map_rows

PART_BYTES = 64_000_000  # pixels that a prediction on unloaded data reads at once


def on_backend(backend: str, X: Array, *fitted: np.ndarray) -> tuple[Array, ...]:
    """X and fitted arrays on the backend, all in X's precision."""
    sent = send(X, backend)
    xp = array_namespace(sent)
    return sent, *(xp.astype(send(a, backend), sent.dtype, copy=False) for a in fitted)


def finite_scores(scores: Array, what: str = "Scores") -> Array:
    """The scores, unless one is no number: then no class can be named."""
    xp = array_namespace(scores)
    if not bool(xp.all(xp.isfinite(scores))):
        raise ValueError(
            f"{what} overflowed: the values of X, or the model's own, are too large to be multiplied. "
            "Scale the images as in fit, to [0, 1] for example."
        )
    return scores


def finite_codes(codes: Any) -> Any:
    """The codes, unless one is no number."""
    finite_scores(codes.data if sparse.issparse(codes) else codes, "Codes")
    return codes


class OnPatches(Protocol):
    """A fitted model that cuts images into patches."""

    grid_: Grid

    def _patch_scores(self, P: Array) -> Array: ...


def scores_of_patches(model: OnPatches, P: Array) -> Array:
    """Class scores (n, C) of images given as normalised patches (n, p, d): what is left of a prediction."""
    n, p, d = P.shape
    end_to_end = Grid((1, p * d, 1), (1, d), (1, d))
    return map_rows(lambda part: model._patch_scores(part.reshape(-1, p, d)), P.reshape(n, p * d), end_to_end)


def in_memory(X: Any) -> bool:
    """Whether X can be predicted in one go: it is neither a dask array nor left on disk."""
    return not is_dask(X) and not on_disk(X)


def in_parts(function: Callable[[Any], Any], X: Any, width: int | None, dtype: Any = None) -> Any:
    """`function` of an X that is not in memory; on disk, part after part; of a dask array, when computed.

    `width` columns come out, or None for one value per image. `dtype=None`: floating point as X's.
    """
    return _map_blocks(function, X, width, dtype) if is_dask(X) else _by_parts(function, X)


def _by_parts(function: Callable[[Any], Any], X: Any) -> Any:
    step = max(1, PART_BYTES // (4 * int(np.prod(X.shape[1:]))))
    ends = [*range(0, X.shape[0], step), X.shape[0]]
    parts = [function(np.asarray(read_part(X, slice(a, b)))) for a, b in pairwise(ends)]
    return sparse.vstack(parts, format="csr") if sparse.issparse(parts[0]) else np.concatenate(parts)


def _map_blocks(function: Callable[[Any], Any], X: Any, width: int | None, dtype: Any) -> Any:
    X = along_samples(X)
    tail = () if width is None else (width,)
    dtype = dtype or (np.float64 if X.dtype == np.float64 else np.float32)
    return X.map_blocks(
        function,
        drop_axis=list(range(1, X.ndim)),
        new_axis=None if width is None else 1,
        chunks=(X.chunks[0], *((w,) for w in tail)),
        meta=np.empty((0, *tail), dtype),
    )


def along_samples(X: Any) -> Any:
    """A dask array with whole images in every block."""
    if X.ndim not in (2, 3, 4) or np.dtype(X.dtype).kind not in "fiub":
        raise ValueError(
            f"X must hold rows (n, values) or images (n, H, W[, channels]) of numbers; got shape {X.shape} "
            f"of {X.dtype}."
        )
    if any(np.isnan(size) for size in X.shape):
        raise ValueError("The chunks of X have unknown sizes; call X.compute_chunk_sizes() first.")
    if X.shape[0] == 0:
        raise ValueError("Found array with 0 sample(s): X must hold at least one.")
    return X.rechunk(dict.fromkeys(range(1, X.ndim), -1)) if max(X.numblocks[1:]) > 1 else X
