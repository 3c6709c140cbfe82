"""Data that the faces' tests share."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_digits
from small_models import NAMES, small


@pytest.fixture(scope="session")
def digits():
    """600 small pictures (n, 8, 8) in float32, and their labels."""
    data = load_digits()
    return data.images[:600].astype(np.float32), data.target[:600]


@pytest.fixture(scope="session")
def fitted(digits):
    """Every method, fitted to the same digits; not to be changed."""
    X, y = digits
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so few passes do not converge
        return {name: small(name).fit(X[:120], y[:120]) for name in NAMES}
