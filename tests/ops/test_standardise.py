"""Standardised features: weighted means and deviations, and the way back against finite differences."""

import numpy as np
import pytest

from dcadl.arrays import fetch
from dcadl.ops.standardise import Groups, standard_of, standardise, standardise_back, standardised
from finite_differences import rise_of

GROUPS = Groups(np.array([0, 0, 1, 1, 1]), np.array([1.0, 2.0]))


def test_features_lose_their_mean_and_get_comparable_size(xp, rng):
    F = rng.standard_normal((50, 5)) * [1, 2, 10, 20, 30] + 7
    share = rng.uniform(size=50)
    share /= share.sum()

    A = fetch(standardise(xp.asarray(F), standard_of(xp.asarray(F), xp.asarray(share), GROUPS)))

    deviation = np.sqrt(share @ (F - share @ F) ** 2)
    floor = [0.1 * deviation[:2].mean()] * 2 + [0.1 * deviation[2:].mean()] * 3
    np.testing.assert_allclose(share @ A, 0, atol=1e-12)
    np.testing.assert_allclose(
        np.sqrt(share @ A**2), np.array([1, 1, 2, 2, 2]) * deviation / (deviation + floor)
    )


def test_a_feature_that_never_varies_becomes_zero(rng):
    F = rng.standard_normal((9, 5))
    F[:, 1] = 4.0
    share = np.full(9, 1 / 9)

    np.testing.assert_allclose(standardise(F, standard_of(F, share, GROUPS))[:, 1], 0, atol=1e-12)


def test_the_way_back_is_that_of_finite_differences(xp, rng):
    F, direction = rng.standard_normal((2, 20, 5))
    share = rng.uniform(size=20)
    share /= share.sum()
    slope = rng.standard_normal((20, 5))
    slope -= slope.mean(axis=0)  # as a loss that does not change with the features' means

    def value(step):
        moved = F + step * direction
        return np.vdot(slope, standardise(moved, standard_of(moved, share, GROUPS)))

    there = xp.asarray(F), xp.asarray(share)
    A, standard = standardised(*there, GROUPS)
    back = standardise_back(A, xp.asarray(slope), there[1], standard)

    assert np.vdot(fetch(back), direction) == pytest.approx(rise_of(value, 1e-4), rel=1e-8)


def test_features_that_vary_by_rounding_alone_become_zero_and_have_no_gradient(xp, rng):
    F = np.full((20, 5), 0.3)
    F[:, 2:] += rng.standard_normal((20, 3))
    F[:, :2] += 1e-9 * rng.standard_normal((20, 2))
    share = xp.asarray(np.full(20, 0.05))

    A, standard = standardised(xp.asarray(F), share, GROUPS)
    back = fetch(standardise_back(A, A, share, standard))

    np.testing.assert_array_equal(fetch(A)[:, :2], 0)
    np.testing.assert_array_equal(back[:, :2], 0)
    assert np.isfinite(back).all()
