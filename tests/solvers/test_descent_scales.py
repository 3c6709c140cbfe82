"""Scales of atoms: the minimum that a search finds, the ball, atoms that nothing holds."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from dcadl.arrays import fetch
from dcadl.solvers.descent import best_scales


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_scales_are_what_a_search_finds(xp, rng, size):
    a, b, w = np.exp(rng.normal(size=(3, 40))) * np.array([[1.0], [1.0], [size]])
    lengths = rng.uniform(0.1, 1, 40)
    lengths[:20] = 1e-6  # the ball is far away

    c = fetch(best_scales(*(xp.asarray(x) for x in (a, b, w, lengths))))

    for i in range(40):

        def terms(log, i=i):
            c = np.exp(log)
            return 0.5 * a[i] * c**2 + b[i] * c + 0.5 * w[i] / c**2

        found = minimize_scalar(terms, bounds=(-6, np.log(1 / lengths[i])), method="bounded")
        assert terms(np.log(c[i])) <= found.fun * (1 + 1e-9)
    assert (c * lengths <= 1 + 1e-12).all()


def test_an_atom_without_a_classifier_keeps_its_scale(xp):
    ones = xp.asarray(np.ones(2))
    c = fetch(best_scales(ones, ones, xp.asarray(np.array([0.0, 1.0])), ones))
    assert c[0] == 1
    assert 0 < c[1] < 1
