"""Training images of LOO-ADL: reduced, drawn fairly, of odd shapes, and what is judged by them."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from noisy_bars import stripes

from dcadl import LOOADL
from dcadl.estimators.loo_adl import learn as learning
from dcadl.estimators.loo_adl.images import distinct_images, reduce_images, reduction
from dcadl.solvers.sources import StoredImages

QUICK = {"patch_shape": 3, "normalize": "whitened", "pool": (2, 4), "n_atoms": 6, "max_iter": 4}


ODD = [
    (shape, kind) for shape in [(1, 1), (4, 4), (1, 30), (9, 9, 3)] for kind in ("plain", "constant", "zero")
]


def test_large_images_are_reduced_first(rng):
    X, y = stripes(rng, 24, shape=(160, 120))

    model = LOOADL(random_state=0, learn=False).fit(X, y)

    assert model.reduction_ == reduction((160, 120)) == 2
    assert model.grid_.image == (80, 60, 1)
    assert model.predict(X).shape == (24,)


def test_reduced_pixels_are_averages(rng):
    X = rng.uniform(size=(2, 7, 9, 3))

    found = reduce_images(X.reshape(2, -1), (7, 9, 3), 2).reshape(2, 3, 4, 3)

    np.testing.assert_allclose(found[1, 2, 3], X[1, 4:6, 6:8].mean(axis=(0, 1)))


def test_images_are_drawn_by_turns_from_classes_of_equal_size(rng):
    X, numbers = rng.uniform(size=(30, 4)), np.repeat([0, 1, 2], 10)

    images = distinct_images(StoredImages(X, X.dtype), numbers, None, (2, 2), 1)

    assert all(set(numbers[images.order[i : i + 3]]) == {0, 1, 2} for i in range(0, 30, 3))


def test_every_stretch_of_drawn_images_has_the_shares_of_the_classes(rng):
    numbers = rng.permutation(np.repeat([0, 1, 2], [400, 150, 50]))

    images = distinct_images(StoredImages(rng.uniform(size=(600, 4)), float), numbers, None, (2, 2), 1)

    for begin in range(0, 600, 60):
        drawn = np.bincount(numbers[images.order[begin : begin + 60]], minlength=3)
        assert np.all(np.abs(drawn - [40, 15, 5]) <= 1)


def test_images_that_judge_hold_every_class_however_rare(digits, monkeypatch):
    monkeypatch.setattr(learning, "LEARNING_IMAGES", 200)
    X, y = digits
    rare = np.flatnonzero(y == 3)[40:]
    X, y = np.delete(X, rare, axis=0), np.delete(y, rare)

    model = LOOADL(**QUICK, random_state=0).fit(X, y)

    assert model.learned_
    shares = model.confusion_.sum(axis=1) / model.confusion_.sum()
    np.testing.assert_allclose(shares, np.bincount(y) / len(y), atol=0.01)


@pytest.mark.parametrize(("shape", "kind"), ODD)
@pytest.mark.filterwarnings("error")
def test_odd_images_are_fitted_and_only_blank_ones_warn_of_it(rng, shape, kind):
    y = np.arange(24) % 3
    X = {"plain": rng.standard_normal((24, *shape)) + rng.standard_normal((3, *shape))[y],
         "constant": np.broadcast_to(y.reshape(-1, *[1] * len(shape)), (24, *shape)),
         "zero": np.zeros((24, *shape))}[kind].astype(np.float32)  # fmt: skip

    blind = pytest.warns(UserWarning, match="learned nothing") if kind == "zero" else contextlib.nullcontext()
    with blind:
        model = LOOADL(random_state=0, n_atoms=4, max_iter=2).fit(X, y)

    assert np.isfinite(model.predict_proba(X)).all()
    assert 0 <= model.expected_accuracy_ <= 1


def test_a_picture_of_one_row_is_a_signal(rng):
    y = np.arange(40) % 2
    X = rng.standard_normal((40, 1, 30)) + 3 * np.sin(np.arange(30) * (1 + y[:, None, None]))

    model = LOOADL(random_state=0, n_atoms=4).fit(X, y)

    assert model.patch_shape_[0] == 1 < model.patch_shape_[1]
    assert model.score(X, y) > 0.9


@pytest.mark.filterwarnings("ignore:LOOADL learned nothing")
def test_training_images_are_named_again_only_where_those_left_out_were_not(rng, monkeypatch):
    """It is how a fit finds out that it learned nothing."""
    named = []
    predict = LOOADL.predict
    monkeypatch.setattr(LOOADL, "predict", lambda self, X: named.append(len(X)) or predict(self, X))
    y = np.arange(40) % 2
    noise = rng.standard_normal((40, 6, 6))

    LOOADL(n_atoms=2, max_iter=1, random_state=0).fit(noise + 3 * y[:, None, None] * noise[0], y)
    assert named == []

    LOOADL(n_atoms=2, max_iter=1, learn=False, random_state=0).fit(noise, rng.permutation(y))
    assert named == [40]
