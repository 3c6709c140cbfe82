"""From checked data to a fitted state: the two solvers, over data in memory or a chunk at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from dcadl.arrays import Array, fetch, send
from dcadl.arrays.threads import blas_threads
from dcadl.estimators.checkpoint import Checkpoint
from dcadl.estimators.start import gaussian_atoms, pca_atoms, uniform_start
from dcadl.ops.patches import normalised_patches
from dcadl.solvers import descent, paper
from dcadl.solvers.budget import memory_bytes, memory_plan
from dcadl.solvers.loop import Progress, Result, iterate, last_value
from dcadl.solvers.sources import Labels, PatchCutter, StoredChunk, StoredImages
from dcadl.solvers.spill import CodeStore, KeepingWalk
from dcadl.solvers.walk import SerialWalk, Walk, chunk_slices, host_slices, threads, walker

Learned = tuple[Result, tuple[float, ...]]  # where the passes ended, and the objective along them
Watch = Callable[[int, Any], bool]


class Parts(NamedTuple):
    """Data as the descending solver wants it."""

    chunks: Sequence[Any]  # as `descent.Chunk`
    walk: Walk
    dtype: Any


@contextmanager
def parts_in_memory(model: Any, X: np.ndarray, Y: np.ndarray, weight: np.ndarray | None) -> Iterator[Parts]:
    """Patches of all images, made once and kept."""
    grid, how = model.grid_, model.normalize
    dtype, X, Y = X.dtype, send(X, model.backend), send(Y, model.backend)
    s = None if weight is None else send(weight, model.backend)
    slices = chunk_slices(X, grid)
    with walker(X, slices) as walk:
        patches, _ = walk(lambda part: (normalised_patches(X[part, :], grid, how), ()), slices)
        chunks = [
            descent.Chunk(partial(_same, P), Y[part, :], None if s is None else s[part])
            for P, part in zip(patches, slices)
        ]
        yield Parts(chunks, walk, dtype)


@contextmanager
def parts_of_source(model: Any, source: StoredImages, labels: Labels) -> Iterator[Parts]:
    """Images read a chunk at a time; codes, and then patches, kept as far as `max_memory` allows."""
    grid, C, itemsize = model.grid_, len(labels.intercept), np.dtype(source.dtype).itemsize
    slices = host_slices(source.n, grid, itemsize)
    cut = PatchCutter(grid, model.normalize)
    chunks = [StoredChunk(source, labels, part, cut, model.backend) for part in slices]
    limit = memory_bytes(model.max_memory)
    with ExitStack() as stack:
        walk: Walk = SerialWalk()
        if model.backend == "numpy":
            walk = stack.enter_context(threads(len(slices)))
        if limit is not None:
            allowed = memory_plan(limit, source.n, grid, model.n_atoms, C, itemsize, blas_threads())
            if allowed.keep_patches:
                walk(lambda chunk: (chunk.keep_patches(), ()), chunks)
            store = stack.enter_context(CodeStore(allowed.code_room))
            shapes = [(part.stop - part.start, grid.p, model.n_atoms) for part in slices]
            places = store.places(shapes, source.dtype)
            walk = KeepingWalk(walk, places, recompute=model.overflow == "recompute")
        yield Parts(chunks, walk, source.dtype)


def learn_by_descent(
    model: Any, parts: AbstractContextManager[Parts], checkpoint: Checkpoint | None, watch: Watch
) -> Learned:
    """Passes of the descending solver from its start, or from where a checkpoint left off."""
    with parts as (chunks, walk, dtype):
        problem = descent.pose(chunks, walk, lams(model))
        begin = None if checkpoint is None else checkpoint.restore(problem, model.backend)
        if begin is None:
            Omega = send(_first_atoms(model, problem).astype(dtype), model.backend)
            begin = Progress(descent.start(problem, Omega))
        result = iterate(
            partial(descent.step, problem),
            begin,
            max_iter=model.max_iter,
            tol=model.tol,
            watch=watch if checkpoint is None else checkpoint.watching(watch),
        )
        trace = descent.objective(problem, result.state)
        if model.refit:
            result = result._replace(state=descent.refit(problem, result.state))
        return result, trace


_DIVERGED = (
    "solver='paper' has diverged: its codes grew until the ridge lam3/lam2 could not be felt beside them. "
    "Lower lam2, raise lam3, or use solver='descent', which cannot climb."
)


def learn_by_paper(
    model: Any, X: np.ndarray, Y: np.ndarray, weight: np.ndarray | None, checkpoint: Any, watch: Watch
) -> Learned:
    """Algorithm 1 as its authors ran it."""
    if weight is not None or checkpoint is not None:
        raise ValueError(
            "solver='paper' knows no weights and no checkpoints; use solver='descent' with sample_weight, "
            "class_weight or checkpoint."
        )
    grid, C = model.grid_, Y.shape[1]
    Omega, W = uniform_start(model.n_atoms, grid.d, C, grid.p * model.n_atoms, model.random_state)
    there, labels, Omega, W = (send(a.astype(X.dtype), model.backend) for a in (X, Y, Omega, W))
    problem = paper.pose(normalised_patches(there, grid, model.normalize), labels, lams(model))
    try:
        result = iterate(
            lambda state: paper.step(problem, state),
            paper.start(problem, Omega, W),
            max_iter=model.max_iter + 1,  # the authors' loop runs once more than T
            tol=0,  # and has no other end
            watch=watch,
        )
    except np.linalg.LinAlgError:
        raise ValueError(_DIVERGED) from None
    if not np.isfinite(last_value(result.state)):  # devices give no error
        raise ValueError(_DIVERGED)
    return result._replace(converged=True), paper.objective(problem, result.state)


def _first_atoms(model: Any, problem: descent.Problem) -> np.ndarray:
    if model.init == "pca":
        return pca_atoms(fetch(problem.G), model.n_atoms, model.random_state)
    return gaussian_atoms(model.n_atoms, model.grid_.d, model.random_state)


def _same(P: Array) -> Array:
    return P


def lams(model: Any) -> tuple[float, float, float, float]:
    """λ1 to λ4 as plain numbers."""
    return float(model.lam1), float(model.lam2), float(model.lam3), float(model.lam4)
