"""scikit-learn's own checks over every public estimator, with nothing expected to fail."""

from __future__ import annotations

import importlib.util

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks
from threadpoolctl import threadpool_limits

import dcadl.estimators

NEEDS_TORCH = {"ConvNet"} if importlib.util.find_spec("torch") is None else set()
NAMES = [name for name in dcadl.estimators.__all__ if name not in NEEDS_TORCH]


@pytest.fixture(autouse=True)
def _one_thread():
    """The checks fit hundreds of tiny problems, which BLAS's threads only slow down."""
    with threadpool_limits(1, user_api="blas"):
        yield


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks([getattr(dcadl.estimators, name)() for name in NAMES])
def test_scikit_learn_finds_nothing_to_object_to(estimator, check):
    check(estimator)
