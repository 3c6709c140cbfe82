"""Pictures that repeat are found, and classes that differ by accident."""

from __future__ import annotations

import numpy as np

from dcadl.data.cautions import near_duplicates, small_copies, tells_apart


def test_a_brighter_noisy_copy_is_a_near_duplicate_and_other_pictures_are_none(rng):
    X = rng.random((10, 32, 32)).astype(np.float32)
    copy = 0.8 * X[3] + 0.1 + 0.005 * rng.standard_normal((32, 32)).astype(np.float32)

    match = near_duplicates(small_copies(np.concatenate([X, copy[None]])))

    assert match.tolist() == [-1] * 10 + [3]


def test_near_duplicates_across_two_parts_count_exact_copies_too(rng):
    X = rng.random((8, 20, 24, 3)).astype(np.float32)
    copies = small_copies(X)

    assert near_duplicates(copies[[5, 6]], copies[:6]).tolist() == [5, -1]


def test_values_that_follow_the_classes_tell_them_apart(rng):
    y = np.arange(60) % 3

    assert tells_apart(y[:, None] + 0.01 * rng.standard_normal((60, 1)), y) > 0.9
    assert tells_apart(rng.standard_normal((60, 1)), y) is None


def test_nothing_is_said_of_classes_with_too_few_samples():
    assert tells_apart(np.array([[0.0], [0.0], [1.0], [1.0]]), [0, 0, 1, 1]) is None
