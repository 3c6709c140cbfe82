"""DADL: codes that strive for a target per class and keep neighbours together, then the nearest one."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.callback import CallbackSupportMixin, with_callbacks
from sklearn.metrics import pairwise_distances_argmin
from sklearn.utils.validation import check_is_fitted

from dcadl.arrays import Array, check_backend, fetch, send
from dcadl.estimators.files import SavedModel, save
from dcadl.estimators.inputs import check_number, fit_rows, one_hot, predict_rows
from dcadl.estimators.passes import FitReport, warn_if_not_converged
from dcadl.estimators.patchwise import run_on
from dcadl.ops.normalise import unit_rows
from dcadl.ops.targets import TargetCodes, hybrid_codes
from dcadl.ops.threshold import hard_threshold
from dcadl.solvers import dadl
from dcadl.solvers.loop import Result, iterate


class DADL(
    CallbackSupportMixin, ClassNamePrefixFeaturesOutMixin, ClassifierMixin, TransformerMixin, BaseEstimator
):
    """Discriminative analysis dictionary learning.

    Learns atoms Ω by minimising, over Ω and codes x_i with at most T0 entries,

        Σ ρ(x_i − Ωy_i) + λ1 Σ ρ(x_i − h_i) + ½λ2 Σ W_ij ρ(Ωy_i − Ωy_j) + (λ3/σ²)‖Ω‖²,

    with ρ(e) = 1 − exp(−‖e‖²/σ²), for samples y_i scaled to unit length. The target code h_i of a class
    is a block of its own followed by a row of a Walsh matrix; W weighs neighbours, those of the same
    class most. The number of atoms follows from the numbers of values and classes. A new sample gets the
    class of the training sample whose code is nearest to its own.

    Parameters
    ----------
    lam1, lam2, lam3 : float, default=10, 0.001, 0.1
        Weight of the target codes, of the neighbours, and of the ridge on the atoms.
    sigma : float, default=10
        Width of ρ. Beside samples of unit length the default is wide: ρ is all but quadratic.
    n_neighbors : int, default=7
        Neighbours of a sample in the topology weights, k.
    threshold : bool, default=False
        Whether codes are cut to their T0 largest entries before they are compared. The paper's rule
        cuts them (True); the authors' release remarks that plain responses can do better, and on
        Extended YaleB they do, so they are the default.
    max_iter : int, default=6
        Passes; each takes the slopes of ρ anew. The default is the authors'.
    inner_iter : int, default=3
        Rounds of atoms and codes within a pass.
    tol : float, default=0
        Stop when a pass lowers the objective by less than this share of it. 0: exactly max_iter passes.
    backend : {"numpy", "torch", "torch:cuda", "cupy"}, default="numpy"
        Where the arithmetic runs. Fitted attributes are NumPy arrays in any case.

    Attributes
    ----------
    atoms_ : ndarray (n_atoms, n_features_in_)
        Ω.
    codes_ : ndarray (n_samples, n_atoms)
        Codes of the training samples, as they are compared with those of new ones.
    code_classes_ : ndarray (n_samples,)
        The number of each training sample's class in `classes_`.
    sparsity_ : int
        T0, the entries of a target code that are not zero.
    classes_ : ndarray (n_classes,)
    objective_ : ndarray (n_iter_,)
        The objective after each pass; never rising.
    n_iter_, n_features_in_ : int

    Notes
    -----
    The Laplacian is that of the paper, not normalised (as in the authors' release, whose switch to the
    normalised one cannot be reached) and taken of one matrix throughout (their release mixes two). Where
    2^N − 1 Walsh codes, N = ⌊log2((d + 1)/3)⌋, are fewer than the classes, the method as published does
    not exist; here N is raised until they suffice. Memory: a few n × n matrices beside the codes.

    ====== =============================== =====================
    paper  here                            shape
    ====== =============================== =====================
    Y      samples, one per row            (n, d)
    X, H   codes, target codes             (n, n_atoms)
    Ω      `atoms_`                        (n_atoms, d)
    T0     `sparsity_`
    λ1…λ3  `lam1`, `lam2`, `lam3`
    σ, k   `sigma`, `n_neighbors`
    ====== =============================== =====================

    References
    ----------
    J. Guo, Y. Guo, X. Kong, M. Zhang, R. He, "Discriminative Analysis Dictionary Learning", AAAI 2016.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from dcadl import DADL
    >>> X, y = load_digits(return_X_y=True)
    >>> DADL().fit(X[:500], y[:500]).atoms_.shape
    (65, 64)
    """

    def __init__(
        self,
        lam1: float = 10.0,
        lam2: float = 0.001,
        lam3: float = 0.1,
        sigma: float = 10.0,
        n_neighbors: int = 7,
        threshold: bool = False,
        max_iter: int = 6,
        inner_iter: int = 3,
        tol: float = 0.0,
        backend: str = "numpy",
    ) -> None:
        self.lam1 = lam1
        self.lam2 = lam2
        self.lam3 = lam3
        self.sigma = sigma
        self.n_neighbors = n_neighbors
        self.threshold = threshold
        self.max_iter = max_iter
        self.inner_iter = inner_iter
        self.tol = tol
        self.backend = backend

    @with_callbacks
    def fit(self, X: Any, y: Any) -> DADL:
        """Learn the atoms, and keep the codes of the training samples.

        Parameters
        ----------
        X : array-like of shape (n, values), or images (n, H, W) or (n, H, W, channels)
        y : array-like of shape (n,)

        Returns
        -------
        self
        """
        self._check_parameters()
        X, y, self._image_shape = fit_rows(self, X, y)
        self.classes_, one_hots = one_hot(y, X.dtype)
        self.code_classes_ = np.argmax(one_hots, axis=1)
        targets = hybrid_codes(len(self.classes_), X.shape[1])
        self.sparsity_ = targets.sparsity
        report = FitReport(self, self.max_iter, X, y, None)

        result = self._learn(X, targets, report)
        self.__dict__.update(self._fitted(X, result.state))
        self.objective_ = np.asarray(result.state.seen)
        self.n_iter_ = result.n_iter
        warn_if_not_converged("DADL", result, self.tol)
        report.end()
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Codes of X, one row per sample, as they are compared with those of the training samples."""
        check_is_fitted(self)
        return self._codes(predict_rows(self, X, self._image_shape), self.atoms_)

    def predict(self, X: Any) -> np.ndarray:
        """The class of the training sample with the nearest code."""
        nearest = pairwise_distances_argmin(self.transform(X), self.codes_)
        return self.classes_[self.code_classes_[nearest]]

    def save(self, path: Any) -> None:
        """Write the model to a safetensors file that `dcadl.load` reads; no pickle."""
        save(self, path)

    def _check_parameters(self) -> None:
        check_number("lam3", self.lam3, 0, above=True)
        check_number("sigma", self.sigma, 0, above=True)
        for name in ("lam1", "lam2", "tol"):
            check_number(name, getattr(self, name), 0)
        for name in ("n_neighbors", "max_iter", "inner_iter"):
            check_number(name, getattr(self, name), 1, whole=True)
        if not isinstance(self.threshold, bool | np.bool_):
            raise ValueError(f"threshold must be True or False; got {self.threshold!r}.")
        check_backend(self.backend)

    def _learn(self, X: np.ndarray, targets: TargetCodes, report: FitReport) -> Result:
        H = unit_rows(targets.codes.astype(X.dtype))[self.code_classes_]
        problem = dadl.pose(
            unit_rows(send(X, self.backend)),
            send(H, self.backend),
            send(self.code_classes_, self.backend),
            dadl.Weights(float(self.lam1), float(self.lam2), float(self.lam3), float(self.sigma)),
            dadl.Options(targets.sparsity, min(self.n_neighbors, len(X) - 1), self.inner_iter),
        )
        return iterate(
            lambda state: dadl.step(problem, state),
            dadl.start(problem),
            dadl.last_value,
            max_iter=self.max_iter,
            tol=self.tol or -np.inf,
            watch=lambda t, state: report.after_pass(lambda: self._fitted(X, state)),
        )

    def _fitted(self, X: np.ndarray, state: dadl.State) -> dict[str, np.ndarray]:
        atoms = np.ascontiguousarray(fetch(state.Omega))  # as a model file holds them
        return {"atoms_": atoms, "codes_": self._codes(X, atoms)}

    def _codes(self, X: np.ndarray, atoms: np.ndarray) -> np.ndarray:
        keep = self.sparsity_ if self.threshold else len(atoms)

        def code(x: Array, Omega: Array) -> Array:
            return hard_threshold(unit_rows(x) @ Omega.T, keep)

        return run_on(self.backend, code, X, atoms)

    @property
    def _n_features_out(self) -> int:
        return len(self.atoms_)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "codes_")

    def _saved(self) -> SavedModel:
        """What a model file must hold for this class."""
        targets = hybrid_codes(len(self.classes_), self.n_features_in_)
        r = targets.codes.shape[1]
        return SavedModel(
            {
                "atoms_": (r, self.n_features_in_),
                "codes_": (None, r),
                "code_classes_": (None,),
                "objective_": (None,),
            },
            ("sparsity_", "n_iter_", "n_features_in_", "_image_shape"),
        )
