"""The honest controls: what the patches alone give, and what atoms give that nobody learned."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from dcadl.arrays import Array, check_backend, fetch, send
from dcadl.estimators.base import Classifier, PatchClassifier
from dcadl.estimators.files import SavedModel, normalisation_value
from dcadl.estimators.fitting import fitted_array, fitting, gaussian_atoms
from dcadl.estimators.prediction import on_backend
from dcadl.estimators.validation import (
    check_number,
    check_ridge,
    class_shares,
    grid_of,
    sample_weights,
    training_data,
)
from dcadl.ops.codes import by_image, respond, soft_threshold
from dcadl.ops.patches import Grid, atom_shape, normalised_patches
from dcadl.ops.ridge import from_contrasts, to_contrasts
from dcadl.solvers.code_ridge import Code, chosen_normalisation, code_ridge, temperature_left_out
from dcadl.solvers.walk import chunked, map_rows


class PatchRidge(Classifier):
    """Ridge regression from normalised patches to labels: DCADL without a dictionary.

    Minimises ½‖Y − WX̄‖² + ½λ‖W‖², X̄ the patches of an image in one row, Y less the
    classes' shares. A table of DCADL without this control hides what learning the atoms was worth.

    Parameters
    ----------
    patch_shape, stride, image_shape, normalize
        As in `DCADL`; `normalize="auto"` goes by the patches themselves.
    lam : "auto" or float, default="auto"
        Ridge λ. "auto": the one of least leave-one-out error, computed exactly; see `DCADL`'s `refit_lam`.
    class_weight, backend
        As in `DCADL`.

    Attributes
    ----------
    coef_ : ndarray (n_classes, n_patches * patch_values)
    lam_ : float
        The ridge of the fit.
    intercept_, classes_, grid_, normalize_, n_features_in_ : as in `DCADL`
    """

    _ridge_on_codes = True

    def __init__(
        self,
        patch_shape: Any = "auto",
        stride: Any = None,
        image_shape: Any = None,
        normalize: str | None = "auto",
        lam: Any = "auto",
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
        _fit_ridge(self, X, y, sample_weight, lambda grid, dtype: (lambda P: P, grid.d))
        return self

    def _scores(self, rows: Array) -> Array:
        x, grid, how = send(rows, self.backend), self.grid_, self.normalize_
        return map_rows(lambda part: self._patch_scores(normalised_patches(part, grid, how)), x, grid)

    def _patch_scores(self, P: Array) -> Array:
        x, W, b = on_backend(self.backend, P, self.coef_, self.intercept_)
        return by_image(x) @ W.T + b

    def _check_parameters(self) -> None:
        _check_ridge(self)

    def _saved(self) -> SavedModel:
        C = len(self.classes_)
        arrays = {"coef_": (C, self.grid_.p * self.grid_.d), "intercept_": (C,)}
        values = ("n_features_in_", "grid_", "image_shape_", *normalisation_value(self.normalize))
        return SavedModel(arrays, values, ("lam_",))


class RandomAtoms(PatchClassifier):
    """Random atoms of unit length, then ridge regression on the shrunken responses: DCADL unlearned.

    Parameters
    ----------
    n_atoms, patch_shape, stride, image_shape, normalize, lam1
        As in `DCADL`.
    lam : "auto" or float, default="auto"
        Ridge λ on the classifier. "auto": the one of least leave-one-out error, as in `PatchRidge`.
    class_weight, backend, random_state
        As in `DCADL`.

    Attributes
    ----------
    atoms_, coef_, intercept_, classes_, grid_, normalize_, n_features_in_ : as in `DCADL`
    lam_ : float
        The ridge of the fit.
    """

    def __init__(
        self,
        n_atoms: int = 50,
        patch_shape: Any = "auto",
        stride: Any = None,
        image_shape: Any = None,
        normalize: str | None = "auto",
        lam1: float = 1e-3,
        lam: Any = "auto",
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
        _fit_ridge(self, X, y, sample_weight, self._draw_atoms)
        self.atoms_ = self.atoms_.reshape(-1, *atom_shape(self.grid_, self.image_shape_))
        return self

    def _draw_atoms(self, grid: Grid, dtype: Any) -> tuple[Code, int]:
        self.atoms_ = gaussian_atoms(self.n_atoms, grid.d, self.random_state).astype(dtype)
        there, threshold = send(self.atoms_, self.backend), float(self.lam1)
        return lambda P: soft_threshold(respond(P, there), threshold), self.n_atoms

    def _check_parameters(self) -> None:
        check_number("n_atoms", self.n_atoms, 1, integer=True)
        check_number("lam1", self.lam1, 0)
        _check_ridge(self)

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
            ("n_features_in_", "grid_", "image_shape_", *normalisation_value(self.normalize)),
            ("lam_",),
        )


def _fit_ridge(
    model: Classifier, X: Any, y: Any, sample_weight: Any, atoms: Callable[[Grid, Any], tuple[Code, int]]
) -> None:
    """Assign what the ridge regression on codes gives; `atoms` says how to code a patch, and how long."""
    rows, y, Y, classes, shape = training_data(model, X, y)
    grid = grid_of(model, shape)
    weight = sample_weights(sample_weight, model.class_weight, y, rows.dtype)
    intercept = class_shares(Y, weight)
    code, width = atoms(grid, rows.dtype)
    sent = (rows, to_contrasts(Y - intercept), weight)
    x, T, s = (None if a is None else send(a, model.backend) for a in sent)
    lam = None if isinstance(model.lam, str) else float(model.lam)
    opened = partial(chunked, x, T, s, grid)
    how = chosen_normalisation(model.normalize, grid, opened, code, width)
    with opened(how) as (chunks, walk):
        found = code_ridge(chunks, walk, code, grid.p * width, lam)
    model.classes_, model.image_shape_, model.grid_ = classes, shape, grid
    model.normalize_ = how
    model.coef_ = fitted_array(from_contrasts(fetch(found.W).T).T, rows.dtype)
    model.intercept_, model.lam_ = intercept, found.lam
    model.temperature_ = temperature_left_out(found, intercept)


def _check_ridge(model: Classifier) -> None:
    check_ridge("lam", model.lam)
    check_backend(model.backend)
