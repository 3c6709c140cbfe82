"""Small trained models, one for every option that changes what a prediction computes, and samples to try."""

from __future__ import annotations

import io
import warnings
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest
from PIL import Image
from sklearn.base import clone
from sklearn.datasets import load_digits

from dcadl import ADLSVM, DCADL, LOOADL, SADL, ConvNet, PatchRidge, PCANet, RandomAtoms
from dcadl.deploy.operations import FilterBank, GridPool, Linear, Program, Softmax, Split

QUICK = {"n_atoms": 6, "patch_shape": 4, "stride": 2, "max_iter": 3, "random_state": 0}
PLAIN = {"patch_shape": 4, "stride": 2}
TWO_STAGES = {"n_stages": 2, "n_filters": (3, 4), "filter_shape": (3, 4), "block_overlap": 0.3}
NET = {"n_filters": 6, "max_iter": 2, "random_state": 0} | PLAIN

LOO = {"n_atoms": 6, "patch_shape": 3, "max_iter": 2, "random_state": 0}

MODELS = {
    "loo": LOOADL(max_iter=2, random_state=0),
    "loo-whitened": LOOADL(**LOO, normalize="whitened", pool=(1, 3)),
    "loo-whitened-once": LOOADL(**LOO, normalize="whitened-once", pool=(2, 4)),
    "loo-centred": LOOADL(**LOO, normalize="centred", pool=(1,), stride=2),
    "loo-raw": LOOADL(**LOO, normalize=None, pool=(1, 2)),
    "loo-cancelling": LOOADL(16, 4, normalize=None, pool=(1, 2), max_iter=10, random_state=0),
    "dcadl": DCADL(**QUICK),
    "dcadl-centred": DCADL(**QUICK, normalize="centred"),
    "dcadl-image": DCADL(**QUICK, normalize="image"),
    "dcadl-raw": DCADL(**QUICK, normalize=None),
    "dcadl-paper": DCADL(**QUICK, solver="paper"),
    "dcadl-split": DCADL(**QUICK, codes="split", normalize="centred"),
    "dcadl-whole": DCADL(n_atoms=20, max_iter=3, random_state=0),
    "dcadl-oblong": DCADL(n_atoms=5, patch_shape=(3, 5), stride=(2, 3), max_iter=3, normalize="centred"),
    "patch-ridge": PatchRidge(**PLAIN),
    "patch-ridge-centred": PatchRidge(**PLAIN, normalize="centred"),
    "random-atoms": RandomAtoms(n_atoms=8, **PLAIN, random_state=0),
    "pcanet": PCANet(n_filters=4, filter_shape=3, random_state=0),
    "pcanet-two": PCANet(**TWO_STAGES, random_state=0),
    "adlsvm": ADLSVM(n_atoms=40, max_iter=3, random_state=0),
    "adlsvm-l1": ADLSVM(n_atoms=40, max_iter=3, penalty="l1", random_state=0),
    "sadl": SADL(n_atoms=40, max_iter=3, random_state=0),
    "convnet": ConvNet(**NET),
    "convnet-deep": ConvNet(n_layers=3, activation="shrink", **NET),
}
SOME = ("loo-whitened", "dcadl-centred", "patch-ridge", "pcanet-two", "adlsvm")
CASES = [(name, "grey") for name in MODELS] + [(name, form) for name in SOME for form in ("colour", "two")]
CASES += [("dcadl-line", "line"), ("loo", "large")]
EVERY_CASE = pytest.mark.parametrize(("name", "form"), CASES, ids=[" ".join(names) for names in CASES])


def pooled_program() -> Program:
    """All that pooling models have, at random: whitening, a second length, split codes, grids."""
    rng = np.random.default_rng(0)
    pool = GridPool(((((0, 6),), ((0, 6),)), (((0, 3), (3, 6)), ((0, 2), (2, 6)))))
    operations = (
        FilterBank(rng.standard_normal((9, 3, 3, 1)), rng.standard_normal(9), local="centred", floor=0.01),
        FilterBank(rng.standard_normal((4, 1, 1, 9)), np.zeros(4), local="unit"),
        Split(rng.random(4) / 10),
        pool,
        Linear(rng.standard_normal((3, 5 * 8)), rng.standard_normal(3)),
        Softmax(0.5),
    )
    facts = {"dcadl_version": "0", "parameters": {}, "calibrated": False}
    return Program("Pooled", (8, 8), np.arange(3), operations, facts)


class Case(NamedTuple):
    """A trained model, and samples that it has not seen: real ones and noise."""

    model: Any
    real: np.ndarray
    noise: np.ndarray


@cache
def case(name: str, form: str = "grey") -> Case:
    """The model of that name, trained on digits in that form."""
    if name.startswith("convnet"):
        pytest.importorskip("torch", reason="torch is not installed: pip install 'dcadl[torch]'")
    X, y = FORMS[form]()
    model = DCADL(n_atoms=5, patch_shape=9, max_iter=3) if form == "line" else MODELS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few passes are enough here
        model = clone(model).fit(X[:-100], y[:-100])
    few = 8 if form == "large" else 100
    return Case(model, X[-few:], random_samples(X.shape[1:], min(few, 30)))


def pixels(n: int = 3) -> np.ndarray:
    """Samples of "dcadl-centred" in eight bits."""
    return np.rint(case("dcadl-centred").real[:n] * 255).astype(np.uint8)


def png(image: np.ndarray) -> bytes:
    """The image as a file."""
    file = io.BytesIO()
    Image.fromarray(image).save(file, "png")
    return file.getvalue()


def digits(part: slice = slice(600)) -> tuple[np.ndarray, np.ndarray]:
    """600 of scikit-learn's digits, (n, 8, 8) float32 in [0, 1]."""
    bunch = load_digits()
    return (bunch.images[part] / 16).astype(np.float32), bunch.target[part]


def unseen_digits() -> tuple[np.ndarray, np.ndarray]:
    """The others."""
    return digits(slice(600, None))


def _colour() -> tuple[np.ndarray, np.ndarray]:
    X, y = digits()
    return X[..., None] * np.array([1.0, 0.6, 0.2], dtype=np.float32), y


def _two_named_classes() -> tuple[np.ndarray, np.ndarray]:
    X, y = digits()
    return X, np.where(y < 5, "low", "high")


def _large() -> tuple[np.ndarray, np.ndarray]:
    """So large that LOOADL averages it down first, by 2; rows and columns do not divide by that."""
    X, y = digits(slice(140))
    return np.kron(X, np.ones((15, 13), np.float32))[:, :119, :103], y


def _lines() -> tuple[np.ndarray, np.ndarray]:
    X, y = digits()
    return X.reshape(len(X), -1), y


FORMS = {"grey": digits, "colour": _colour, "two": _two_named_classes, "line": _lines, "large": _large}


def random_samples(shape: tuple[int, ...], n: int = 30) -> np.ndarray:
    """Noise, with a flat, a black and a nearly flat bright sample among it."""
    X = np.random.default_rng(0).random((n, *shape)).astype(np.float32)
    X[0] = 0.5
    X[1] = 0
    X[2] = 1 - X[2] / 50
    return X


def class_scores(model: Any, X: np.ndarray) -> np.ndarray:
    """`decision_function` as scores of all classes less their mean, also for two classes."""
    scores = np.asarray(model.decision_function(X))
    return centred(np.stack([-scores / 2, scores / 2], axis=1) if scores.ndim == 1 else scores)


def centred(scores: np.ndarray) -> np.ndarray:
    """What two classes' difference leaves open is the same for both: scores are compared without it."""
    return scores - scores.mean(axis=1, keepdims=True)
