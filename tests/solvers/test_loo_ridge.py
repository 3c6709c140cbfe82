"""The ridge classifier behind features: its λ against its neighbours, its scores of samples left out."""

import numpy as np
import pytest

from dcadl.arrays import fetch
from dcadl.ops.standardise import Groups
from dcadl.solvers import loo_ridge
from dcadl.solvers.loo_ridge import fit_rows, judge_crossed, judge_rows, solve_rows


def problem(rng, n, D):
    """Features of three classes with noise, labels and roots of weights."""
    y = rng.integers(3, size=n)
    F = rng.standard_normal((3, D))[y] + 2 * rng.standard_normal((n, D))
    return F, np.eye(3)[y], np.sqrt(rng.uniform(0.5, 2, size=n)), Groups(np.zeros(D, int), np.ones(1))


def left_out_by_hand(F, Y, root, lam, i):
    """Scores of sample i by a classifier of all others; the standard of features knows all samples."""
    s, mean = root**2, (root**2 @ F) / (root**2).sum()
    away = F - mean
    deviation = np.sqrt(s @ away**2 / s.sum())
    A = away / (deviation + 0.1 * deviation.mean())
    mu = lam * (s @ (A**2).sum(axis=1)) / s.sum()
    rest = np.arange(len(F)) != i
    share = s[rest] / s[rest].sum()
    B, T = A[rest] - share @ A[rest], Y[rest] - share @ Y[rest]
    W = np.linalg.solve(B.T * s[rest] @ B + mu * np.eye(F.shape[1]), B.T * s[rest] @ T)
    return share @ Y[rest] + (A[i] - share @ A[rest]) @ W


def loss_by_hand(F, Y, root, lam):
    scores = np.array([left_out_by_hand(F, Y, root, lam, i) for i in range(len(F))])
    return float(root**2 @ ((Y - scores) ** 2).sum(axis=1) / (root**2).sum())


@pytest.mark.parametrize("shape", [(40, 90), (90, 40)], ids=["dual", "primal"])
@pytest.mark.parametrize("dear", [10**6, 1], ids=["from afar", "step by step"])
def test_no_neighbour_of_the_chosen_ridge_has_a_smaller_error(xp, rng, monkeypatch, shape, dear):
    monkeypatch.setattr(loo_ridge, "DEAR", dear)
    F, Y, root, groups = problem(rng, *shape)

    found = judge_rows(*(xp.asarray(a) for a in (F, Y, root)), groups)

    assert found.loss == pytest.approx(loss_by_hand(F, Y, root, found.lam), rel=1e-8)
    for near in (found.lam / 10**0.5, found.lam * 10**0.5):
        assert loss_by_hand(F, Y, root, near) >= found.loss


def test_judges_alone_choose_the_ridge(rng):
    """Samples whose labels features tell ask for little of it, those with labels by chance for much."""
    F, Y, root, groups = problem(rng, 60, 30)
    told = np.arange(60) < 30
    F[told, :3] += 5 * Y[told]
    Y[~told] = rng.permutation(Y[~told])

    by_told, by_others = (
        fit_rows(F, Y, root, groups, judges.astype(float))[1].lam for judges in (told, ~told)
    )

    assert by_told < by_others


def test_left_out_scores_are_those_of_a_classifier_without_the_sample(rng):
    F, Y, root, groups = problem(rng, 30, 8)

    found = judge_rows(F, Y, root, groups)

    expected = [left_out_by_hand(F, Y, root, found.lam, i) for i in range(30)]
    np.testing.assert_allclose(fetch(found.left_out), expected, atol=1e-10)


@pytest.mark.parametrize("shape", [(40, 90), (90, 40)], ids=["dual", "primal"])
def test_samples_judged_under_features_of_their_own_choose_one_ridge(xp, rng, shape):
    F, Y, root, groups = problem(rng, *shape)
    half = np.arange(len(F)) % 2
    both = F, F[:, ::-1] + rng.standard_normal(F.shape)

    judges = [xp.asarray((half == side).astype(float)) for side in (0, 1)]
    found = judge_crossed([xp.asarray(one) for one in both], xp.asarray(Y), xp.asarray(root), groups, judges)

    def scores(lam):
        return np.array([left_out_by_hand(both[half[i]], Y, root, lam, i) for i in range(len(F))])

    def loss(lam):
        return float(root**2 @ ((Y - scores(lam)) ** 2).sum(axis=1) / (root**2).sum())

    np.testing.assert_allclose(fetch(found.left_out), scores(found.lam), atol=1e-10)
    assert found.loss == pytest.approx(loss(found.lam), rel=1e-8)
    for near in (found.lam / 10**0.5, found.lam * 10**0.5):
        assert loss(near) >= found.loss


@pytest.mark.parametrize("shape", [(40, 90), (90, 40)], ids=["dual", "primal"])
def test_a_classifier_is_the_same_whether_its_ridge_was_known_or_found(xp, rng, shape):
    F, Y, root, groups = problem(rng, *shape)
    given = *(xp.asarray(a) for a in (F, Y, root)), groups

    found, judged = fit_rows(*given)
    known = solve_rows(*given, judged.lam)

    assert found.lam == known.lam == judge_rows(*given).lam
    np.testing.assert_allclose(fetch(known.W), fetch(found.W), atol=1e-10)
    np.testing.assert_allclose(fetch(known.b), fetch(found.b), atol=1e-10)


@pytest.mark.parametrize("shape", [(30, 50), (50, 8)], ids=["dual", "primal"])
def test_the_classifier_is_ridge_regression_on_standardised_features(rng, shape):
    F, Y, root, groups = problem(rng, *shape)
    s = root**2
    mean, mean_Y = s @ F / s.sum(), s @ Y / s.sum()
    deviation = np.sqrt(s @ (F - mean) ** 2 / s.sum())
    A = (F - mean) / (deviation + 0.1 * deviation.mean())
    mu = 0.1 * (s @ (A**2).sum(axis=1)) / s.sum()

    found = solve_rows(F, Y, root, groups, 0.1)

    W = np.linalg.solve(A.T * s @ A + mu * np.eye(shape[1]), A.T * s @ (Y - mean_Y))
    np.testing.assert_allclose(F @ fetch(found.W).T + fetch(found.b), A @ W + mean_Y, atol=1e-9)
