"""The neighbour graph against loops over all samples."""

from __future__ import annotations

import numpy as np
import pytest

from dcadl.arrays import fetch
from dcadl.ops.graph import laplacian, nearest, squared_distances, topology_weights


@pytest.fixture
def samples(rng):
    return rng.standard_normal((12, 5)), rng.integers(0, 3, 12)


def loop_weights(Y, label, k, sigma):
    """The topology weights with every loop written out over all samples."""
    n = len(Y)
    S = np.array([[1 - np.exp(-np.sum((a - b) ** 2) / sigma**2) for b in Y] for a in Y])
    W = np.zeros((n, n))
    for i in range(n):
        near = [j for j in np.argsort(S[i], kind="stable") if j != i][:k]
        for j in near:
            for u in near:
                a = S[i, u] - S[i, j]
                u_alone = label[u] == label[i] and label[j] != label[i]
                j_alone = label[j] == label[i] and label[u] != label[i]
                W[i, j] += -abs(a) if u_alone else abs(a) if j_alone else a
        some = W[i] != 0
        low, high = W[i][some].min(), W[i].max()
        W[i][some] = (W[i][some] - low) / (high - low)
    return (W + W.T) / 2


def test_distances_are_those_of_the_pairs(xp, samples):
    Y, _ = samples
    expected = ((Y[:, None, :] - Y[None, :, :]) ** 2).sum(axis=2)

    found = fetch(squared_distances(xp.asarray(Y)))

    np.testing.assert_allclose(found, expected, atol=1e-12)
    np.testing.assert_array_equal(found, found.T)
    np.testing.assert_array_equal(np.diag(found), 0.0)


def test_the_nearest_are_the_first_of_a_sorted_row_without_the_sample_itself(xp, samples):
    Y, _ = samples
    D = squared_distances(xp.asarray(Y))

    order = np.argsort(fetch(D), axis=1)
    np.testing.assert_array_equal(fetch(nearest(D, 4)), order[:, 1:5])


def test_a_copy_of_a_sample_is_its_neighbour_and_the_sample_is_not(xp):
    Y = np.array([[0.0, 1.0], [0.0, 1.0], [3.0, 0.0]])

    found = fetch(nearest(squared_distances(xp.asarray(Y)), 1))

    np.testing.assert_array_equal(found[:2, 0], [1, 0])


@pytest.mark.parametrize("k", [2, 5, 11])
def test_topology_weights_equal_the_loops(xp, samples, k):
    Y, label = samples
    D = squared_distances(xp.asarray(Y))

    W = fetch(topology_weights(D, xp.asarray(label), k, 2.0))

    np.testing.assert_allclose(W, loop_weights(Y, label, k, 2.0), atol=1e-10)


def test_weights_lie_between_zero_and_one_where_neighbours_are_equally_far(xp):
    Y = np.eye(4)  # all distances alike: no neighbour leads another

    W = fetch(topology_weights(squared_distances(xp.asarray(Y)), xp.asarray([0, 0, 1, 1]), 3, 1.0))

    assert np.isfinite(W).all()
    assert ((W >= 0) & (W <= 1)).all()


def test_the_laplacian_sums_weighted_squared_differences(xp, rng):
    W = rng.uniform(size=(6, 6))
    W = W + W.T
    f = rng.standard_normal(6)

    L = fetch(laplacian(xp.asarray(W)))

    pairs = 0.5 * np.sum(W * (f[:, None] - f[None, :]) ** 2)
    np.testing.assert_allclose(f @ L @ f, pairs)
