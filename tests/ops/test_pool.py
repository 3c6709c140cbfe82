"""Pyramids of averages: against loops over cells, and their transpose against inner products."""

import numpy as np
import pytest

from dcadl.arrays import fetch
from dcadl.ops.pool import Pyramid, pool_bands, unpool

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


def sums_of_bands(xp, maps, pyramid):
    """Maps (rows, k, b, columns) added up over the rows of each band."""
    return [xp.asarray(maps[rows].sum(axis=0)) for rows in pyramid.row_slices()]


@PYRAMIDS
def test_pool_averages_over_every_cell(xp, rng, pyramid):
    maps = rng.standard_normal((pyramid.counts[0], 2, 3, pyramid.counts[1]))

    found = fetch(pool_bands(sums_of_bands(xp, maps, pyramid), pyramid))

    for i, j in np.ndindex(3, 2):
        np.testing.assert_allclose(found[i, j], cell_by_cell(maps[None, :, j, i], pyramid)[0], atol=1e-13)


@PYRAMIDS
def test_unpool_is_the_transpose_of_pool(xp, rng, pyramid):
    sums = rng.standard_normal((len(pyramid.row_slices()), 3, 2, pyramid.counts[1]))
    cells = rng.standard_normal((2, 3, pyramid.n_cells))

    back, found = unpool(xp.asarray(cells), pyramid), pool_bands([xp.asarray(one) for one in sums], pyramid)

    assert np.vdot(fetch(back), sums) == pytest.approx(np.vdot(cells, fetch(found)))
