"""What estimators on patches share at prediction: features per image, scores, labels."""

from __future__ import annotations

from typing import Any

import numpy as np

from dcadl.arrays import Array, array_namespace, fetch, send
from dcadl.ops.codes import by_image, shrink
from dcadl.ops.normalise import responses
from dcadl.ops.patches import Grid
from dcadl.solvers.chunks import map_rows


def coded(X: Array, grid: Grid, how: str | None, Omega: Array, threshold: float) -> Array:
    """Test-time codes τ(ΩX̄), one row per image: no label information enters them."""
    return map_rows(lambda rows: by_image(_codes(rows, grid, how, Omega, threshold)), X, grid)


def coded_scores(X: Array, grid: Grid, how: str | None, Omega: Array, threshold: float, W: Array) -> Array:
    """Class scores W·τ(ΩX̄); responses live only for their chunk."""
    return map_rows(lambda rows: by_image(_codes(rows, grid, how, Omega, threshold)) @ W.T, X, grid)


def _codes(rows: Array, grid: Grid, how: str | None, Omega: Array, threshold: float) -> Array:
    found = responses(rows, grid, how, Omega)
    return shrink(found, threshold) if threshold > 0 else found


def run_on(backend: str, function: Any, X: Array, *fitted: np.ndarray) -> np.ndarray:
    """`function(X, *fitted)` on the backend, in X's precision, brought home."""
    return fetch(leave_on(backend, function, X, *fitted))


def leave_on(backend: str, function: Any, X: Array, *fitted: np.ndarray) -> Array:
    """The same, left on the backend: scores need not come home where only labels are asked for."""
    sent = send(X, backend)
    xp = array_namespace(sent)
    return function(sent, *(xp.astype(send(a, backend), sent.dtype) for a in fitted))


def atom_shape(grid: Grid, image_shape: tuple[int, ...]) -> tuple[int, ...]:
    """An atom in the user's own terms: (h, w), (h, w, channels) or (length,)."""
    return (*grid.patch[2 - len(image_shape[:2]) :], *image_shape[2:])


def decision(scores: Array) -> np.ndarray:
    """Scores as scikit-learn wants them: one column per class, or for two classes their difference."""
    home = fetch(scores)
    return home[:, 1] - home[:, 0] if home.shape[1] == 2 else home


def labels(scores: Array, classes: np.ndarray) -> np.ndarray:
    """The class of the highest score; only its number comes home from a device."""
    return classes[fetch(array_namespace(scores).argmax(scores, axis=1))]
