"""The ridge classifier behind features: its λ against its neighbours, its scores of samples left out."""

import numpy as np
import pytest

from dcadl.arrays import fetch
from dcadl.ops.standardise import Groups
from dcadl.solvers import loo_ridge
from dcadl.solvers.loo_ridge import fit_rows


def problem(rng, n, D):
    """Features of three classes with noise, labels and roots of weights."""
    y = rng.integers(3, size=n)
    F = rng.standard_normal((3, D))[y] + 2 * rng.standard_normal((n, D))
    return F, np.eye(3)[y], np.sqrt(rng.uniform(0.5, 2, size=n)), Groups(np.zeros(D, int), np.ones(1))


@pytest.mark.parametrize("shape", [(40, 90), (90, 40)], ids=["dual", "primal"])
@pytest.mark.parametrize("dear", [10**6, 1], ids=["from afar", "step by step"])
def test_no_neighbour_of_the_chosen_ridge_has_a_smaller_error(xp, rng, monkeypatch, shape, dear):
    monkeypatch.setattr(loo_ridge, "DEAR", dear)
    F, Y, root, groups = problem(rng, *shape)
    given = *(xp.asarray(a) for a in (F, Y, root)), groups

    found = fit_rows(*given)

    for near in (found.lam / 10**0.5, found.lam * 10**0.5):
        assert fit_rows(*given, near, search=False).loss >= found.loss


def test_judges_alone_choose_the_ridge(rng):
    """Samples whose labels features tell ask for little of it, those with labels by chance for much."""
    F, Y, root, groups = problem(rng, 60, 30)
    told = np.arange(60) < 30
    F[told, :3] += 5 * Y[told]
    Y[~told] = rng.permutation(Y[~told])

    by_told, by_others = (
        fit_rows(F, Y, root, groups, judges=judges.astype(float)).lam for judges in (told, ~told)
    )

    assert by_told < by_others


def test_left_out_scores_are_those_of_a_classifier_without_the_sample(rng):
    """But for the standard that features are brought to, which knows all samples."""
    F, Y, root, groups = problem(rng, 30, 8)
    found = fit_rows(F, Y, root, groups, 0.1, search=False)
    s, mean = root**2, (root**2 @ F) / (root**2).sum()
    away = F - mean
    deviation = np.sqrt(s @ away**2 / s.sum())
    A = away / (deviation + 0.1 * deviation.mean())
    mu = 0.1 * (s @ (A**2).sum(axis=1)) / s.sum()
    rest = np.arange(30) != 4
    share = s[rest] / s[rest].sum()
    B, T = A[rest] - share @ A[rest], Y[rest] - share @ Y[rest]

    W = np.linalg.solve(B.T * s[rest] @ B + mu * np.eye(8), B.T * s[rest] @ T)

    expected = share @ Y[rest] + (A[4] - share @ A[rest]) @ W
    np.testing.assert_allclose(fetch(found.left_out)[4], expected, atol=1e-10)
