"""Signs packed into numbers, and their histograms, against loops written out."""

import numpy as np
import pytest

from dcadl.arrays import fetch
from dcadl.ops.hashing import binary_codes, block_histograms
from dcadl.ops.patches import patch_grid


def test_the_first_map_is_the_highest_bit(xp):
    maps = xp.asarray(np.array([[[1.0, -1.0, 1.0], [-1.0, 0.0, 2.0]]]))

    assert fetch(binary_codes(maps)).tolist() == [[5, 1]]


def test_a_response_below_the_floor_of_its_image_counts_as_not_positive(xp):
    maps = xp.asarray(np.array([[[0.5]], [[0.5]]]))
    floor = xp.asarray(np.array([0.4, 0.6]))[:, None, None]

    assert fetch(binary_codes(maps, floor)).tolist() == [[1], [0]]


def test_eight_maps_give_every_code_exactly_in_float32(xp):
    signs = (np.arange(256)[:, None] >> np.arange(7, -1, -1)) & 1
    maps = xp.asarray((signs * 2.0 - 1.0)[None].astype(np.float32))

    assert fetch(binary_codes(maps)).tolist() == [list(range(256))]


@pytest.mark.parametrize(
    ("block", "stride"), [((2, 3), (2, 3)), ((3, 3), (1, 2))], ids=["apart", "overlapping"]
)
def test_block_histograms_equal_counting_pixel_by_pixel(xp, rng, block, stride):
    codes = rng.integers(0, 4, (3, 5, 6))
    blocks = patch_grid((5, 6), block, stride)

    found = fetch(block_histograms(xp.asarray(codes.reshape(3, -1)), blocks, 4))

    expected = np.zeros((3, blocks.p, 4))
    rows, cols = blocks.counts
    for i, r, c in np.ndindex(3, rows, cols):
        for dy, dx in np.ndindex(*block):
            expected[i, r * cols + c, codes[i, r * stride[0] + dy, c * stride[1] + dx]] += 1
    np.testing.assert_array_equal(found, expected)
