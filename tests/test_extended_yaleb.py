"""The paper's first table, on the real faces: what the method must reach."""

from __future__ import annotations

import numpy as np
import pytest

from dcadl import DCADL
from dcadl.data import load, split

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_thread")]
FACES = {"n_atoms": 50, "patch_shape": 12, "stride": 6}


@pytest.fixture(scope="module")
def faces(data_root):
    bunch = load("extended_yaleb", root=data_root)
    return np.asarray(bunch.images if "images" in bunch else bunch.data, dtype=np.float32).reshape(
        -1, 48, 42
    ), bunch.target


def mean_accuracy(faces, seeds, **parameters):
    X, y = faces
    found = []
    for seed in range(seeds):
        train, test = split(y, per_class=32, seed=seed)
        model = DCADL(**FACES, random_state=seed, **parameters).fit(X[train], y[train])
        found.append(100 * model.score(X[test], y[test]))
    return np.mean(found)


def test_the_papers_solver_reaches_the_papers_accuracy(faces):
    assert mean_accuracy(faces, 1, solver="paper", max_iter=11) >= 99.5


@pytest.mark.parametrize(("normalize", "floor"), [("patch", 99.75), ("centred", 99.9)])
def test_the_descending_solver_beats_it(faces, normalize, floor):
    assert mean_accuracy(faces, 10, normalize=normalize) >= floor
