"""Discriminants of left-out scores: scikit-learn as an oracle, what they add to the largest score."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from dcadl import LOOADL
from dcadl.ops import discriminant as module
from dcadl.ops.discriminant import discriminant

OWN, COVARIANCE = 0.0, 0.0  # class means and Σ as the images have them


@pytest.fixture
def one_way(monkeypatch):
    """No choice of α and ν but one, and no floor."""

    def fix(alpha: float, nu: float) -> None:
        monkeypatch.setattr(module, "ALPHAS", (alpha,))
        monkeypatch.setattr(module, "NUS", (nu,))
        monkeypatch.setattr(module, "LEFT_OUT_FLOOR", 0.0)

    return fix


def scores_of(rng, numbers, noise=0.3, mix=None):
    """Scores that sum to one, as ridge regression gives them, with noise that differs by direction."""
    C = int(numbers.max()) + 1
    mix = np.eye(C) if mix is None else mix
    found = np.eye(C)[numbers] @ mix + noise * rng.standard_normal((len(numbers), C)) * np.arange(1, C + 1)
    return found - found.mean(axis=1, keepdims=True) + 1 / C


def on_a_line(rng, per_class=40):
    """What ridge regression says of three classes at 0, 1 and 2: the middle one is never largest."""
    numbers = np.repeat(np.arange(3), per_class)
    x = numbers + 0.1 * rng.standard_normal(len(numbers))
    A = np.column_stack([np.ones_like(x), x])
    return A @ np.linalg.lstsq(A, np.eye(3)[numbers], rcond=None)[0], numbers


def test_they_are_those_of_scikit_learn(rng, one_way):
    one_way(COVARIANCE, OWN)
    numbers = np.repeat(np.arange(4), [30, 50, 20, 60])
    scores = scores_of(rng, numbers)

    found, _ = discriminant(scores, numbers, np.ones(len(scores)))

    oracle = LinearDiscriminantAnalysis(solver="lsqr").fit(scores[:, :3], numbers)  # the last one follows
    expected = oracle.decision_function(scores[:, :3])
    expected -= expected.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(found(scores), expected, rtol=1e-6, atol=1e-8)


def test_drawn_to_the_labels_altogether_the_largest_score_wins(rng, one_way):
    one_way(1.0, np.inf)
    numbers = np.arange(120) % 4
    scores = scores_of(rng, numbers)
    scores += 0.25 - scores.mean(axis=0)  # the shares, as those of ridge regression with an intercept
    found, held_out = discriminant(scores, numbers, np.ones(len(scores)))
    np.testing.assert_array_equal(found(scores).argmax(axis=1), scores.argmax(axis=1))
    assert np.mean(held_out.argmax(axis=1) == scores.argmax(axis=1)) > 0.95  # folds know other shares


def test_scores_that_say_nothing_leave_the_largest_one(rng):
    """Not one class for all images."""
    numbers = np.arange(60) % 3
    scores = 0.5 * rng.standard_normal((60, 3)) - np.eye(3)[numbers] / 60
    found, _ = discriminant(scores, numbers, np.ones(60))
    assert len(np.unique(found(scores).argmax(axis=1))) == 3


def test_the_opposite_of_what_labels_say_is_not_followed(rng, one_way):
    one_way(1.0, np.inf)
    numbers = np.arange(60) % 3
    scores = 0.1 * rng.standard_normal((60, 3)) - np.eye(3)[numbers]
    scores += 1 / 3 - scores.mean(axis=0)
    found, _ = discriminant(scores, numbers, np.ones(60))
    np.testing.assert_array_equal(found(scores).argmax(axis=1), scores.argmax(axis=1))


def test_the_largest_score_stays_where_scores_say_no_more(rng):
    alike = []
    for classes in (2, 5, 10) * 4:
        numbers = np.arange(10 * classes) % classes
        scores = np.eye(classes)[numbers] + 0.7 * rng.standard_normal((len(numbers), classes))
        found, _ = discriminant(scores, numbers, np.ones(len(numbers)))
        alike.append(np.mean(found(scores).argmax(axis=1) == scores.argmax(axis=1)))
    assert np.mean(alike) > 0.9


@pytest.mark.parametrize(("gain", "expected"), [(0.05, 0), (0.5, 1)])
def test_a_gain_within_its_standard_error_is_no_gain(rng, gain, expected):
    first = rng.random(100)
    other = first - gain + 0.1 * np.resize([-10.0, 10.0], 100)  # of standard error 0.1
    assert module._least([first, other, first + 1], np.ones(100)) == expected


@pytest.mark.parametrize(("name", "most"), [("ENOUGH", 50), ("MOST_SCORES", 200)])
def test_some_folds_choose_for_all_where_images_or_classes_are_many(rng, monkeypatch, name, most):
    numbers = np.arange(200) % 4
    scores, plain, seen = scores_of(rng, numbers), module._losses, []
    monkeypatch.setattr(module, "_losses", lambda *given: seen.append(len(given[0])) or plain(*given))
    monkeypatch.setattr(module, name, most)

    _, held_out = discriminant(scores, numbers, np.ones(200))

    assert set(seen) == {60}  # three folds of twenty
    assert np.abs(held_out).max(axis=1).all()  # but all are named


def test_a_class_between_two_others_is_named(rng):
    scores, numbers = on_a_line(rng)
    assert np.mean(scores.argmax(axis=1) == numbers) < 0.75
    _, held_out = discriminant(scores, numbers, np.ones(len(scores)))
    assert np.mean(held_out.argmax(axis=1) == numbers) > 0.97


def test_what_is_held_out_knows_nothing_of_its_fold(rng, one_way):
    one_way(0.1, OWN)
    numbers = np.arange(60) % 3
    scores = rng.standard_normal((60, 3))
    moved = scores.copy()
    fold = next(fold for fold in module._folds(numbers) if 0 in fold)
    inside = np.setdiff1d(fold, [0])
    moved[inside] += 5.0 * rng.standard_normal((len(inside), 3))
    moved[inside] -= moved[inside].mean(axis=0) - scores[inside].mean(axis=0)  # the same mean of all

    before, after = (discriminant(one, numbers, np.ones(60))[1] for one in (scores, moved))

    np.testing.assert_allclose(after[0], before[0], rtol=1e-8)
    others = np.setdiff1d(np.arange(60), fold)
    assert np.abs(after[others] - before[others]).max() > 0.01


def test_noise_is_named_no_better_than_by_chance(rng):
    numbers = np.arange(400) % 4
    scores = rng.standard_normal((400, 4))
    _, held_out = discriminant(scores, numbers, np.ones(400))
    assert np.mean(held_out.argmax(axis=1) == numbers) == pytest.approx(0.25, abs=0.07)


def test_the_unit_of_weights_does_not_matter(rng):
    numbers = np.arange(90) % 3
    scores, weight = scores_of(rng, numbers), 0.5 + rng.random(90)
    one, other = (discriminant(scores, numbers, scale * weight) for scale in (1.0, 1000.0))
    np.testing.assert_allclose(one[1], other[1], rtol=1e-6)
    np.testing.assert_allclose(one[0].A, other[0].A, rtol=1e-6)


def test_a_class_of_more_weight_is_named_more_often(rng):
    numbers = np.arange(200) % 2
    scores = scores_of(rng, numbers, noise=1.0)
    even, heavy = (
        discriminant(scores, numbers, np.where(numbers == 1, weight, 1.0))[0](scores).argmax(axis=1).mean()
        for weight in (1.0, 9.0)
    )
    assert heavy > even + 0.1


def test_rare_classes_that_ridge_regression_shrank_are_raised(rng):
    numbers = np.repeat([0, 1, 2], [500, 500, 20])
    scores = scores_of(rng, numbers, noise=0.05, mix=np.array([[1, 0, 0], [0, 1, 0], [0.45, 0.4, 0.15]]))
    assert np.mean(scores[numbers == 2].argmax(axis=1) == 2) < 0.2
    _, held_out = discriminant(scores, numbers, np.ones(len(scores)))
    assert np.mean(held_out[numbers == 2].argmax(axis=1) == 2) > 0.5


@pytest.mark.parametrize("numbers", [[0, 1], [0, 0, 1], [0, 1, 2], [0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2]])
def test_few_images_and_lonely_classes_give_finite_numbers(rng, numbers):
    numbers = np.array(numbers)
    scores = scores_of(rng, numbers)
    found, held_out = discriminant(scores, numbers, np.ones(len(numbers)))
    assert np.isfinite(found(scores)).all()
    assert np.isfinite(held_out).all()


def test_scores_that_are_all_alike_name_the_larger_class():
    numbers = np.array([0] * 6 + [1] * 14)
    scores = np.tile([0.3, 0.7], (20, 1))
    found, held_out = discriminant(scores, numbers, np.ones(20))
    np.testing.assert_array_equal(held_out.argmax(axis=1), 1)
    np.testing.assert_allclose(found(scores)[:, 1] - found(scores)[:, 0], np.log(14 / 6))


def test_dots_are_counted(rng):
    """One to four dots anywhere: averages grow by the number of dots, so that classes lie on a line."""

    def draw(n):
        X, y = np.zeros((n, 24, 24)), np.arange(n) % 4
        for image, count in zip(X, y):
            for place in rng.permutation(25)[: count + 1]:
                i, j = 4 * np.array(divmod(place, 5)) + rng.integers(1, 3, 2)
                image[i : i + 2, j : j + 2] = 1.0
        return (X + 0.02 * rng.standard_normal(X.shape)).astype(np.float32), y

    model = LOOADL(random_state=0).fit(*draw(120))
    assert model.score(*draw(200)) > 0.9


def test_pictures_of_noise_promise_no_more_than_chance(rng):
    """Being left out moves scores away from one's own class: a pattern that must not be taken for one."""
    told = []
    for _ in range(4):
        X, y = rng.standard_normal((100, 12, 12)), np.arange(100) % 10
        told.append(LOOADL(random_state=0, learn=False).fit(X, y).expected_accuracy_)
    assert np.mean(told) < 0.15
