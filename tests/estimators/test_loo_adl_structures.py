"""What LOO-ADL takes where nothing is given."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from dcadl import LOOADL
from dcadl.estimators.loo_adl import structures
from dcadl.estimators.loo_adl.held_out import honest_scores
from dcadl.estimators.loo_adl.images import Images
from dcadl.estimators.loo_adl.learn import atoms_within, features_need
from dcadl.estimators.loo_adl.structures import MOST_FEATURES, usual_atoms
from dcadl.solvers import structure


@pytest.mark.parametrize("cells", [1, 21, 84, 500])
def test_very_many_images_have_more_atoms_as_far_as_their_features_can_be_solved(cells):
    some, many = (usual_atoms(n, cells) for n in (1_500, 5_000))
    fewest = usual_atoms(1_500, cells, right=1.0)

    assert many >= fewest
    assert many == fewest or 2 * many * cells <= MOST_FEATURES
    assert many > some or 4 * some * cells > MOST_FEATURES


@pytest.mark.parametrize("right", [0.5, 0.999])
def test_where_nearly_all_is_right_many_images_have_fewer_atoms(right):
    few, some = (usual_atoms(n, 84, right) for n in (500, 1_500))

    assert (some < few) == (right > 0.99)


def test_atoms_go_by_the_share_that_is_right_before_they_are_learned(rng, monkeypatch):
    monkeypatch.setattr(structures, "FEW_IMAGES", 100)
    easy = np.zeros((120, 8, 8))
    easy[1::2, :4] = 1.0
    easy += 0.01 * rng.standard_normal(easy.shape)
    hard = rng.standard_normal((120, 8, 8))

    atoms = [LOOADL(random_state=0, learn=False).fit(X, np.arange(120) % 2).n_atoms_ for X in (easy, hard)]

    assert atoms == [structures.FEWEST_ATOMS, structures.ATOMS]


@pytest.mark.parametrize("cells", [1, 21, 84])
def test_a_gigabyte_is_enough_for_sixty_thousand_images(cells):
    limit = 10**9
    usual = usual_atoms(60_000, cells)

    m = atoms_within(limit, usual, 60_000, cells)

    assert 16 <= m <= usual
    assert features_need(60_000, 2 * m * cells) <= limit
    assert m == usual or features_need(60_000, 2 * (m + 1) * cells) > limit
    assert atoms_within(None, usual, 60_000, cells) == usual


@pytest.mark.parametrize("shape", [(30,), (3, 3)], ids=["vector", "image"])
def test_one_place_has_one_pyramid(rng, shape):
    X, y = rng.standard_normal((40, *shape)), np.arange(40) % 2

    model = LOOADL(random_state=0, n_atoms=4, learn=False).fit(X, y)

    assert {one["pool"] for one in model.candidates_} == {(1,)}


def test_classes_of_three_brightnesses_are_told_apart(rng):
    y = np.arange(60) % 3
    light = 70 + 40 * y + 5 * rng.standard_normal(60)  # the middle one lies between the others
    X = light[:, None, None] + 20 * rng.standard_normal((60, 12, 12))

    model = LOOADL(random_state=0).fit(X[:30], y[:30])

    assert model.normalize_ is None
    assert model.score(X[30:], y[30:]) > 0.9


def test_a_rare_class_is_named_where_pictures_show_it(rng):
    y = np.repeat([0, 1, 2], [90, 90, 6])
    fixed = np.random.default_rng(0).standard_normal((3, 10, 10))

    def drawn(numbers):
        return fixed[numbers] + 2.0 * rng.standard_normal((len(numbers), 10, 10))

    model = LOOADL(random_state=0).fit(drawn(y), y)

    assert (model.predict(drawn(np.full(200, 2))) == 2).mean() > 0.3  # of 3 % of the images
    assert (model.predict(drawn(np.full(200, 1))) == 1).mean() > 0.95


def test_pictures_that_tell_nothing_leave_the_shares_of_the_classes():
    numbers, weight = np.array([0, 0, 1, 1, 1]), np.array([1.0, 2.0, 1.0, 1.0, 0.5])
    Y = np.eye(2)[numbers]
    without = (weight @ Y - weight[:, None] * Y) / (weight.sum() - weight)[:, None]
    nothing = np.empty(0)
    images = Images(None, np.arange(5), numbers, weight, np.arange(5), nothing, (4, 4), 1)

    found = honest_scores(images, np.arange(5), without)

    np.testing.assert_allclose(found.scores, np.tile(weight @ Y / weight.sum(), (5, 1)))


@pytest.mark.filterwarnings("ignore:LOOADL learned nothing")
@pytest.mark.parametrize("n_classes", [2, 3])
def test_of_blank_images_chance_is_expected(n_classes):
    y = np.arange(24) % n_classes
    X = np.linspace(1, 2, 24, dtype=np.float32)[:, None, None] * np.ones((9, 9), np.float32)

    model = LOOADL(random_state=0, n_atoms=4, normalize="centred").fit(X, y)

    assert model.expected_accuracy_ == pytest.approx(1 / n_classes)
    np.testing.assert_allclose(model.confusion_, 24 / n_classes**2)


def test_structures_far_behind_are_looked_at_once_and_would_not_have_won(monkeypatch):
    digits = load_digits()
    X, y = digits.images[:200], digits.target[:200]

    def candidates(far):
        monkeypatch.setattr(structure, "FAR_BEHIND", far)
        found = LOOADL(random_state=0, learn=False).fit(X, y).candidates_
        return {(one["patch_shape"], one["normalize"], one["pool"]): one["loss"] for one in found}

    some, all_of_them = candidates(1.5), candidates(np.inf)

    assert min(some, key=some.get) == min(all_of_them, key=all_of_them.get)
    assert all(some[name] >= loss for name, loss in all_of_them.items())
    assert any(some[name] > loss for name, loss in all_of_them.items())
