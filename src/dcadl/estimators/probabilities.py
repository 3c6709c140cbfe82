"""Probabilities of the classes: a softmax of the scores, at a temperature fitted to honest ones."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import cross_val_predict
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from dcadl.estimators.prediction import in_memory, in_parts
from dcadl.estimators.validation import open_npy
from dcadl.ops.ridge import best_temperature


class Probabilities:
    """`predict_proba` and `calibrate` for what has a `decision_function`."""

    classes_: np.ndarray
    temperature_: float  # where it is known

    def decision_function(self, X: Any) -> np.ndarray:
        """Score of each class, (n, C), or (n,) for two."""
        raise NotImplementedError

    @available_if(lambda self: hasattr(self, "temperature_"))
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probability of each class, (n, C): a softmax of the scores at `temperature_`.

        Methods that know what their classifier says of a training image left out (`LOOADL`, `DCADL` after its
        refit, `PatchRidge`, `RandomAtoms`) have a temperature from `fit`; the others, and models of older
        files, from `calibrate`.

        Parameters
        ----------
        X : as in `predict`
        """
        check_is_fitted(self)
        X, C = open_npy(X), len(self.classes_)
        if not in_memory(X):
            return in_parts(self.predict_proba, X, C)
        return softmax(by_class(self.decision_function(X)), self.temperature_)

    def calibrate(self, X: Any, y: Any, *, cv: Any = None) -> Self:
        """Fit the temperature of `predict_proba` to scores of images that no fit has seen.

        Parameters
        ----------
        X, y : images and labels
            Such as `fit` has not seen; or, with `cv`, its training data.
        cv : int, splitter or None, default=None
            Folds. Each image is scored by a clone that was fitted to the other folds, which takes as many
            fits; the model itself stays as it is.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        y = np.asarray(y)
        unknown = np.setdiff1d(y, self.classes_)
        if len(unknown):
            raise ValueError(f"y must hold the model's classes; got {unknown.tolist()[:5]} beside them.")
        scores = by_class(self.decision_function(X)) if cv is None else left_out_scores(self, X, y, cv)
        check_consistent_length(scores, y)
        self.temperature_ = best_temperature(scores, np.searchsorted(self.classes_, y))
        return self


def left_out_scores(model: Probabilities, X: Any, y: Any, cv: Any) -> np.ndarray:
    """Scores (n, C) of each image by a clone of the model that was fitted to the other folds."""
    return by_class(cross_val_predict(clone(model), X, y, cv=cv, method="decision_function"))


def by_class(scores: Any) -> np.ndarray:
    """A column for each of two classes as well, of the same difference."""
    scores = np.asarray(scores)
    return np.stack([-scores, scores], axis=1) / 2 if scores.ndim == 1 else scores


def softmax(scores: np.ndarray, temperature: float) -> np.ndarray:
    """exp(s/temperature), scaled to sum to one; the largest s is taken off first: nothing overflows."""
    scaled = np.exp((scores - scores.max(axis=1, keepdims=True)) / temperature)
    return scaled / scaled.sum(axis=1, keepdims=True)
