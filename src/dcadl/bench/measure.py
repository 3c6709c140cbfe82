"""One fit and its predictions under the clock. Imports, data and a first warm-up call stay outside it."""

from __future__ import annotations

import resource
import statistics
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn import config_context
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from dcadl.arrays import fetch
from dcadl.bench.datasets import Fold
from dcadl.estimators.prediction import scores_of_patches
from dcadl.ops.patches import normalised_patches

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

SINGLE_IMAGES = 30  # one by one, for the time of a single image
BATCH_CALLS = 3
ENOUGH_S = 3.0  # after which no further call is made
BATCH_IMAGES = 2000  # at most: a time an image needs no more
WARM_UP_PER_CLASS = 2


def measure(model: BaseEstimator, fold: Fold, threads: int | None = None) -> dict[str, Any]:
    """Accuracy, times, memory and size of one fitted model, as plain values; with so many threads."""
    warm_up(model, fold.X_train, fold.y_train)
    with threadpool_limits(limits=threads):  # only now: the warm-up may have loaded a library with threads
        return _measured(model, fold)


def warm_up(model: BaseEstimator, X: np.ndarray, y: np.ndarray) -> None:
    """Imports inside functions, thread pools and caches are ready before the clock starts."""
    few = np.concatenate([np.flatnonzero(y == c)[:WARM_UP_PER_CLASS] for c in np.unique(y)])
    small = clone(model)
    if "max_iter" in small.get_params():
        small.set_params(max_iter=1)
    # A method may need more samples than a warm-up has: then it starts cold, which is its own fit's business.
    with suppress(Exception), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        small.fit(X[few], y[few]).predict(X[few[:2]])


def seconds(call: Callable[[], Any]) -> float:
    """Wall-clock time of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def testing_times(model: BaseEstimator, X: np.ndarray) -> dict[str, float]:
    """Seconds an image: as the authors took it (patches given, one batch), and end to end from raw images."""
    X = X[:BATCH_IMAGES]
    predict_given = with_patches_given(model, X)
    predict_given()
    singles = [X[i : i + 1] for i in range(min(SINGLE_IMAGES, len(X)))]
    with config_context(assume_finite=True):  # the authors' timing includes no checks
        given_s = median_seconds(predict_given)
    return {
        "test_given_s": given_s / len(X),
        "test_batch_s": median_seconds(lambda: model.predict(X)) / len(X),
        "test_single_s": statistics.median(seconds(partial(model.predict, x)) for x in singles),
    }


def with_patches_given(model: BaseEstimator, X: np.ndarray) -> Callable[[], np.ndarray]:
    """Predicts X, whose patches are cut and normalised beforehand.

    A model of whole samples has no patches, and is timed on what it is given anyway. So is one that never
    holds its patches, such as LOOADL.
    """
    if not hasattr(model, "_patch_scores"):
        return partial(model.predict, X)
    P = normalised_patches(X.reshape(len(X), -1), model.grid_, model.normalize_)
    return lambda: model.classes_[fetch(scores_of_patches(model, P)).argmax(axis=1)]


def _measured(model: BaseEstimator, fold: Fold) -> dict[str, Any]:
    before = _reset_peak()
    train_s = seconds(lambda: model.fit(fold.X_train, fold.y_train))
    predicted = model.predict(fold.X_test)
    peak = _peak_bytes()
    return {
        **_scores(predicted, fold),
        "train_s": train_s,
        **testing_times(model, fold.X_test),
        "peak_bytes": peak,
        "peak_above_start_bytes": max(peak - before, 0),
        "model_bytes": _model_bytes(model),
        "candidates": getattr(model, "n_candidates_", None),
        "expected_accuracy": _plain_number(getattr(model, "expected_accuracy_", None)),
        "n_iter": int(model.n_iter_) if hasattr(model, "n_iter_") else None,
        "objective": [float(f"{v:.6g}") for v in np.ravel(getattr(model, "objective_", ()))],
    }


def _scores(predicted: np.ndarray, fold: Fold) -> dict[str, Any]:
    wrong = np.flatnonzero(predicted != fold.y_test)
    mistakes = Counter((int(fold.y_test[i]), int(predicted[i])) for i in wrong)
    counts = np.bincount(fold.y_test)
    missed = np.bincount(fold.y_test[wrong], minlength=len(counts))
    return {
        "accuracy": 1 - len(wrong) / len(predicted),
        "per_class": [round(1 - m / max(c, 1), 6) for m, c in zip(missed.tolist(), counts.tolist())],
        "n_train": len(fold.y_train),
        "n_test": len(fold.y_test),
        "test_counts": counts.tolist(),
        "confusions": [[*pair, n] for pair, n in sorted(mistakes.items())],
        "errors": [[int(fold.test[i]), int(fold.y_test[i]), int(predicted[i])] for i in wrong],
    }


def _plain_number(value: Any) -> float | None:
    return None if value is None else float(value)


def median_seconds(call: Callable[[], Any]) -> float:
    """Of several calls; of those that there is time for, where one takes seconds."""
    times = [seconds(call)]
    while len(times) < BATCH_CALLS and sum(times) < ENOUGH_S:
        times.append(seconds(call))
    return statistics.median(times)


def _reset_peak() -> int:
    """Start the peak of resident memory anew, where Linux lets us; the resident memory now."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def _peak_bytes() -> int:
    return _status("VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _status(name: str) -> int:
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith(name):
                return int(line.split()[1]) * 1024
    return 0


def _model_bytes(model: BaseEstimator) -> int | None:
    if not hasattr(model, "save"):
        return None
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model"
        model.save(file)
        return file.stat().st_size
