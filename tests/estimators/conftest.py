"""Data that the faces' tests share."""

import numpy as np
import pytest
from sklearn.datasets import load_digits


@pytest.fixture(scope="session")
def digits():
    """600 small pictures (n, 8, 8) in float32, and their labels."""
    data = load_digits()
    return data.images[:600].astype(np.float32), data.target[:600]
