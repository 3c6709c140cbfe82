"""The honest controls: what the patches alone give, and what atoms give that nobody learned."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from dcadl.arrays import Array, check_backend, fetch, send
from dcadl.estimators.files import SavedModel, save
from dcadl.estimators.inputs import (
    check_number,
    class_shares,
    fit_rows,
    grid_of,
    one_hot,
    predict_rows,
    sample_weights,
)
from dcadl.estimators.patchwise import atom_shape, coded, coded_scores, decision, labels, leave_on, run_on
from dcadl.estimators.start import gaussian_atoms
from dcadl.ops.codes import by_image
from dcadl.ops.ridge import ridge
from dcadl.solvers.chunks import map_patches


class PatchRidge(ClassifierMixin, BaseEstimator):
    """Ridge regression from normalised patches to labels: DCADL without a dictionary.

    Minimises ½‖Y − WX̄‖² + ½λ‖W‖², X̄ the patches of an image in one row, Y less the
    classes' shares. A table of DCADL without this control hides what learning the atoms was worth.

    Parameters
    ----------
    patch_shape, stride, image_shape, normalize
        As in `DCADL`.
    lam : float, default=0.5
        Ridge λ; the default is DCADL's λ3/λ2.
    class_weight, backend
        As in `DCADL`.

    Attributes
    ----------
    coef_ : ndarray (n_classes, n_patches * patch_values)
    intercept_, classes_, grid_, n_features_in_ : as in `DCADL`
    """

    def __init__(
        self,
        patch_shape: Any = None,
        stride: Any = None,
        image_shape: Any = None,
        normalize: str | None = "patch",
        lam: float = 0.5,
        class_weight: Any = None,
        backend: str = "numpy",
    ) -> None:
        self.patch_shape = patch_shape
        self.stride = stride
        self.image_shape = image_shape
        self.normalize = normalize
        self.lam = lam
        self.class_weight = class_weight
        self.backend = backend

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> PatchRidge:
        """Solve the ridge regression."""
        check_number("lam", self.lam, 0, above=True)
        check_backend(self.backend)
        X, y, shape = fit_rows(self, X, y)
        self.grid_ = grid_of(self, shape)
        self._image_shape = shape
        self.classes_, Y = one_hot(y, X.dtype)
        weight = sample_weights(sample_weight, self.class_weight, y, X.dtype)
        features = map_patches(by_image, send(X, self.backend), self.grid_, self.normalize)
        self.intercept_ = class_shares(Y, weight)
        self.coef_ = _ridge_classifier(features, Y - self.intercept_, self.lam, weight, self.backend)
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """Score of each class; for two classes the second's less the first's."""
        return decision(self._scores(X))

    def predict(self, X: Any) -> np.ndarray:
        """The class of the highest score."""
        return labels(self._scores(X), self.classes_)

    def save(self, path: Any) -> None:
        """Write the model to a safetensors file that `dcadl.load` reads; no pickle."""
        save(self, path)

    def _scores(self, X: Any) -> np.ndarray:
        check_is_fitted(self)

        def score(x: Array, W: Array) -> Array:
            return map_patches(lambda P: by_image(P) @ W.T, x, self.grid_, self.normalize)

        return (
            run_on(self.backend, score, predict_rows(self, X, self._image_shape), self.coef_)
            + self.intercept_
        )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "coef_")

    def _saved(self) -> SavedModel:
        """What a model file must hold for this class."""
        C = len(self.classes_)
        arrays = {"coef_": (C, self.grid_.p * self.grid_.d), "intercept_": (C,)}
        return SavedModel(arrays, ("n_features_in_", "grid_", "_image_shape"))


class RandomAtoms(ClassNamePrefixFeaturesOutMixin, ClassifierMixin, TransformerMixin, BaseEstimator):
    """Random atoms of unit length, then ridge regression on the shrunken responses: DCADL unlearned.

    Parameters
    ----------
    n_atoms, patch_shape, stride, image_shape, normalize, lam1
        As in `DCADL`.
    lam : float, default=0.5
        Ridge λ on the classifier; the default is DCADL's λ3/λ2.
    class_weight, backend, random_state
        As in `DCADL`.

    Attributes
    ----------
    atoms_, coef_, intercept_, classes_, grid_, n_features_in_ : as in `DCADL`
    """

    def __init__(
        self,
        n_atoms: int = 50,
        patch_shape: Any = None,
        stride: Any = None,
        image_shape: Any = None,
        normalize: str | None = "patch",
        lam1: float = 1e-3,
        lam: float = 0.5,
        class_weight: Any = None,
        backend: str = "numpy",
        random_state: Any = None,
    ) -> None:
        self.n_atoms = n_atoms
        self.patch_shape = patch_shape
        self.stride = stride
        self.image_shape = image_shape
        self.normalize = normalize
        self.lam1 = lam1
        self.lam = lam
        self.class_weight = class_weight
        self.backend = backend
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> RandomAtoms:
        """Draw the atoms and solve the ridge regression on their responses."""
        check_number("n_atoms", self.n_atoms, 1, whole=True)
        check_number("lam1", self.lam1, 0)
        check_number("lam", self.lam, 0, above=True)
        check_backend(self.backend)
        X, y, shape = fit_rows(self, X, y)
        self.grid_ = grid_of(self, shape)
        self._image_shape = shape
        self.classes_, Y = one_hot(y, X.dtype)
        weight = sample_weights(sample_weight, self.class_weight, y, X.dtype)
        Omega = gaussian_atoms(self.n_atoms, self.grid_.d, self.random_state).astype(X.dtype)
        features = coded(
            send(X, self.backend), self.grid_, self.normalize, send(Omega, self.backend), self.lam1
        )
        self.atoms_ = Omega.reshape(-1, *atom_shape(self.grid_, shape))
        self.intercept_ = class_shares(Y, weight)
        self.coef_ = _ridge_classifier(features, Y - self.intercept_, self.lam, weight, self.backend)
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Codes of X, one row per image: shrunken responses to the atoms, patch first, then atom."""
        check_is_fitted(self)
        rows = predict_rows(self, X, self._image_shape)
        Omega = self.atoms_.reshape(len(self.atoms_), -1)
        return run_on(
            self.backend, lambda x, a: coded(x, self.grid_, self.normalize, a, self.lam1), rows, Omega
        )

    def decision_function(self, X: Any) -> np.ndarray:
        """Score of each class; for two classes the second's less the first's."""
        return decision(self._scores(X))

    def predict(self, X: Any) -> np.ndarray:
        """The class of the highest score."""
        return labels(self._scores(X), self.classes_)

    def save(self, path: Any) -> None:
        """Write the model to a safetensors file that `dcadl.load` reads; no pickle."""
        save(self, path)

    def _scores(self, X: Any) -> Array:
        check_is_fitted(self)

        def score(x: Array, Omega: Array, W: Array, b: Array) -> Array:
            return coded_scores(x, self.grid_, self.normalize, Omega, self.lam1, W) + b

        rows = predict_rows(self, X, self._image_shape)
        Omega = self.atoms_.reshape(len(self.atoms_), -1)
        return leave_on(self.backend, score, rows, Omega, self.coef_, self.intercept_)

    @property
    def _n_features_out(self) -> int:
        return self.coef_.shape[1]

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "coef_")

    def _saved(self) -> SavedModel:
        """What a model file must hold for this class."""
        m = self.n_atoms
        return SavedModel(
            {
                "atoms_": (m, *atom_shape(self.grid_, self._image_shape)),
                "coef_": (len(self.classes_), self.grid_.p * m),
                "intercept_": (len(self.classes_),),
            },
            ("n_features_in_", "grid_", "_image_shape"),
        )


def _ridge_classifier(
    features: Array, Y: np.ndarray, lam: float, weight: np.ndarray | None, backend: str
) -> np.ndarray:
    sent = None if weight is None else send(weight, backend)
    return np.ascontiguousarray(fetch(ridge(features, send(Y, backend), lam, sent)).T)
