"""The classifier's block: its metric, and how close one step comes."""

from __future__ import annotations

import numpy as np
import pytest

from dcadl.arrays import fetch
from dcadl.solvers import classifier
from dcadl.solvers.classifier import Metric, Regression, lower_classifier, metric_of
from dcadl.solvers.descent import Chunk
from dcadl.solvers.walk import SerialWalk

n, p, m, C = 40, 3, 4, 3
LAM2, LAM3 = 0.5, 0.1


def regression(xp, Y, weight=None):
    chunk = Chunk(lambda: None, xp.asarray(Y), None if weight is None else xp.asarray(weight))
    return Regression([chunk], SerialWalk(), LAM2, LAM3)


@pytest.fixture
def stepping(monkeypatch):
    monkeypatch.setattr(classifier, "solved_exactly", lambda *shape: False)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_metric_inverts_codes_that_are_a_product_of_patches_and_atoms(xp, rng, stepping, weighted):
    """Over all pairs of these patch and atom patterns, ŨŨᵀ is S⊗T / tr S exactly."""
    over_patches, over_atoms = rng.standard_normal((5, p)), rng.standard_normal((6, m))
    U = np.einsum("ak,bi->abki", over_patches, over_atoms).reshape(30, p, m)
    weight = np.full(30, 2.0) if weighted else None
    R = rng.standard_normal((p * m, C))

    metric = metric_of(regression(xp, np.zeros((30, C)), weight), [xp.asarray(U)], (p * m, C))

    rows = U.reshape(30, -1) * (np.sqrt(2) if weighted else 1)
    exact = np.linalg.solve(LAM2 * rows.T @ rows + LAM3 * np.eye(p * m), R)
    np.testing.assert_allclose(fetch(metric.solve(xp.asarray(R))), exact, rtol=1e-2)


def test_a_step_lowers_the_ridge_objective_under_any_metric(xp, rng, stepping):
    U, Y = rng.standard_normal((n, p, m)), np.eye(C)[np.arange(n) % C]
    rows, W = U.reshape(n, -1), rng.standard_normal((C, p * m))
    turn = np.linalg.qr(rng.standard_normal((p, p)))[0]
    odd = Metric(xp.asarray(turn), xp.asarray(np.eye(m)), xp.asarray(rng.uniform(0.01, 9, (p, m))))

    def value(W):
        return 0.5 * LAM2 * ((Y - rows @ W.T) ** 2).sum() + 0.5 * LAM3 * (W**2).sum()

    slope = LAM2 * rows.T @ (Y - rows @ W.T)
    found = lower_classifier(regression(xp, Y), [xp.asarray(U)], xp.asarray(W), xp.asarray(slope), odd)

    assert value(fetch(found)) < value(W)


def test_codes_of_nothing_but_zeros_have_a_metric_too(stepping):
    metric = metric_of(regression(np, np.zeros((n, C))), [np.zeros((n, p, m))], (p * m, C))
    np.testing.assert_allclose(metric.solve(np.ones((p * m, C))), 1 / LAM3, rtol=1e-6)
