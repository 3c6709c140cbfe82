"""Every method with little work to do, for tests that hold for all of them."""

from __future__ import annotations

import importlib.util

import dcadl
import dcadl.estimators

SMALL = {
    "n_atoms": 12,
    "patch_shape": 4,
    "stride": 2,
    "max_iter": 2,
    "tol": 0,
    "init_iter": 2,
    "sparsity": 3,
    "n_filters": 4,
    "filter_shape": 3,
    "random_state": 0,
}
NEEDS_TORCH = {"ConvNet"} if importlib.util.find_spec("torch") is None else set()
NAMES = sorted(set(dcadl.estimators.__all__) - NEEDS_TORCH)


def small(name):
    """The method with little work to do."""
    model = getattr(dcadl, name)()
    return model.set_params(**{key: value for key, value in SMALL.items() if key in model.get_params()})
