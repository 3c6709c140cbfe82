"""What a user would pick instead: classifiers of scikit-learn, on HOG as well."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn import linear_model
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

from dcadl.bench.searched import SearchedClassifier, rbf_scale

WEIGHTS = [1.0, 10.0, 100.0]
SHARES = [0.1, 0.3, 1.0, 3.0]  # of scikit-learn's own gamma
LINEAR_WEIGHTS = [0.001, 0.01, 0.1, 1.0, 10.0]
INVERSE_PENALTIES = [1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 0.03, 0.1, 1.0, 10.0]
CELLS_A_SIDE = (3, 5, 9)  # of HOG, about


class RBFSVM(SearchedClassifier):
    """Support vectors with a Gaussian kernel on the values as they are: twelve pairs of C and gamma."""

    def _estimator(self, variant: Any) -> Any:
        return SVC()

    def _grid(self, F: Any, variant: Any) -> dict[str, list[Any]]:
        return {"C": WEIGHTS, "gamma": [share * rbf_scale(F) for share in SHARES]}


class LogisticRegression(SearchedClassifier):
    """Multinomial logistic regression, ten penalties: on standardised values, on centred features, too."""

    def _variants(self, X: Any) -> tuple[bool, ...]:
        """Pixels vary alike; of features those that vary most may matter most."""
        return (True,) if np.ndim(X) > 2 else (True, False)

    def _estimator(self, variant: bool) -> Any:
        return make_pipeline(StandardScaler(with_std=variant), linear_model.LogisticRegression(max_iter=300))

    def _grid(self, F: Any, variant: bool) -> dict[str, list[Any]]:
        unit = 1.0 if variant else 1 / max(float(F.var()), float(np.finfo(np.float32).tiny))
        return {"logisticregression__C": [unit * C for C in INVERSE_PENALTIES]}


class HOGSVM(SearchedClassifier):
    """Histograms of oriented gradients, then a linear SVM: up to three sizes of cells, five weights each."""

    def _variants(self, X: Any) -> tuple[int, ...]:
        side = min(np.shape(X)[1:3])
        sizes = sorted({max(2, round(side / cells)) for cells in CELLS_A_SIDE})
        return tuple(size for size in sizes if 2 * size <= side)  # a block is two cells wide

    def _features(self, X: Any, variant: int) -> Any:
        try:
            from skimage.feature import hog
        except ImportError:
            raise ImportError("HOG needs scikit-image: pip install 'dcadl[bench]'") from None
        cell, color = (variant, variant), -1 if np.ndim(X) == 4 else None
        rows = [hog(x, pixels_per_cell=cell, cells_per_block=(2, 2), channel_axis=color) for x in X]
        return np.asarray(rows, dtype=np.float32)

    def _estimator(self, variant: Any) -> Any:
        return LinearSVC()

    def _grid(self, F: Any, variant: Any) -> dict[str, list[Any]]:
        return {"C": LINEAR_WEIGHTS}
