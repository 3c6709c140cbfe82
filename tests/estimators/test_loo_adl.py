"""LOO-ADL: no settings, honest estimates, images of any kind wherever they lie."""

from __future__ import annotations

import numpy as np
import pytest
from noisy_bars import stripes

import dcadl
from dcadl import LOOADL
from dcadl.estimators.loo_adl import choice
from dcadl.estimators.loo_adl import images as images_of_loo_adl
from dcadl.estimators.loo_adl import learn as learning
from dcadl.ops.patches import patch_grid
from dcadl.ops.pool import Pyramid
from dcadl.solvers.loo_adl import Atoms, Model
from dcadl.solvers.structure import first_looks

QUICK = {"patch_shape": 3, "normalize": "whitened", "pool": (2, 4), "n_atoms": 6, "max_iter": 4}


@pytest.fixture(scope="module")
def halves(digits):
    """Images and labels to train on, and to test on: drawn, since writers follow one another."""
    X, y = digits
    train, test = np.split(np.random.default_rng(0).permutation(len(X)), 2)
    return X[train], y[train], X[test], y[test]


@pytest.fixture(scope="module")
def fitted(halves):
    X, y, *_ = halves
    return LOOADL(n_atoms=8, random_state=0).fit(X, y)


def test_without_settings_it_reads_digits(halves):
    X, y, *test = halves
    model = LOOADL(random_state=0).fit(X[:300], y[:300])
    accuracy = model.score(*test)

    assert accuracy > 0.95
    assert abs(model.expected_accuracy_ - accuracy) < 0.04


def test_few_atoms_are_learned(fitted, halves):
    assert fitted.learned_
    assert abs(fitted.expected_accuracy_ - fitted.score(*halves[2:])) < 0.03


def test_structures_are_compared_best_first(fitted):
    losses = [one["loss"] for one in fitted.candidates_]

    assert losses == sorted(losses)
    assert {one["patch_shape"] for one in fitted.candidates_} == {(3, 3), (4, 4)}
    assert {one["normalize"] for one in fitted.candidates_} == {
        "whitened",
        "whitened-once",
        "centred",
        None,
    }
    assert {one["patch_shape"] for one in fitted.candidates_ if one["normalize"] is None} == {(3, 3)}
    best = fitted.candidates_[0]
    assert (best["patch_shape"], best["normalize"], best["pool"]) == (
        fitted.grid_.patch,
        fitted.normalize_,
        fitted.pool_,
    )


def test_windows_as_they_are_come_in_every_size_where_nothing_else_is_asked_for(digits):
    X, y = digits

    model = LOOADL(normalize=None, learn=False, n_atoms=4, random_state=0).fit(X[:100], y[:100])

    assert {one["patch_shape"] for one in model.candidates_} == {(3, 3), (4, 4)}
    assert {one["normalize"] for one in model.candidates_} == {None}


def test_the_best_structures_are_compared_again_where_images_are_many(digits, monkeypatch):
    X, y = digits
    monkeypatch.setattr(choice, "CHOICE_IMAGES", 100)
    monkeypatch.setattr(choice, "FINAL_IMAGES", 500)
    monkeypatch.setattr(choice, "FINALISTS", 2)

    model = LOOADL(learn=False, random_state=0).fit(X, y)

    assert [one["n_images"] for one in model.candidates_[:3]] == [500, 500, 100]


def test_the_objective_never_rises(fitted):
    assert len(fitted.objective_) == fitted.n_iter_ + 1
    assert np.all(np.diff(fitted.objective_) <= 0)


def test_learning_beats_the_first_atoms_where_atoms_are_few(halves):
    X, y, *others = halves
    scores = [
        LOOADL(n_atoms=4, learn=learn, patch_shape=4, normalize="whitened", pool=(2,), random_state=0)
        .fit(X, y)
        .score(*others)
        for learn in (False, True)
    ]

    assert scores[1] > scores[0]


def test_a_bar_that_lies_anywhere_is_found(rng):
    X, y = stripes(rng, 120)

    model = LOOADL(random_state=0).fit(X[:80], y[:80])

    assert model.score(X[80:], y[80:]) >= 0.9


def test_colour_is_seen(rng):
    X = rng.uniform(0, 0.3, size=(60, 14, 14, 3)).astype(np.float32)
    y = np.arange(60) % 2
    X[np.arange(60), 4:8, 4:8, y] += rng.uniform(0.3, 0.6, size=(60, 1, 1)).astype(np.float32)

    model = LOOADL(**QUICK, random_state=0).fit(X[:40], y[:40])

    assert model.atoms_.shape == (6, 3, 3, 3)
    assert model.score(X[40:], y[40:]) == 1.0


def test_signals_have_patches_and_pools_along_their_length(rng):
    t = np.arange(96)
    y = np.arange(60) % 2
    X = np.sin(t * np.where(y, 0.5, 0.9)[:, None] + rng.uniform(0, 6, size=(60, 1)))
    X += 0.3 * rng.standard_normal(X.shape)

    model = LOOADL(image_shape=(96,), random_state=0).fit(X[:40], y[:40])

    assert model.atoms_.ndim == 2
    assert model.score(X[40:], y[40:]) == 1.0


def test_rows_with_an_image_shape_are_images(digits):
    X, y = digits

    images = LOOADL(**QUICK, random_state=0).fit(X[:200], y[:200])
    rows = LOOADL(**QUICK, image_shape=(8, 8), random_state=0).fit(X[:200].reshape(200, -1), y[:200])

    np.testing.assert_array_equal(images.coef_, rows.coef_)


def test_the_order_of_images_does_not_matter(digits, rng):
    X, y = digits[0][:200].astype(np.float64), digits[1][:200]
    shuffled = rng.permutation(200)

    one = LOOADL(**QUICK, random_state=0).fit(X, y)
    other = LOOADL(**QUICK, random_state=0).fit(X[shuffled], y[shuffled])

    np.testing.assert_allclose(one.decision_function(X), other.decision_function(X), atol=1e-6)


def test_copies_of_an_image_count_as_one_of_their_weight(digits):
    X, y = digits[0][:200].astype(np.float64), digits[1][:200]
    copies = np.r_[np.arange(200), np.arange(30), np.arange(30)]

    weighed = LOOADL(**QUICK, random_state=0).fit(X, y, sample_weight=np.r_[np.full(30, 3.0), np.ones(170)])
    copied = LOOADL(**QUICK, random_state=0).fit(X[copies], y[copies])

    np.testing.assert_allclose(weighed.coef_, copied.coef_, atol=1e-8)
    assert copied.n_judged_ == 200


@pytest.mark.parametrize("unit", [5.0, 1 / 200, 1e-6])
def test_the_unit_of_weights_does_not_matter(digits, unit):
    X, y = digits[0][:200].astype(np.float64), digits[1][:200]
    weight = np.linspace(0.5, 1.5, 200)

    one, other = (LOOADL(n_atoms=4, random_state=0).fit(X, y, u * weight) for u in (1.0, unit))

    np.testing.assert_allclose(other.decision_function(X), one.decision_function(X), atol=1e-8)
    np.testing.assert_allclose(other.confusion_, unit * one.confusion_, rtol=1e-8)


def test_features_of_many_images_are_summed_up_and_the_classifier_is_the_same(digits, monkeypatch):
    X, y = digits[0].astype(np.float64), digits[1]
    kept = LOOADL(**QUICK, learn=False, random_state=0).fit(X, y)
    monkeypatch.setattr(learning, "FEATURE_BYTES", 0)
    monkeypatch.setattr(learning, "LEARNING_IMAGES", 0)  # so that all are judged

    summed = LOOADL(**QUICK, learn=False, random_state=0).fit(X, y)

    np.testing.assert_allclose(summed.coef_, kept.coef_, atol=1e-8)
    np.testing.assert_allclose(summed.intercept_, kept.intercept_, atol=1e-8)
    assert summed.expected_accuracy_ == kept.expected_accuracy_


def test_atoms_of_many_images_are_judged_by_others(digits, monkeypatch):
    X, y = digits
    monkeypatch.setattr(learning, "LEARNING_IMAGES", 200)
    monkeypatch.setattr(learning, "JUDGED_IMAGES", 100)
    monkeypatch.setattr(learning, "FEATURE_BYTES", 0)

    model = LOOADL(**QUICK, random_state=0).fit(X, y)

    assert model.learned_
    assert model.n_judged_ == 100


def test_the_expected_accuracy_is_that_of_images_no_atom_was_learned_from(digits, monkeypatch):
    X, y = digits
    monkeypatch.setattr(learning, "LEARNING_IMAGES", 200)  # the features of all fit in memory

    model = LOOADL(**QUICK, random_state=0).fit(X, y)

    assert model.learned_
    assert model.n_judged_ == len(y) - 200


def test_atoms_longer_than_there_are_images_are_not_learned(rng):
    X, y = rng.standard_normal((40, 300)), np.arange(40) % 2
    X[:, 0] += 3 * y

    assert not LOOADL(random_state=0).fit(X, y).learned_


def test_neighbours_in_plain_vectors_are_not_averaged(rng, monkeypatch):
    monkeypatch.setattr(images_of_loo_adl, "LARGE_PIXELS", 100)  # beyond which images are reduced
    monkeypatch.setattr(images_of_loo_adl, "WORKING_PIXELS", 50)
    y = np.arange(60) % 2
    X = 0.1 * rng.standard_normal((60, 300)) + (-1.0) ** np.arange(300) * (2 * y[:, None] - 1)

    model = LOOADL(random_state=0).fit(X[:40], y[:40])

    assert model.reduction_ == 1
    assert model.score(X[40:], y[40:]) > 0.9  # averages of neighbours tell nothing
    assert LOOADL(random_state=0, image_shape=(300,)).fit(X, y).reduction_ == 6


@pytest.mark.parametrize(
    ("shape", "settings", "says"),
    [((12_001,), {}, "plain vectors of at most 12000 values; got 12001. Use DCADL"),
     ((80, 160), {"patch_shape": None}, "windows of at most 12000 values; got 12800. Choose a smaller")],
)  # fmt: skip
def test_windows_of_which_a_matrix_would_not_fit_are_refused(shape, settings, says):
    with pytest.raises(ValueError, match=says):
        LOOADL(**settings).fit(np.ones((4, *shape), np.float32), [0, 1, 0, 1])


def test_learning_that_does_not_generalise_is_thrown_away(digits, monkeypatch):
    X, y = digits
    monkeypatch.setattr(learning.HeldOut, "loss", 0.0)  # learned and first atoms tie

    model = LOOADL(**QUICK, random_state=0).fit(X[:200], y[:200])

    assert not model.learned_
    assert len(model.objective_) == 0


def test_a_memory_map_gives_the_same_model(digits, tmp_path):
    X, y = digits
    np.save(tmp_path / "x.npy", X)

    mapped = LOOADL(**QUICK, random_state=0).fit(tmp_path / "x.npy", y)
    plain = LOOADL(**QUICK, random_state=0).fit(X, y)

    np.testing.assert_array_equal(mapped.coef_, plain.coef_)
    np.testing.assert_array_equal(mapped.predict(tmp_path / "x.npy"), plain.predict(X))


@pytest.mark.parametrize("backend", ["torch"])
def test_a_backend_gives_the_same_model(digits, backend):
    pytest.importorskip("torch", reason="torch is not installed")
    X, y = digits[0][:200].astype(np.float64), digits[1][:200]

    there = LOOADL(**QUICK, backend=backend, random_state=0).fit(X, y)
    here = LOOADL(**QUICK, random_state=0).fit(X, y)

    np.testing.assert_allclose(there.decision_function(X), here.decision_function(X), atol=1e-8)
    np.testing.assert_allclose(there.objective_, here.objective_, atol=1e-8)


def test_a_saved_model_is_the_same(fitted, digits, tmp_path):
    X, _ = digits
    fitted.save(tmp_path / "model.safetensors")

    loaded = dcadl.load(tmp_path / "model.safetensors")

    np.testing.assert_array_equal(loaded.decision_function(X), fitted.decision_function(X))
    assert loaded.candidates_ == fitted.candidates_
    assert loaded.expected_accuracy_ == fitted.expected_accuracy_


def test_codes_times_coefficients_are_the_scores(fitted, digits):
    X, _ = digits

    scores = fitted.transform(X[:5]) @ fitted.coef_.T + fitted.intercept_

    np.testing.assert_allclose(scores, fitted.decision_function(X[:5]), atol=1e-5)


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("n_atoms", 0, "n_atoms must be"),
        ("pool", (0,), "pool must be"),
        ("pool", 3, "pool must be"),
        ("normalize", "white", "normalize must be one of"),
        ("patch_shape", 99, "patch_shape must fit"),
        ("learn", "yes", "learn must be one of"),
        ("max_iter", 0, "max_iter must be"),
    ],
)
def test_a_wrong_parameter_is_named(digits, name, value, says):
    X, y = digits

    with pytest.raises(ValueError, match=says):
        LOOADL(**{name: value}).fit(X[:50], y[:50])


def test_the_confusions_hold_the_judged_images_and_their_right_ones(fitted):
    confusion = fitted.confusion_

    assert confusion.sum() == fitted.n_judged_
    assert np.trace(confusion) / confusion.sum() == pytest.approx(fitted.expected_accuracy_)


def test_the_last_ridge_is_as_strong_as_atoms_that_have_not_seen_the_images_ask_for(digits, monkeypatch):
    X, y = digits
    found, crossed = [], learning._cross_fitted
    monkeypatch.setattr(learning, "_cross_fitted", lambda *a: found.append(crossed(*a)) or found[-1])

    model = LOOADL(**QUICK, random_state=0).fit(X[:300], y[:300])

    assert model.learned_
    assert model.lam_ == found[0].lam


def test_features_under_several_sets_of_atoms_are_those_under_each(digits, rng):
    X = digits[0].reshape(len(digits[0]), -1)[:50]
    grid = patch_grid((8, 8), 3, 1)
    [(transform, atoms)] = first_looks(X, grid, ["whitened"], 4, np.random.RandomState(0))
    model = Model(transform, Pyramid(grid.counts, (1, 2)))
    other = Atoms(rng.standard_normal(atoms.Omega.shape), 2 * atoms.t)

    together = learning.features_of(X, model, atoms, other)

    for found, one in zip(together, (atoms, other)):
        np.testing.assert_allclose(found, learning.features_of(X, model, one)[0], atol=1e-12)
    assert not np.allclose(*together)
