"""Controls that only tables need: PCA atoms under DCADL's codes, and kernel ridge regression."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from sklearn import kernel_ridge
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dcadl.bench.outsiders import SHARES
from dcadl.bench.searched import SearchedClassifier, rbf_scale
from dcadl.ops.codes import by_image, by_patch, respond, soft_threshold
from dcadl.ops.patches import normalised_patches, patch_grid
from dcadl.ops.ridge import from_contrasts, to_contrasts
from dcadl.solvers.code_ridge import CodeRidge, candidates, code_ridge
from dcadl.solvers.walk import chunked

PENALTIES = [1e-4, 1e-3, 1e-2, 0.1, 1.0]
RIDGE_SHARES = [1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0, 1000.0]  # of the number of values
CHUNK = 500  # images whose patches are held at once


class PixelRidge(SearchedClassifier):
    """Ridge regression of one-hot labels on standardised values: seven penalties."""

    def _estimator(self, variant: Any) -> Any:
        return make_pipeline(StandardScaler(), RidgeClassifier())

    def _grid(self, F: Any, variant: Any) -> dict[str, list[Any]]:
        return {"ridgeclassifier__alpha": [share * F.shape[1] for share in RIDGE_SHARES]}


class KernelRidge(SearchedClassifier):
    """Ridge regression of one-hot labels with a Gaussian kernel: twenty pairs of penalty and gamma."""

    def _estimator(self, variant: Any) -> Any:
        return _KernelRidgeClassifier()

    def _grid(self, F: Any, variant: Any) -> dict[str, list[Any]]:
        return {"alpha": PENALTIES, "gamma": [share * rbf_scale(F) for share in SHARES]}


class _KernelRidgeClassifier(ClassifierMixin, BaseEstimator):
    """scikit-learn's KernelRidge on one-hot labels."""

    def __init__(self, alpha: float = 1.0, gamma: float = 1.0) -> None:
        self.alpha = alpha
        self.gamma = gamma

    def fit(self, F: Any, y: Any) -> _KernelRidgeClassifier:
        self.classes_, Y = _one_hot(y, F.dtype)
        self.shares_ = Y.mean(axis=0)
        self.ridge_ = kernel_ridge.KernelRidge(alpha=self.alpha, gamma=self.gamma, kernel="rbf")
        self.ridge_.fit(F, Y - self.shares_)
        return self

    def predict(self, F: Any) -> Any:
        return self.classes_[(self.ridge_.predict(F) + self.shares_).argmax(axis=1)]


class PCAAtoms(ClassifierMixin, BaseEstimator):
    """The principal directions of the patches as atoms, then RandomAtoms' codes and ridge regression.

    Parameters
    ----------
    n_atoms, patch_shape, stride, normalize, lam1, lam : as in `RandomAtoms`
    """

    def __init__(
        self,
        n_atoms: int = 50,
        patch_shape: Any = None,
        stride: Any = None,
        normalize: str | None = "auto",
        lam1: float = 1e-3,
        lam: Any = "auto",
    ) -> None:
        self.n_atoms = n_atoms
        self.patch_shape = patch_shape
        self.stride = stride
        self.normalize = normalize
        self.lam1 = lam1
        self.lam = lam

    def fit(self, X: Any, y: Any) -> PCAAtoms:
        """Eigenvectors of the patches' second moments, then the ridge regression."""
        X = np.asarray(X)
        self._grid = patch_grid(X.shape[1:], self.patch_shape, self.stride)
        self.classes_, Y = _one_hot(y, X.dtype)
        self.intercept_ = Y.mean(axis=0)
        tried = (self._under(how, X, Y - self.intercept_) for how in candidates(self.normalize, self._grid))
        self.normalize_, self.components_, found = min(tried, key=lambda one: one[2].error)
        self.coef_ = from_contrasts(found.W.T).T
        self.atoms_ = self._shaped(self.components_, X.shape[1:])
        return self

    def transform(self, X: Any) -> Any:
        """Shrunken responses to the atoms, one row for each image."""
        return np.concatenate(
            [
                by_image(self._codes(P, self.components_))
                for P in self._patches(np.asarray(X), self.normalize_)
            ]
        )

    def predict(self, X: Any) -> Any:
        """Classes of X."""
        return self.classes_[(self.transform(X) @ self.coef_.T + self.intercept_).argmax(axis=1)]

    def _codes(self, P: Any, components: Any) -> Any:
        return soft_threshold(respond(P, components), self.lam1)

    def _under(self, how: str | None, X: Any, Y: Any) -> tuple[str | None, Any, CodeRidge]:
        """Atoms under a normalisation, and the ridge regression that RandomAtoms has on their codes."""
        moments = np.zeros((self._grid.d, self._grid.d))
        for P in self._patches(X, how):
            moments += by_patch(P).T @ by_patch(P)
        leading = np.linalg.eigh(moments)[1].T[::-1][: self.n_atoms]
        components = np.ascontiguousarray(leading, dtype=X.dtype)
        lam = None if isinstance(self.lam, str) else float(self.lam)
        with chunked(X.reshape(len(X), -1), to_contrasts(Y), None, self._grid, how) as (chunks, walk):
            code = partial(self._codes, components=components)
            return how, components, code_ridge(chunks, walk, code, self._grid.p * len(components), lam)

    def _patches(self, X: Any, how: str | None) -> Any:
        rows = X.reshape(len(X), -1)
        for start in range(0, len(rows), CHUNK):
            yield normalised_patches(rows[start : start + CHUNK], self._grid, how)

    def _shaped(self, atoms: Any, shape: tuple[int, ...]) -> Any:
        """Atoms as small pictures where the samples are pictures."""
        return atoms.reshape(len(atoms), *self._grid.patch) if len(shape) == 2 else atoms


def _one_hot(y: Any, dtype: Any) -> tuple[Any, Any]:
    """Classes, and for each sample a one in the column of its own."""
    classes, codes = np.unique(y, return_inverse=True)
    return classes, np.eye(len(classes), dtype=dtype)[codes]
