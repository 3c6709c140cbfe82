"""Codes of descriptors against their definitions."""

import numpy as np
import pytest

from dcadl.features.word_coding import BLOCK, RIDGE, hard_coder, llc_coder


@pytest.fixture
def codebook(rng):
    return rng.random((30, 12)).astype(np.float32)


@pytest.fixture
def descriptors(rng):
    return rng.random((50, 12)).astype(np.float32)


def nearest(descriptors, codebook, k):
    distances = np.linalg.norm(descriptors[:, None] - codebook[None], axis=2)
    return np.argsort(distances, axis=1)[:, :k]


def test_hard_codes_name_the_nearest_word(descriptors, codebook):
    words, weights = hard_coder(codebook)(descriptors)
    np.testing.assert_array_equal(words, nearest(descriptors, codebook, 1))
    assert (weights == 1).all()


def test_llc_uses_the_nearest_words(descriptors, codebook):
    np.testing.assert_array_equal(
        llc_coder(codebook, 5)(descriptors).words, nearest(descriptors, codebook, 5)
    )


def test_llc_weights_sum_to_one_and_solve_the_ridge_problem(descriptors, codebook):
    words, weights = llc_coder(codebook, 5)(descriptors)
    np.testing.assert_allclose(weights.sum(axis=1), 1, rtol=1e-5)
    for x, chosen, w in zip(descriptors, words, weights):
        shifted = (codebook[chosen] - x).astype(np.float64)
        C = shifted @ shifted.T
        expected = np.linalg.solve(C + RIDGE * np.trace(C) * np.eye(5), np.ones(5))
        np.testing.assert_allclose(w, expected / expected.sum(), atol=2e-3)


def test_a_descriptor_that_is_a_word_is_coded_by_it(codebook):
    words, weights = llc_coder(codebook, 5)(codebook)
    np.testing.assert_array_equal(words[:, 0], np.arange(30))
    assert (weights[:, 0] > np.abs(weights[:, 1:]).sum(axis=1)).all()


def test_blocks_do_not_change_codes(codebook, rng):
    many = rng.random((BLOCK + 7, 12)).astype(np.float32)
    whole, parts = llc_coder(codebook)(many), llc_coder(codebook)(many[BLOCK:])
    np.testing.assert_array_equal(whole.words[BLOCK:], parts.words)
    np.testing.assert_allclose(whole.weights[BLOCK:], parts.weights, atol=1e-4)


def test_coinciding_words_give_finite_codes(rng):
    codebook = np.repeat(rng.random((1, 12)), 6, axis=0).astype(np.float32)
    assert np.isfinite(llc_coder(codebook, 5)(codebook).weights).all()
