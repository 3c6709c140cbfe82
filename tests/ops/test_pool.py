"""Pyramids of averages: against loops over cells, and their transpose against inner products."""

import numpy as np
import pytest

from dcadl.arrays import fetch
from dcadl.ops.pool import Pyramid, pool, unpool

PYRAMIDS = pytest.mark.parametrize(
    "pyramid",
    [Pyramid((7, 6), (1,)), Pyramid((9, 11), (1, 2, 4)), Pyramid((8, 8), (2, 3)), Pyramid((1, 10), (2, 4))],
    ids=str,
)


def cell_by_cell(maps, pyramid):
    """Averages of maps (k, rows, columns), a loop over cells."""
    rows, cols = pyramid.counts
    found = []
    for level in pyramid.levels:
        down, across = min(level, rows), min(level, cols)
        for i in range(down):
            for j in range(across):
                cell = maps[
                    :,
                    i * rows // down : (i + 1) * rows // down,
                    j * cols // across : (j + 1) * cols // across,
                ]
                found.append(cell.mean(axis=(1, 2)))
    return np.stack(found, axis=1)


@PYRAMIDS
def test_pool_averages_over_every_cell(xp, rng, pyramid):
    maps = rng.standard_normal((2, pyramid.counts[0], 3, pyramid.counts[1]))

    found = fetch(pool(xp.asarray(maps), pyramid))

    for i, j in np.ndindex(3, 2):
        np.testing.assert_allclose(found[i, j], cell_by_cell(maps[j, None, :, i], pyramid)[0], atol=1e-13)


@PYRAMIDS
def test_unpool_is_the_transpose_of_pool(xp, rng, pyramid):
    maps = xp.asarray(rng.standard_normal((3, pyramid.counts[0], 2, pyramid.counts[1])))
    cells = xp.asarray(rng.standard_normal((2, 3, pyramid.n_cells)))

    heights = [part.stop - part.start for part in pyramid.row_slices()]
    bands = zip(unpool(cells, pyramid), heights)
    back = np.concatenate([np.repeat(fetch(one), height, axis=1) for one, height in bands], axis=1)

    assert np.vdot(back, fetch(maps)) == pytest.approx(np.vdot(fetch(cells), fetch(pool(maps, pyramid))))
