"""Data that are not loaded: checked at the door, then read a chunk at a time within `max_memory`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from dcadl.arrays import blas_threads
from dcadl.estimators.validation import (
    TrainingSet,
    class_numbers,
    grid_of,
    random_code,
    sample_weights,
    stored_rows,
)
from dcadl.ops.patches import Grid
from dcadl.solvers.budget import largest_system, memory_bytes, memory_plan
from dcadl.solvers.code_ridge import chosen_normalisation
from dcadl.solvers.sources import Labels, PatchCutter, StoredChunk, StoredImages
from dcadl.solvers.spill import CodeStore, KeepingWalk
from dcadl.solvers.walk import Chunk, SerialWalk, Walk, host_slices, threads

if TYPE_CHECKING:
    from dcadl.estimators.dcadl.estimator import DCADL


def check_memory(model: DCADL) -> None:
    """Refuse a `max_memory` that is no size, or that nobody would keep."""
    memory_bytes(model.max_memory)
    if model.backend != "numpy" or model.solver == "paper":
        raise ValueError(
            f"max_memory is kept by solver='descent' on backend='numpy'; got solver={model.solver!r}, "
            f"backend={model.backend!r}. Leave it None there."
        )


def stored_images(model: DCADL, X: Any, y: Any, sample_weight: Any) -> TrainingSet:
    """Training images left where they are."""
    images, y, shape = stored_rows(model, X, y)
    grid = grid_of(model, shape)
    weight = sample_weights(sample_weight, model.class_weight, y, images.dtype)
    classes, numbers, intercept = class_numbers(y, weight, images.dtype)
    labels = Labels(numbers, intercept, weight)
    parts = partial(_parts, model, images, labels, grid)
    largest = largest_system(memory_bytes(model.max_memory))
    how = chosen_normalisation(model.normalize, grid, parts, *random_code(model, grid, images.dtype))
    return TrainingSet(
        classes, intercept, shape, grid, how, images.dtype, y, weight, partial(parts, how), largest
    )


@contextmanager
def _parts(
    model: DCADL, images: StoredImages, labels: Labels, grid: Grid, how: str | None
) -> Iterator[tuple[Sequence[Chunk], Walk]]:
    """Chunks read when visited; codes, and then patches, kept as far as `max_memory` allows."""
    itemsize = np.dtype(images.dtype).itemsize
    slices = host_slices(images.n, grid, itemsize)
    cut = PatchCutter(grid, how)
    chunks: Any = [StoredChunk(images, labels, part, cut, model.backend) for part in slices]
    limit = memory_bytes(model.max_memory)
    with ExitStack() as stack:
        walk: Walk = SerialWalk()
        if model.backend == "numpy":
            walk = stack.enter_context(threads(len(slices)))
        if limit is not None:
            C = len(labels.intercept)
            m = model._codes_per_patch()
            allowed = memory_plan(limit, images.n, grid, m, C, itemsize, blas_threads())
            if allowed.keep_patches:
                walk(lambda chunk: (chunk.keep_patches(), ()), chunks)
            store = stack.enter_context(CodeStore(allowed.code_room))
            shapes = [(part.stop - part.start, grid.p, m) for part in slices]
            places = store.places(shapes, images.dtype)
            walk = KeepingWalk(walk, places, recompute=model.overflow == "recompute")
        yield chunks, walk
