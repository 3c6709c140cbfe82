"""`partial_fit`: the bound it promises, against codes and minima found by brute force."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from sklearn.datasets import load_digits

import dcadl
from dcadl import DCADL
from dcadl.ops.patches import normalised_patches
from dcadl.solvers import stream

FAST = {"n_atoms": 8, "patch_shape": 4, "stride": 2, "normalize": "patch", "tol": 0, "random_state": 0}


@pytest.fixture(scope="module")
def digits():
    """Twelve hundred digits in [0, 1] and their labels."""
    found = load_digits()
    return found.images[:1200] / 16, found.target[:1200]


def streamed(model, X, y, size=100, passes=1, weight=None):
    for _ in range(passes):
        for i in range(0, len(X), size):
            part = slice(i, i + size)
            model.partial_fit(X[part], y[part], np.arange(10), None if weight is None else weight[part])
    return model


def patches(model, X):
    return normalised_patches(X.reshape(len(X), -1), model.grid_, model.normalize)


def objective(model, X, y, U, s):
    """F with these codes, written out."""
    Omega, W = model.atoms_.reshape(8, -1), model.coef_
    fit = U - patches(model, X) @ Omega.T
    error = np.eye(10)[y] - model.intercept_ - U.reshape(len(U), -1) @ W.T
    per_image = 0.5 * (fit**2).sum((1, 2)) + model.lam1 * np.abs(U).sum((1, 2))
    per_image += 0.5 * model.lam2 * (error**2).sum(1)
    return s @ per_image + 0.5 * (model.lam3 * (W**2).sum() + model.lam4 * (Omega**2).sum())


def best_codes(model, X, y):
    """Codes that minimise F, by many short proximal steps."""
    A = patches(model, X) @ model.atoms_.reshape(8, -1).T
    Y, U = np.eye(10)[y] - model.intercept_, A
    L = 1 + model.lam2 * np.linalg.norm(model.coef_, 2) ** 2
    for _ in range(60):
        error = Y - U.reshape(len(U), -1) @ model.coef_.T
        V = U - (U - A - model.lam2 * (error @ model.coef_).reshape(U.shape)) / L
        U = np.sign(V) * np.maximum(np.abs(V) - model.lam1 / L, 0)
    return U


def true_objective(model, X, y):
    return objective(model, X, y, best_codes(model, X, y), np.ones(len(y)))


@pytest.fixture
def seen_codes(monkeypatch):
    """The codes that each batch was given."""
    found, real = [], stream.codes_of

    def recording(*arguments):
        codes = real(*arguments)
        found.append(np.concatenate(codes))
        return codes

    monkeypatch.setattr(stream, "codes_of", recording)
    return found


@pytest.mark.parametrize("forgetting", [1.0, 0.8])
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_the_bound_is_the_objective_at_the_codes_that_batches_had(digits, seen_codes, forgetting, weighted):
    X, y = digits[0][:400], digits[1][:400]
    s = np.linspace(0.5, 2, 400) if weighted else np.ones(400)
    model = streamed(DCADL(**FAST, forgetting=forgetting), X, y, weight=s)
    aged = s * np.repeat(forgetting ** np.arange(3, -1, -1.0), 100)
    np.testing.assert_allclose(
        model.objective_[-1], objective(model, X, y, np.concatenate(seen_codes), aged), rtol=1e-9
    )


def test_no_step_away_from_the_model_lowers_the_bound(digits, rng):
    model = streamed(DCADL(**FAST), *digits)
    Omega, W = model.atoms_.reshape(8, -1), model.coef_
    lams = (model.lam1, model.lam2, model.lam3, model.lam4)
    here = stream.bound(model._stream, Omega, W, lams)
    for size in (1e-1, 1e-3, 1e-4):
        moved = Omega + size * rng.standard_normal(Omega.shape)
        moved /= np.maximum(1, np.linalg.norm(moved, axis=1, keepdims=True))
        assert stream.bound(model._stream, moved, W, lams) > here
        assert stream.bound(model._stream, Omega, W + size * rng.standard_normal(W.shape), lams) > here


def test_the_bound_lies_above_the_objective_of_all_that_was_seen(digits):
    X, y = digits
    model = DCADL(**FAST)
    for i in range(0, 600, 200):
        model.partial_fit(X[i : i + 200], y[i : i + 200], classes=range(10))
        assert true_objective(model, X[: i + 200], y[: i + 200]) <= model.objective_[-1]


def test_passes_over_the_batches_go_on_lowering_the_objective(digits):
    X, y = digits
    first = DCADL(**FAST).partial_fit(X[:100], y[:100], classes=range(10))
    model = DCADL(**FAST, forgetting=0.9)
    values = [true_objective(first, X, y)] + [true_objective(streamed(model, X, y), X, y) for _ in range(3)]
    assert (np.diff(values) < 0).all()


def test_a_stream_predicts_and_is_saved_like_a_fit(digits, tmp_path):
    model = streamed(DCADL(**FAST), *digits)
    assert model.score(*digits) > 0.85
    assert model.n_iter_ == 12
    model.save(tmp_path / "m")
    np.testing.assert_array_equal(dcadl.load(tmp_path / "m").predict(digits[0]), model.predict(digits[0]))


@pytest.mark.bits
def test_a_copy_goes_on_alike(digits):
    X, y = digits
    model = streamed(DCADL(**FAST), X[:400], y[:400])
    other = copy.deepcopy(model)
    np.testing.assert_array_equal(
        model.partial_fit(X[400:], y[400:]).coef_, other.partial_fit(X[400:], y[400:]).coef_
    )


def test_a_fit_forgets_the_stream(digits):
    X, y = digits
    model = streamed(DCADL(**FAST, max_iter=3), X, y).fit(X, y)
    np.testing.assert_array_equal(model.coef_, DCADL(**FAST, max_iter=3).fit(X, y).coef_)
    model.partial_fit(X[:100], y[:100], classes=range(10))
    assert model.n_iter_ == 1


def test_another_backend_gives_the_same_stream(digits):
    pytest.importorskip("torch", reason="torch is not installed: pip install 'dcadl[torch]'")
    away, home = (streamed(DCADL(**FAST, backend=b), *digits) for b in ("torch", "numpy"))
    np.testing.assert_allclose(away.atoms_, home.atoms_, atol=1e-8)


def test_a_batch_may_lack_classes_and_may_be_one_image(digits):
    X, y = digits
    model = DCADL(**FAST).partial_fit(X[:1], y[:1], classes=range(10))
    assert model.partial_fit(X[1:300], y[1:300]).coef_.shape == (10, 72)


@pytest.mark.parametrize(
    ("parameters", "spoil", "message"),
    [
        ({}, lambda X, y: (X, y), "classes must be passed on the first call"),
        ({}, lambda X, y: (X, y, range(5)), "labels that are in classes"),
        ({}, lambda X, y: (X, 0 * y, [0]), "at least 2 labels"),
        ({"solver": "paper"}, lambda X, y: (X, y, range(10)), "partial_fit works with solver='descent'"),
        ({"class_weight": "balanced"}, lambda X, y: (X, y, range(10)), "class weights as a dict"),
        ({"forgetting": 1.5}, lambda X, y: (X, y, range(10)), "forgetting must be at most 1"),
        ({"forgetting": -1}, lambda X, y: (X, y, range(10)), "forgetting must be a number of at least 0"),
        ({"n_atoms": 2000}, lambda X, y: (X, y, range(10)), "at most 8192; got 18000"),
    ],
    ids=["no classes", "new label", "one class", "paper", "balanced", "above one", "negative", "too many"],
)
def test_a_bad_first_batch_says_what_is_wrong_and_changes_nothing(digits, parameters, spoil, message):
    X, y = digits[0][:100], digits[1][:100]
    model = DCADL(**FAST | parameters)
    with pytest.raises(ValueError, match=message):
        model.partial_fit(*spoil(X, y))
    assert not hasattr(model, "coef_")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda X, y: (X[:, :7], y), "images of shape"),
        (lambda X, y: (X, y + 1), "labels that are in classes"),
        (lambda X, y: (X, y[:-1]), "inconsistent numbers of samples"),
        (lambda X, y: (X * np.nan, y), "NaN"),
        (lambda X, y: (X, y, range(11)), "not the same as on the first call"),
    ],
    ids=["shape", "new label", "lengths", "nan", "classes"],
)
def test_a_bad_later_batch_is_refused_and_changes_nothing(digits, spoil, message):
    X, y = digits[0][:100], digits[1][:100]
    model = DCADL(**FAST).partial_fit(X, y, classes=range(10))
    before = copy.deepcopy(model.__dict__)
    with pytest.raises(ValueError, match=message):
        model.partial_fit(*spoil(X, y))
    np.testing.assert_array_equal(model.coef_, before["coef_"])
    assert model.n_iter_ == 1
