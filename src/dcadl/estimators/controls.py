"""The honest controls: what the patches alone give, and what atoms give that nobody learned."""

from __future__ import annotations

from typing import Any

import numpy as np

from dcadl.arrays import Array, check_backend, fetch, send
from dcadl.estimators.base import Classifier, PatchClassifier, fitted_array, fitting, gaussian_atoms
from dcadl.estimators.files import SavedModel
from dcadl.estimators.prediction import coded, on_backend
from dcadl.estimators.validation import check_number, class_shares, grid_of, sample_weights, training_data
from dcadl.ops.codes import by_image
from dcadl.ops.patches import atom_shape
from dcadl.ops.ridge import ridge_left_out
from dcadl.ops.softmax import best_temperature
from dcadl.solvers.walk import map_patches

JUDGED = 500  # training images, at most, whose left-out scores the temperature is fitted to


class PatchRidge(Classifier):
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

    @fitting
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> PatchRidge:
        """Solve the ridge regression."""
        self._check_parameters()
        rows, y, Y, classes, shape = training_data(self, X, y)
        grid = grid_of(self, shape)
        weight = sample_weights(sample_weight, self.class_weight, y, rows.dtype)
        features = map_patches(by_image, send(rows, self.backend), grid, self.normalize)
        intercept = class_shares(Y, weight)
        W, temperature = _ridge_classifier(features, Y, intercept, self.lam, weight, self.backend)
        self.classes_, self.image_shape_, self.grid_ = classes, shape, grid
        self.coef_, self.intercept_, self.temperature_ = W, intercept, temperature
        return self

    def _scores(self, rows: Array) -> Array:
        return map_patches(self._patch_scores, send(rows, self.backend), self.grid_, self.normalize)

    def _patch_scores(self, P: Array) -> Array:
        x, W, b = on_backend(self.backend, P, self.coef_, self.intercept_)
        return by_image(x) @ W.T + b

    def _check_parameters(self) -> None:
        check_number("lam", self.lam, 0, above=True)
        check_backend(self.backend)

    def _saved(self) -> SavedModel:
        C = len(self.classes_)
        arrays = {"coef_": (C, self.grid_.p * self.grid_.d), "intercept_": (C,)}
        return SavedModel(arrays, ("n_features_in_", "grid_", "image_shape_"))


class RandomAtoms(PatchClassifier):
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
        self.n_atoms, self.lam1 = n_atoms, lam1
        self.patch_shape, self.stride, self.image_shape = patch_shape, stride, image_shape
        self.normalize = normalize
        self.lam = lam
        self.class_weight = class_weight
        self.backend = backend
        self.random_state = random_state

    @fitting
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> RandomAtoms:
        """Draw the atoms and solve the ridge regression on their responses."""
        self._check_parameters()
        rows, y, Y, classes, shape = training_data(self, X, y)
        grid = grid_of(self, shape)
        weight = sample_weights(sample_weight, self.class_weight, y, rows.dtype)
        Omega = gaussian_atoms(self.n_atoms, grid.d, self.random_state).astype(rows.dtype)
        x, there = on_backend(self.backend, rows, Omega)
        features = coded(x, grid, self.normalize, there, float(self.lam1))
        intercept = class_shares(Y, weight)
        W, temperature = _ridge_classifier(features, Y, intercept, self.lam, weight, self.backend)
        self.classes_, self.image_shape_, self.grid_ = classes, shape, grid
        self.atoms_ = Omega.reshape(-1, *atom_shape(grid, shape))
        self.coef_, self.intercept_, self.temperature_ = W, intercept, temperature
        return self

    def _check_parameters(self) -> None:
        check_number("n_atoms", self.n_atoms, 1, integer=True)
        check_number("lam1", self.lam1, 0)
        check_number("lam", self.lam, 0, above=True)
        check_backend(self.backend)

    def _threshold(self) -> float:
        return float(self.lam1)

    def _saved(self) -> SavedModel:
        m = self.n_atoms
        return SavedModel(
            {
                "atoms_": (m, *atom_shape(self.grid_, self.image_shape_)),
                "coef_": (len(self.classes_), self.grid_.p * m),
                "intercept_": (len(self.classes_),),
            },
            ("n_features_in_", "grid_", "image_shape_"),
        )


def _ridge_classifier(
    features: Array, Y: np.ndarray, intercept: np.ndarray, lam: float, weight: np.ndarray | None, backend: str
) -> tuple[np.ndarray, float]:
    """W, and the temperature by what it says of training images left out."""
    n = len(Y)
    sent = None if weight is None else send(weight, backend)
    judged = slice(0, n, -(-n // JUDGED))  # every few: sorted labels are no reason to judge by one class
    W, left_out = ridge_left_out(features, send(Y - intercept, backend), lam, sent, judged)
    heavy = None if weight is None else weight[judged]
    if heavy is not None and not heavy.any():
        heavy = None
    temperature = best_temperature(fetch(left_out) + intercept, Y[judged].argmax(axis=1), heavy)
    return fitted_array(W.T), temperature
