"""Structures of LOO-ADL: compared side by side as one by one; first atoms without all windows in memory."""

from __future__ import annotations

import tracemalloc

import numpy as np

from dcadl.ops.patches import patch_grid
from dcadl.solvers.structure import Compared, Labels, compare, first_looks


def test_sizes_compared_side_by_side_are_judged_as_one_by_one(rng):
    y = np.arange(30) % 3
    X = (rng.standard_normal((30, 100)) + 2 * rng.standard_normal((3, 100))[y]).astype(np.float32)
    Y = np.eye(3, dtype=np.float32)[y]
    labels = Labels(Y - Y.mean(axis=0), Y.mean(axis=0), np.ones(30, np.float32))
    sizes = [
        Compared(patch_grid((10, 10), side, 1), hows, ((1, 2), (2, 4)))
        for side, hows in ((3, ("whitened", "centred", None)), (5, ("whitened", "whitened-once")))
    ]

    together = compare(X, labels, sizes, 4, np.random.RandomState(0))

    one_rng = np.random.RandomState(0)
    apart = [found for one in sizes for found in compare(X, labels, [one], 4, one_rng)]
    assert [found[:3] for found in together] == [found[:3] for found in apart]
    assert len(together) == 10
    np.testing.assert_allclose([one.loss for one in together], [one.loss for one in apart], rtol=1e-6)


def test_first_atoms_are_made_without_all_windows_in_memory():
    rng = np.random.RandomState(0)
    grid = patch_grid((80, 80, 3), 9, 1)
    images = rng.standard_normal((40, 80 * 80 * 3)).astype(np.float32)
    all_windows = 40 * grid.p * grid.d * 4

    tracemalloc.start()
    first_looks(images, grid, ["centred"], 2, rng)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < all_windows


def test_atoms_are_the_same_with_and_without_the_second_length(rng):
    images = rng.standard_normal((40, 81)).astype(np.float32)

    hows = ["whitened", "centred", "whitened-once"]
    (twice, a), (_, b), (once, c) = first_looks(
        images, patch_grid((9, 9), 3, 1), hows, 4, np.random.RandomState(0)
    )

    np.testing.assert_array_equal(a.Omega, c.Omega)
    assert not np.array_equal(a.Omega, b.Omega)
    np.testing.assert_allclose(once.whitener * twice.typical_length, twice.whitener, rtol=1e-6)
    assert once.typical_length is None


def test_windows_as_they_are_leave_faint_images_features_and_tell_the_middle_one():
    """Half of the thresholds lie low, the other half anywhere among the responses."""
    rng = np.random.RandomState(0)
    images = rng.uniform(1, 3, size=(40, 64)).astype(np.float32)

    [(transform, atoms)] = first_looks(images, patch_grid((8, 8), 1, 1), [None], 8, rng)

    responses = np.abs(images.reshape(-1, 1) * transform.whitener @ atoms.Omega.T)
    below = (responses < atoms.t).mean(axis=0)
    assert (below == 0).sum() == 4
    assert ((below > 0.05) & (below < 0.95)).sum() >= 3
