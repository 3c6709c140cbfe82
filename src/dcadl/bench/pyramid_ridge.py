"""What `dcadl fit --features pyramid` fits, as a row of a table."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.pipeline import make_pipeline

from dcadl.estimators import PatchRidge
from dcadl.features import SpatialPyramid

LEAST_SIDE = 48  # pixels of a picture: below, patches of 16 hardly fit in


class PyramidRidge(ClassifierMixin, BaseEstimator):
    """A spatial pyramid of SIFT in visual words, then ridge regression."""

    def __init__(
        self, n_words: int = 256, n_descriptors: int = 50_000, max_side: int = 300, random_state: Any = None
    ) -> None:
        self.n_words = n_words
        self.n_descriptors = n_descriptors
        self.max_side = max_side
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> PyramidRidge:
        """Learn words and pyramid from the pictures alone, the regression from their labels too."""
        pyramid = SpatialPyramid(
            n_words=self.n_words,
            n_descriptors=self.n_descriptors,
            max_side=self.max_side,
            n_jobs=1,
            progress=False,
            random_state=self.random_state,
        )
        self.model_ = make_pipeline(pyramid, PatchRidge()).fit(_grey(X), y)
        self.classes_ = self.model_.classes_
        return self

    def predict(self, X: Any) -> Any:
        """Classes of X."""
        return self.model_.predict(_grey(X))


def _grey(X: Any) -> list[np.ndarray]:
    """Pictures in 0..1 as a pyramid takes them."""
    X = np.asarray(X)
    return list(X if X.ndim == 3 else X.mean(axis=3))
