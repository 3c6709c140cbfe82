"""Small trained models, one for every option that changes what a prediction computes."""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np
from sklearn.datasets import load_digits

from dcadl import ADLSVM, DCADL, SADL, PatchRidge, PCANet, RandomAtoms

QUICK = {"n_atoms": 6, "patch_shape": 4, "stride": 2, "max_iter": 3, "random_state": 0}
PLAIN = {"patch_shape": 4, "stride": 2}

MODELS = {
    "dcadl": DCADL(**QUICK),
    "dcadl-centred": DCADL(**QUICK, normalize="centred"),
    "dcadl-image": DCADL(**QUICK, normalize="image"),
    "dcadl-raw": DCADL(**QUICK, normalize=None),
    "dcadl-paper": DCADL(**QUICK, solver="paper"),
    "dcadl-whole": DCADL(n_atoms=20, max_iter=3, random_state=0),
    "dcadl-wide-step": DCADL(n_atoms=5, patch_shape=(3, 5), stride=(2, 3), max_iter=3, normalize="centred"),
    "patch-ridge": PatchRidge(**PLAIN),
    "patch-ridge-centred": PatchRidge(**PLAIN, normalize="centred"),
    "random-atoms": RandomAtoms(n_atoms=8, **PLAIN, random_state=0),
    "pcanet": PCANet(n_filters=4, filter_shape=3, random_state=0),
    "pcanet-two": PCANet(n_stages=2, n_filters=(3, 4), filter_shape=(3, 4), block_overlap=0.3, random_state=0),
    "adlsvm": ADLSVM(n_atoms=40, max_iter=3, random_state=0),
    "adlsvm-l1": ADLSVM(n_atoms=40, max_iter=3, penalty="l1", random_state=0),
    "sadl": SADL(n_atoms=40, max_iter=3, random_state=0),
}


@cache
def digits():
    """scikit-learn's digits as float32 in [0, 1]: images to train on, their labels, and images to try."""
    bunch = load_digits()
    X = (bunch.images / 16).astype(np.float32)
    return X[:400], bunch.target[:400], X[400:600]


@cache
def colour_digits():
    """The same as colour pictures, each channel another shade."""
    X, y, new = digits()
    shades = np.array([1.0, 0.6, 0.2], dtype=np.float32)
    return X[..., None] * shades, y, new[..., None] * shades


@cache
def fitted(name):
    """The model of that name, trained on the digits."""
    X, y, _ = digits()
    return _fit(MODELS[name], X, y)


@cache
def fitted_pair(name):
    """The same trained to tell 0 from 1, with names for labels."""
    X, y, _ = digits()
    two = y < 2
    return _fit(MODELS[name], X[two], np.array(["nil", "one"])[y[two]])


@cache
def fitted_colour(name):
    """The same on colour pictures."""
    X, y, _ = colour_digits()
    return _fit(MODELS[name], X, y)


def _fit(model, X, y):
    from sklearn.base import clone

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few passes are enough here
        return clone(model).fit(X, y)


def random_pictures(shape, n=30):
    """Noise, with a flat, a black and a bright picture among it."""
    X = np.random.default_rng(0).random((n, *shape)).astype(np.float32)
    X[0] = 0.5
    X[1] = 0
    X[2] += 100
    return X


def both_scores(model, X):
    """`decision_function` with one column per class, also for two."""
    scores = np.asarray(model.decision_function(X))
    return np.stack([-scores / 2, scores / 2], axis=1) if scores.ndim == 1 else scores
