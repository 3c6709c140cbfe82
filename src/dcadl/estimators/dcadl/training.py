"""Training data behind whichever door they came in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import numpy as np

from dcadl.ops.patches import Grid
from dcadl.solvers.walk import Chunk, Walk

Opened = AbstractContextManager[tuple[Sequence[Chunk], Walk]]


class TrainingSet(NamedTuple):
    """Checked data: what a model keeps of them, and a way to the chunks that a solver walks over."""

    classes: np.ndarray  # (C,)
    intercept: np.ndarray  # (C,) the share of each class, taken out of the labels
    image_shape: tuple[int, ...]
    grid: Grid
    dtype: Any
    y: np.ndarray  # (n,) labels as given; empty where they stay on a cluster
    weight: np.ndarray | None  # (n,)
    open: Callable[[], Opened]
