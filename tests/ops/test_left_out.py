"""Errors of samples left out, as if each had been; in both forms, whatever the tiles. Where λ is sought."""

from __future__ import annotations

import numpy as np
import pytest

from dcadl.arrays import fetch
from dcadl.ops import likely_lam as likely
from dcadl.ops import ridge as module
from dcadl.ops.closed_form import ridge
from dcadl.ops.likely_lam import likely_lam
from dcadl.ops.ridge import Samples, best_lam, features_times, solve, system_of
from dcadl.solvers.walk import SerialWalk, threads

WALK = SerialWalk()


def samples_of(xp, F, Y, weight=None):
    root = None if weight is None else np.sqrt(weight)
    heavy = Y if weight is None else Y * root[:, None]
    total = float(len(F) if weight is None else weight.sum())
    return Samples(xp.asarray(F), xp.asarray(heavy), None if root is None else xp.asarray(root), total)


def drawn(rng, n, D, C=3):
    """Features far from zero mean, labels that depend on them, weights."""
    F = rng.standard_normal((n, D)) + 2
    return F, F[:, :C] + rng.standard_normal((n, C)), 0.5 + rng.random(n)


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("shape", [(12, 20), (20, 12)], ids=["dual", "primal"])
def test_each_error_is_that_of_a_regression_without_the_sample(xp, rng, monkeypatch, shape, weighted):
    monkeypatch.setattr(module, "TILE", 5)
    monkeypatch.setattr(module, "BLOCK", 7)
    F, Y, weight = drawn(rng, *shape)
    weight = weight if weighted else np.ones(len(F))
    samples = samples_of(xp, F, Y, weight if weighted else None)

    system = system_of(samples, WALK)
    found = solve(samples, system, 0.3)

    lam = 0.3 * float(system.tau)
    for i in range(len(F)):
        others = np.arange(len(F)) != i
        left = Y[i] - F[i] @ ridge(F[others], Y[others], lam, weight[others])
        np.testing.assert_allclose(fetch(found.e)[i], np.sqrt(weight[i]) * left, atol=1e-9)


@pytest.mark.parametrize("shape", [(12, 20), (20, 12)], ids=["dual", "primal"])
def test_the_classifier_is_that_of_ridge_regression(xp, rng, shape):
    F, Y, weight = drawn(rng, *shape)
    samples = samples_of(xp, F, Y, weight)
    system = system_of(samples, WALK)
    found = solve(samples, system, 0.3).solved
    W = found if system.FY is not None else features_times(samples, found, WALK) / system.tau
    np.testing.assert_allclose(fetch(W), ridge(F, Y, 0.3 * float(system.tau), weight), atol=1e-10)


@pytest.mark.parametrize("shape", [(40, 60), (60, 40)], ids=["dual", "primal"])
def test_tiles_in_threads_give_the_matrix_of_float32_features_in_float64(rng, monkeypatch, shape):
    monkeypatch.setattr(module, "TILE", 16)
    monkeypatch.setattr(module, "INNER", 23)
    F, Y, weight = drawn(rng, *shape)
    F = F.astype(np.float32)
    with threads(8) as walk:
        system = system_of(samples_of(np, F, Y, weight), walk)
    heavy = np.sqrt(weight)[:, None] * F.astype(np.float64)
    K = heavy @ heavy.T if shape[0] < shape[1] else heavy.T @ heavy
    np.testing.assert_allclose(system.tau, np.sum(heavy**2) / weight.sum())
    np.testing.assert_allclose(system.K * system.tau, K, rtol=1e-13)


@pytest.mark.parametrize("shape", [(310, 320), (320, 310)], ids=["dual", "primal"])
@pytest.mark.parametrize("noise", [0.1, 0.5, 2.0])
def test_a_part_of_the_samples_says_no_more_than_where_to_look(rng, shape, noise):
    F = rng.standard_normal(shape)
    Y = F @ rng.standard_normal((shape[1], 2)) + noise * np.sqrt(shape[1]) * rng.standard_normal(
        (shape[0], 2)
    )
    samples = samples_of(np, F, Y)
    system = system_of(samples, WALK)

    found = best_lam(samples, system, likely_lam(samples, system))

    assert found.lam == pytest.approx(best_lam(samples, system).lam)
    for lam in found.lam * 10.0 ** np.array([-0.5, 0.5]):
        assert module.loss(solve(samples, system, lam).e, samples.total) > found.error


@pytest.mark.parametrize("begin", [1e-5, 1e-3, 10**-1.5, 1.0, 1e2])
def test_wherever_the_search_begins_it_ends_at_the_same_ridge(rng, begin):
    samples = samples_of(np, *drawn(rng, 30, 40)[:2])
    system = system_of(samples, WALK)
    best, begun = best_lam(samples, system), best_lam(samples, system, begin)
    assert begun.lam == pytest.approx(best.lam)
    assert begun.error == pytest.approx(best.error)


@pytest.mark.parametrize("period", [2, 3, 4, 5, 7, 10])
def test_the_part_holds_every_class_of_any_regular_order(rng, period):
    F = rng.standard_normal((320, 330))
    samples = samples_of(np, F, np.eye(period)[np.arange(320) % period])
    part, _ = likely._part_of(samples, system_of(samples, WALK))
    counts = part.Y.sum(axis=0)
    assert counts.min() > 0.5 * counts.mean()
    assert 70 <= len(part.Y) <= 90


def test_of_two_valleys_the_lower_one_is_found(rng):
    """Features of two sizes: the small ones tell more, but only a small ridge lets them."""
    large = 3.0 * rng.standard_normal((400, 40)) @ rng.standard_normal((40, 1500)) / 40
    small = rng.standard_normal((400, 6))
    F = np.hstack([large, 1e-2 * small])
    Y = small[:, :2] + 0.5 * large[:, :2] + 0.1 * rng.standard_normal((400, 2))
    samples = samples_of(np, F, Y)
    system = system_of(samples, WALK)
    grid = 10.0 ** np.arange(-5, 2.5, 0.5)
    errors = [module.loss(solve(samples, system, lam).e, samples.total) for lam in grid]
    assert best_lam(samples, system, likely_lam(samples, system)).error == pytest.approx(min(errors))
