"""Structures of LOO-ADL: first atoms without all windows in memory."""

from __future__ import annotations

import tracemalloc

import numpy as np

from dcadl.ops.patches import patch_grid
from dcadl.solvers.structure import first_look


def test_first_atoms_are_made_without_all_windows_in_memory():
    rng = np.random.RandomState(0)
    grid = patch_grid((80, 80, 3), 9, 1)
    images = [rng.standard_normal((40, 80 * 80 * 3)).astype(np.float32)]
    all_windows = 40 * grid.p * grid.d * 4

    tracemalloc.start()
    first_look(images, grid, "centred", 2, rng)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < all_windows
