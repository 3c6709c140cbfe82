"""Pooling over pyramid cells against loops."""

from itertools import chain

import numpy as np
import pytest

from dcadl.features.pooling import Cells, pool
from dcadl.features.sift import PatchCentres
from dcadl.features.word_coding import Codes

WORDS = 7
SHAPE = (60, 90)
GRID = PatchCentres(np.arange(7.5, 52, 6), np.arange(7.5, 82, 6))


@pytest.fixture
def codes(rng):
    patches = len(GRID.rows) * len(GRID.columns)
    return Codes(rng.integers(0, WORDS, (patches, 3)), rng.standard_normal((patches, 3)).astype(np.float32))


def cell_values(codes, level, row, column):
    """All (word, weight) of the patches whose centre lies in a cell."""
    values = []
    for i, y in enumerate(GRID.rows):
        for j, x in enumerate(GRID.columns):
            inside = (
                int((y + 0.5) * level // SHAPE[0]) == row and int((x + 0.5) * level // SHAPE[1]) == column
            )
            patch = i * len(GRID.columns) + j
            values += [list(zip(codes.words[patch], codes.weights[patch]))] * inside
    return values


@pytest.mark.parametrize("level", [1, 2, 4])
def test_maxima_equal_a_loop_over_cells(codes, level):
    pooled = pool(codes, WORDS, Cells(GRID, SHAPE, (level,)), "max").reshape(level, level, WORDS)
    for row in range(level):
        for column in range(level):
            expected = np.zeros(WORDS)
            for word, weight in chain.from_iterable(cell_values(codes, level, row, column)):
                expected[word] = max(expected[word], weight)
            np.testing.assert_allclose(pooled[row, column], expected)


@pytest.mark.parametrize("level", [1, 2, 4])
def test_means_equal_a_loop_over_cells(codes, level):
    pooled = pool(codes, WORDS, Cells(GRID, SHAPE, (level,)), "mean").reshape(level, level, WORDS)
    for row in range(level):
        for column in range(level):
            patches = cell_values(codes, level, row, column)
            expected = np.zeros(WORDS)
            for word, weight in chain.from_iterable(patches):
                expected[word] += weight / len(patches)
            np.testing.assert_allclose(pooled[row, column], expected, rtol=1e-5, atol=1e-7)


def test_levels_follow_each_other(codes):
    levels = [pool(codes, WORDS, Cells(GRID, SHAPE, (level,)), "max") for level in (1, 2, 4)]
    np.testing.assert_array_equal(
        pool(codes, WORDS, Cells(GRID, SHAPE, (1, 2, 4)), "max"), np.concatenate(levels)
    )


def test_a_coarse_maximum_is_the_maximum_of_its_finer_cells(codes):
    coarse = pool(codes, WORDS, Cells(GRID, SHAPE, (1,)), "max")
    fine = pool(codes, WORDS, Cells(GRID, SHAPE, (4,)), "max").reshape(16, WORDS)
    np.testing.assert_array_equal(coarse, fine.max(axis=0))


@pytest.mark.parametrize("how", ["max", "mean"])
def test_cells_without_patches_are_zero(how):
    codes = Codes(np.array([[0]]), np.ones((1, 1), dtype=np.float32))
    one_patch = Cells(PatchCentres(np.array([7.5]), np.array([7.5])), (16, 16), (4,))
    pooled = pool(codes, 1, one_patch, how)
    assert pooled.tolist() == [0] * 10 + [1] + [0] * 5
