"""Classifiers that search their own parameters: inside the training samples, from a stated grid."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from dcadl.bench import searched
from dcadl.bench.controls import KernelRidge, PCAAtoms
from dcadl.bench.outsiders import HOGSVM, RBFSVM, LogisticRegression

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def digits():
    bunch = load_digits()
    return (bunch.images / 16).astype(np.float32), bunch.target


def _candidates(cls):
    return {RBFSVM: 12, LogisticRegression: 10, HOGSVM: 10, KernelRidge: 20}[cls]


@pytest.mark.parametrize("cls", [RBFSVM, LogisticRegression, HOGSVM, KernelRidge])
def test_digits_are_read_after_a_search_of_its_grid(digits, cls):
    X, y = digits

    model = cls(random_state=0).fit(X[:300], y[:300])

    assert model.score(X[300:800], y[300:800]) > 0.8
    assert model.n_candidates_ == _candidates(cls)


@pytest.mark.parametrize("cls", [RBFSVM, KernelRidge])
def test_the_scale_of_the_pixels_does_not_matter_to_a_kernel(digits, cls):
    X, y = digits

    found = [cls(random_state=0).fit(c * X[:200], y[:200]).predict(c * X[200:400]) for c in (1, 255)]

    assert np.mean(found[0] == found[1]) > 0.99


def test_the_grid_is_searched_on_few_samples_and_the_winner_fitted_to_all(digits, monkeypatch):
    X, y = digits
    monkeypatch.setattr(searched, "SEARCH_SAMPLES", 100)
    seen = []
    plain = RBFSVM._search
    monkeypatch.setattr(RBFSVM, "_search", lambda self, F, y, v: seen.append(len(y)) or plain(self, F, y, v))

    model = RBFSVM(random_state=0).fit(X[:400], y[:400])

    assert seen == [100]
    assert model.model_.shape_fit_ == (400, 64)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_features_that_vary_most_may_matter_most_to_logistic_regression(rng, scale):
    """To standardise two hundred features of noise beside one that tells all would drown it."""
    y = np.arange(90) % 3
    X = 0.01 * rng.standard_normal((90, 200))
    X[:, 0] += y - 1.0
    X[:, 1] += y == 1

    model = LogisticRegression(random_state=0).fit(scale * X[:60], y[:60])

    assert model.score(scale * X[60:], y[60:]) > 0.95
    assert model.n_candidates_ == 20


@pytest.mark.parametrize("color", [False, True])
def test_hog_takes_grey_and_coloured_pictures_of_any_shape(rng, color):
    y = np.arange(30) % 3
    X = rng.random((30, 20, 13, 3)[: 4 if color else 3])
    X[y == 1, :, 6:] += 1
    X[y == 2, 10:] += 1

    assert HOGSVM(random_state=0).fit(X, y).score(X, y) > 0.9


def test_pca_atoms_are_orthonormal_and_span_the_patches(digits):
    X, y = digits
    model = PCAAtoms(n_atoms=16, patch_shape=4, stride=4, lam1=0.0).fit(X[:300], y[:300])

    np.testing.assert_allclose(model.components_ @ model.components_.T, np.eye(16), atol=1e-5)
    patches = X[300:310].reshape(10, 2, 4, 2, 4).swapaxes(2, 3).reshape(10, 4, 16)
    lengths = np.maximum(np.linalg.norm(patches, axis=-1), 1e-12)
    codes = np.linalg.norm(model.transform(X[300:310]).reshape(10, 4, 16), axis=-1)
    np.testing.assert_allclose(codes[lengths > 1e-6], 1.0, atol=1e-5)  # a rotation: no length is lost
    assert model.atoms_.shape == (16, 4, 4)


@pytest.mark.parametrize("normalize", ["patch", "image", "centred", None])
def test_all_pca_atoms_without_a_threshold_are_ridge_on_the_patches(digits, normalize):
    from dcadl import PatchRidge

    X, y = digits
    how = {"patch_shape": 4, "stride": 2, "lam": 0.5, "normalize": normalize}

    control = PatchRidge(**how).fit(X[:500], y[:500]).predict(X[500:])
    found = PCAAtoms(n_atoms=16, lam1=0.0, **how).fit(X[:500], y[:500]).predict(X[500:])

    assert np.mean(control == found) > 0.995


def test_a_few_samples_more_than_are_searched_on_are_no_reason_to_fail(digits, monkeypatch):
    """What is left out of a search cannot be stratified where it is less than a sample of each class."""
    monkeypatch.setattr(searched, "SEARCH_SAMPLES", 195)
    X, y = digits

    assert KernelRidge(random_state=0).fit(X[:200], y[:200]).score(X[200:400], y[200:400]) > 0.8
