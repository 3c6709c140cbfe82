"""What DCADL refuses, and what it says then."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits

from dcadl import DCADL

FAST = {"n_atoms": 8, "patch_shape": 4, "stride": 2, "max_iter": 4, "tol": 0, "random_state": 0}


@pytest.fixture(scope="module")
def digits():
    """Three hundred digits in [0, 1] and their labels."""
    found = load_digits()
    return found.images[:300] / 16, found.target[:300]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"lam1": -1}, "lam1 must be a number of at least 0; got -1"),
        ({"lam2": 0}, "lam2 must be a number of more than 0; got 0"),
        ({"lam3": float("nan")}, "lam3 must be a number of at least 0; got nan"),
        ({"n_atoms": 0}, "n_atoms must be an integer of at least 1; got 0"),
        ({"n_atoms": 2.5}, "n_atoms must be an integer"),
        ({"max_iter": 0}, "max_iter must be an integer of at least 1"),
        ({"solver": "magic"}, "solver must be one of 'descent', 'paper'; got 'magic'"),
        ({"init": "magic"}, "init must be one of"),
        (
            {"normalize": "all"},
            "normalize must be one of 'auto', 'patch', 'centred', 'image', None; got 'all'",
        ),
        ({"backend": "abacus"}, "backend must be 'numpy', 'torch', 'torch:cuda' or 'cupy'; got 'abacus'"),
        ({"patch_shape": 9}, r"patch_shape must fit in image_shape; got \(9, 9\) in \(8, 8\)"),
        ({"image_shape": (4, 4)}, r"image_shape must match the data; got \(4, 4\)"),
        ({"solver": "paper", "class_weight": "balanced"}, "supports neither weights nor"),
    ],
)
def test_a_bad_parameter_says_what_to_do(digits, parameters, message):
    with pytest.raises(ValueError, match=message):
        DCADL(**FAST | parameters).fit(*digits)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda X, y: (np.where(X.max() == X, np.nan, X), y), "NaN"),
        (lambda X, y: (np.where(X.max() == X, np.inf, X), y), "infinity"),
        (lambda X, y: (X[:0], y[:0]), "0 sample"),
        (lambda X, y: (X, np.zeros(len(y))), "at least 2 classes; got one class"),
        (lambda X, y: (X, y[:-1]), "inconsistent numbers of samples"),
        (lambda X, y: (X, y + 0.5), "Unknown label type"),
    ],
    ids=["nan", "inf", "empty", "one class", "lengths", "regression"],
)
def test_bad_data_says_what_is_wrong(digits, spoil, message):
    with pytest.raises(ValueError, match=message):
        DCADL(**FAST).fit(*spoil(*digits))


def test_another_shape_at_prediction_is_refused(digits):
    model = DCADL(**FAST).fit(*digits)
    with pytest.raises(ValueError, match=r"images of shape \(8, 8\), as in fit; got \(9, 9\)"):
        model.predict(np.zeros((2, 9, 9)))
    with pytest.raises(ValueError, match="63 features"):
        model.predict(np.zeros((2, 63)))


def test_negative_class_weights_are_refused(digits):
    with pytest.raises(ValueError, match="class_weight must not be negative"):
        DCADL(**FAST, class_weight={c: -1.0 if c == 3 else 1.0 for c in range(10)}).fit(*digits)


@pytest.mark.parametrize(
    ("weight", "message"),
    [([-1.0] * 300, "must not be negative"), ([0.0] * 300, "must not be zero"), ([1.0] * 3, "inconsistent")],
)
def test_bad_weights_are_refused(digits, weight, message):
    with pytest.raises(ValueError, match=message):
        DCADL(**FAST).fit(*digits, sample_weight=weight)
