"""A classifier that chooses its own parameters by cross-validation inside the training samples."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.model_selection import GridSearchCV, StratifiedKFold, train_test_split

FOLDS = 3
SEARCH_SAMPLES = 3000  # the grid is searched on about so many at most; the winner is fitted to all


class SearchedClassifier(ClassifierMixin, BaseEstimator):
    """Every point of a small grid, in three folds; `n_candidates_` says how many there were.

    Two folds are enough where a class has no more samples than that.
    A subclass says what features it sees, and which estimator and grid of parameters it searches on them
    (`_features`, `_estimator`, `_grid`), for each of its `_variants`.
    """

    def __init__(self, random_state: Any = None) -> None:
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> SearchedClassifier:
        """Search, then fit the winner to all samples."""
        few = self._few(y)
        searches = {v: self._search(self._features(X[few], v), y[few], v) for v in self._variants(X)}
        self.variant_ = max(searches, key=lambda v: searches[v].best_score_)
        best = searches[self.variant_]
        self.n_candidates_ = sum(len(search.cv_results_["params"]) for search in searches.values())
        self.best_params_ = best.best_params_
        self.model_ = clone(best.estimator).set_params(**best.best_params_)
        self.model_.fit(self._features(X, self.variant_), y)
        self.classes_ = self.model_.classes_
        return self

    def predict(self, X: Any) -> Any:
        """Classes of X."""
        return self.model_.predict(self._features(X, self.variant_))

    def _variants(self, X: Any) -> tuple[Any, ...]:
        return (None,)

    def _features(self, X: Any, variant: Any) -> Any:
        return np.asarray(X).reshape(len(X), -1)

    def _estimator(self, variant: Any) -> Any:
        raise NotImplementedError

    def _grid(self, F: Any, variant: Any) -> dict[str, list[Any]]:
        raise NotImplementedError

    def _search(self, F: Any, y: Any, variant: Any) -> GridSearchCV:
        fewest = np.unique(y, return_counts=True)[1].min()
        folds = StratifiedKFold(min(FOLDS, max(2, fewest)), shuffle=True, random_state=self.random_state)
        estimator, grid = self._estimator(variant), self._grid(F, variant)
        return GridSearchCV(estimator, grid, cv=folds, refit=False).fit(F, y)

    def _few(self, y: Any) -> Any:
        every = np.arange(len(y))
        if len(y) - SEARCH_SAMPLES < len(np.unique(y)):  # what is left out must have a sample of each class
            return every
        few, _ = train_test_split(
            every, train_size=SEARCH_SAMPLES, stratify=y, random_state=self.random_state
        )
        return np.sort(few)


def rbf_scale(F: Any) -> float:
    """scikit-learn's gamma="scale": one over the number of features times their variance."""
    return float(1 / (F.shape[1] * max(float(F.var()), np.finfo(np.float32).tiny)))
