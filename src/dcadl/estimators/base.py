"""What every classifier here does alike: predict, save, and leave a model as it was when a fit fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
)
from sklearn.callback import CallbackSupportMixin
from sklearn.utils.validation import check_is_fitted

from dcadl.arrays import Array, array_namespace, fetch, one_blas_thread
from dcadl.estimators.files import SavedModel, save
from dcadl.estimators.fitting import FitReport, iterate, warn_if_not_converged
from dcadl.estimators.prediction import finite_codes, finite_scores, in_memory, in_parts, on_backend
from dcadl.estimators.probabilities import Probabilities
from dcadl.estimators.validation import Training, open_npy, predict_rows
from dcadl.ops.codes import by_image, respond, shrink, split_signs
from dcadl.ops.patches import Grid, responses
from dcadl.solvers.walk import map_rows


class Classifier(Probabilities, CallbackSupportMixin, ClassifierMixin, BaseEstimator):
    """Base of the classifiers.

    A subclass has a `fit`, decorated with `fitting`, which ends by assigning `classes_`, `image_shape_`
    and its own fitted attributes, and the three methods that raise NotImplementedError here.
    """

    classes_: np.ndarray
    image_shape_: tuple[int, ...]
    n_features_in_: int
    n_iter_: int
    training_: dict[str, Any]  # what `dcadl fit` knew of the data; kept in model files
    max_iter: int
    _ridge_on_codes: ClassVar[bool] = False  # an exact one says nothing only where every code is zero

    def predict(self, X: Any) -> np.ndarray:
        """The class of the highest score.

        Parameters
        ----------
        X : array-like of shape (n, H, W), (n, H, W, channels), or rows (n, values)
            As in `fit`. A memory map, an HDF5 or Zarr array or the path of a `.npy` file is read a part
            at a time; a dask array gives a dask array, not yet computed.

        Returns
        -------
        ndarray of shape (n,)
        """
        X = self._opened(X)
        if not in_memory(X):
            return in_parts(self.predict, X, None, self.classes_.dtype)
        with one_blas_thread(), np.errstate(over="ignore", invalid="ignore"):
            scores = finite_scores(self._scores(predict_rows(self, X, self.image_shape_)))
        # Only the number of the class comes home from a device.
        return self.classes_[fetch(array_namespace(scores).argmax(scores, axis=1))]

    def decision_function(self, X: Any) -> np.ndarray:
        """Score of each class, (n, C); for two classes the second's less the first's, (n,).

        Parameters
        ----------
        X : as in `predict`
        """
        X, C = self._opened(X), len(self.classes_)
        if not in_memory(X):
            return in_parts(self.decision_function, X, None if C == 2 else C)
        with one_blas_thread(), np.errstate(over="ignore", invalid="ignore"):
            scores = fetch(finite_scores(self._scores(predict_rows(self, X, self.image_shape_))))
        return scores[:, 1] - scores[:, 0] if C == 2 else scores

    def save(self, path: Any) -> None:
        """Write the model to a safetensors file that `dcadl.load` reads; no pickle."""
        save(self, path)

    def to_onnx(self, path: Any, *, dtype: str = "float32", scale: float = 1.0) -> None:
        """Write the model as an ONNX file with the outputs `label`, `scores`, `probabilities`.

        Parameters
        ----------
        path : the file to write
        dtype : {"float32", "uint8"}, default="float32"
            What the input, `pictures` of shape (n, *image_shape_), holds.
        scale : float, default=1
            What pixels are multiplied by: the file gives what `predict(scale * X)` gives.
        """
        from dcadl.deploy.onnx_file import to_onnx  # here: that room is built on this one

        to_onnx(self, path, dtype=dtype, scale=scale)

    def explain(self, X: Any) -> Any:
        """Evidence of every pixel and atom for every class, which adds up to the scores.

        Parameters
        ----------
        X : as in `predict`

        Returns
        -------
        Explanation
            With `evidence` (n, H, W, C), `by_atom` (n, m, C), `intercept` and `scores`; drawn by
            `dcadl.plot.EvidenceDisplay`.
        """
        from dcadl.deploy.explain import explain  # here: that room is built on this one

        return explain(self, X)

    def _opened(self, X: Any) -> Any:
        """X to predict, of a fitted model; the memory map of a `.npy` file where X is its path."""
        check_is_fitted(self)
        return open_npy(X)

    def _check_parameters(self) -> None:
        """Refuse parameters that no fit could use, with a ValueError that says what to do."""
        raise NotImplementedError

    def _scores(self, rows: Array) -> Array:
        """Score of each class, (n, C), of checked images as rows; it may stay on the backend."""
        raise NotImplementedError

    def _saved(self) -> SavedModel:
        """What a model file must hold for this class."""
        raise NotImplementedError

    def _check_fitted(self) -> None:
        """Refuse fitted values that no fit gives: shapes are right already, values may not be."""

    def _fit_by_passes(
        self,
        data: Training,
        step: Callable[[Any], Any],
        state: Any,
        *,
        keep: Callable[[Any, Any], None],
        tol: float,
    ) -> Self:
        """`iterate` from `state` on, then `keep(self, state)`, which assigns the fitted attributes.

        Callbacks are called after each pass; one that asks for a fitted model gets a copy that `keep` was
        called on.
        """
        report = FitReport(self, self.max_iter, data.rows, data.y)

        def watch(t: int, now: Any) -> bool:
            return report.after_pass(lambda model: keep(model, now))

        result = iterate(step, state, max_iter=self.max_iter, tol=tol, watch=watch)
        keep(self, result.state)
        self.n_iter_ = result.n_iter
        warn_if_not_converged(type(self).__name__, result, tol, stacklevel=6)
        report.end()
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "classes_")


class CodingClassifier(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Classifier):
    """A classifier on codes that are of use by themselves: it has `transform` too."""

    def transform(self, X: Any) -> np.ndarray:
        """Codes of X, one row per image.

        Parameters
        ----------
        X : as in `predict`

        Returns
        -------
        ndarray of shape (n, n_codes)
        """
        X = self._opened(X)
        if not in_memory(X):
            return in_parts(self.transform, X, self._n_features_out)
        with one_blas_thread(), np.errstate(over="ignore", invalid="ignore"):
            return finite_codes(self._codes(predict_rows(self, X, self.image_shape_)))

    def _codes(self, rows: Array) -> np.ndarray:
        """Codes of checked images as rows, brought home."""
        raise NotImplementedError

    @property
    def _n_features_out(self) -> int:
        """Values of a code."""
        raise NotImplementedError


class PatchClassifier(CodingClassifier):
    """A linear classifier W on the codes τ(ΩX̄) of an image's patches, with `backend` and `normalize`."""

    _ridge_on_codes = True
    atoms_: np.ndarray
    coef_: np.ndarray
    intercept_: np.ndarray
    grid_: Grid
    normalize: str | None
    normalize_: str | None
    backend: str
    codes: str = "signed"

    def _scores(self, rows: Array) -> Array:
        """W·τ(ΩX̄) + b; codes live only for their chunk."""
        x, Omega, W, b = on_backend(self.backend, rows, self._Omega(), self.coef_, self.intercept_)
        grid, how = self.grid_, self.normalize_
        return map_rows(lambda part: self._encoded(responses(part, grid, how, Omega)) @ W.T + b, x, grid)

    def _patch_scores(self, P: Array) -> Array:
        """The same of patches that are normalised already, (n, p, d)."""
        x, Omega, W, b = on_backend(self.backend, P, self._Omega(), self.coef_, self.intercept_)
        return self._encoded(respond(x, Omega)) @ W.T + b

    def _codes(self, rows: Array) -> np.ndarray:
        """Patch first, then atom."""
        x, Omega = on_backend(self.backend, rows, self._Omega())
        grid, how = self.grid_, self.normalize_
        return fetch(map_rows(lambda part: self._encoded(responses(part, grid, how, Omega)), x, grid))

    def _encoded(self, A: Array) -> Array:
        """Codes τ(A) of responses, one row per image: no label information enters them. A is overwritten."""
        split, threshold = self.codes == "split", self._threshold()
        A = split_signs(A) if split else A
        return by_image(shrink(A, threshold, split) if threshold > 0 else A)

    def _threshold(self) -> float:
        """What codes are shrunk by."""
        raise NotImplementedError

    def _Omega(self) -> np.ndarray:
        return self.atoms_.reshape(len(self.atoms_), -1)

    @property
    def _n_features_out(self) -> int:
        return self.coef_.shape[1]
