"""Hard thresholding is a projection."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from dcadl.arrays import fetch
from dcadl.ops.threshold import hard_threshold


def test_no_choice_of_entries_lies_nearer_than_the_hard_threshold(xp, rng):
    x = rng.standard_normal((5, 6))

    kept = fetch(hard_threshold(xp.asarray(x), 2))

    for row, found in zip(x, kept):
        misses = [np.sum(np.delete(row, choice) ** 2) for choice in combinations(range(6), 2)]
        assert np.count_nonzero(found) == 2
        np.testing.assert_allclose(np.sum((row - found) ** 2), min(misses))


def test_never_more_entries_remain_than_asked_even_among_equals(xp):
    kept = fetch(hard_threshold(xp.ones((3, 7)), 4))

    np.testing.assert_array_equal(np.count_nonzero(kept, axis=1), 4)


@pytest.mark.parametrize("keep", [4, 9])
def test_as_many_entries_as_there_are_leave_the_rows_alone(xp, rng, keep):
    x = rng.standard_normal((3, 4))

    np.testing.assert_array_equal(fetch(hard_threshold(xp.asarray(x), keep)), x)
