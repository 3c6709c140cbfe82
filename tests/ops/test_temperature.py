"""Probabilities sum to one, and the temperature is that of least log loss."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import log_loss

from dcadl.estimators.probabilities import softmax
from dcadl.ops.ridge import best_temperature, least_log_loss


@pytest.fixture
def scores(rng):
    """Scores whose true temperature is 2, and classes drawn from them."""
    found = 5 * rng.standard_normal((4000, 4))
    chances = softmax(found, 2.0)
    numbers = (chances.cumsum(axis=1) < rng.random((4000, 1))).sum(axis=1)
    return found, numbers


def test_probabilities_are_positive_and_sum_to_one(rng):
    found = softmax(1000 * rng.standard_normal((50, 3)), 0.5)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    assert (found >= 0).all()


def test_the_temperature_that_drew_the_classes_is_found(scores):
    assert best_temperature(*scores) == pytest.approx(2.0, rel=0.1)


def test_no_other_temperature_has_a_lower_log_loss(scores):
    found, numbers = scores
    best = best_temperature(found, numbers)
    losses = [log_loss(numbers, softmax(found, best * factor)) for factor in (0.8, 1.0, 1.25)]
    assert min(losses) == losses[1]


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_the_temperature_follows_the_scale_of_the_scores(scores, scale):
    found, numbers = scores
    expected = scale * best_temperature(found, numbers)
    assert best_temperature(scale * found + 7, numbers) == pytest.approx(expected, rel=1e-4)


def test_a_weight_counts_like_copies(scores):
    found, numbers = scores[0][:300], scores[1][:300]
    weight = np.arange(300) % 3
    copies = np.repeat(np.arange(300), weight)
    expected = best_temperature(found[copies], numbers[copies])
    assert best_temperature(found, numbers, weight) == pytest.approx(expected, rel=1e-3)


def test_scores_that_are_all_alike_give_a_temperature():
    assert np.isfinite(best_temperature(np.zeros((5, 3)), np.array([0, 1, 2, 0, 1])))


def test_the_least_log_loss_is_that_of_the_best_temperature_whatever_the_scale(scores):
    found, numbers = scores
    temperature, loss = least_log_loss(found, numbers)

    places = np.arange(len(numbers)), numbers
    chances = softmax(found, temperature)
    own, doubt = chances[places], 1 / (len(numbers) + 2)
    chances[places] = 0
    assert loss == pytest.approx(
        -np.mean((1 - doubt) * np.log(own) + doubt * np.log(chances.max(axis=1))), rel=1e-6
    )
    assert least_log_loss(1e-3 * found + 5, numbers)[1] == pytest.approx(loss, rel=1e-6)


@pytest.mark.parametrize("n", [10, 200])
def test_that_none_was_wrong_does_not_mean_that_none_will_be(rng, n):
    """The rule of succession: one of n + 2."""
    numbers = np.arange(n) % 2
    scores = np.eye(2)[numbers] * (1 + 0.1 * rng.random((n, 1)))
    chances = softmax(scores, best_temperature(scores, numbers))
    assert chances.min(axis=1).mean() == pytest.approx(1 / (n + 2), rel=0.01)


def test_scores_that_say_the_opposite_are_worth_nothing(scores):
    found, numbers = scores
    temperature, loss = least_log_loss(-found, numbers)
    chances = softmax(-found, temperature)
    np.testing.assert_allclose(chances, 0.25, atol=0.01)
    assert loss == pytest.approx(np.log(4), rel=1e-3)
