"""What becomes of a case, and small models and images to try it on."""

from __future__ import annotations

import numpy as np

import dcadl

TINY = {
    "n_atoms": 6,
    "patch_shape": 3,
    "stride": 3,
    "max_iter": 2,
    "tol": 0,
    "init_iter": 1,
    "sparsity": 2,
    "n_filters": 3,
    "filter_shape": 3,
    "random_state": 0,
}
REFUSED, WORKED = "refused", "worked"


def methods():
    """Every method that needs no framework, with little work to do."""
    models = (getattr(dcadl, name)() for name in sorted(set(dcadl.estimators.__all__) - {"ConvNet"}))
    return [m.set_params(**{k: v for k, v in TINY.items() if k in m.get_params()}) for m in models]


def images(n=24):
    """Small images in [0, 1] of three classes."""
    rng = np.random.default_rng(0)
    y = np.arange(n) % 3
    return (0.5 * rng.random((3, 6, 6))[y] + 0.5 * rng.random((n, 6, 6))).astype(np.float32), y


def refused(error, one_line=False):
    """In a few words, and in one line where that is promised."""
    text = str(error)
    assert not one_line or "\n" not in text, "the error has more than one line"
    assert text, "the error says nothing"
    assert len(text) < 2000, f"the error has {len(text)} characters"
    return REFUSED
