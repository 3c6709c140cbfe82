"""DADL: codes that strive for a target per class and keep neighbours together, then the nearest one."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from sklearn.metrics import pairwise_distances_chunked

from dcadl.arrays import Array, check_backend, fetch, send
from dcadl.estimators.base import CodingClassifier
from dcadl.estimators.files import SavedModel
from dcadl.estimators.fitting import fitted_array, fitting
from dcadl.estimators.loaded import check_class_numbers
from dcadl.estimators.prediction import on_backend
from dcadl.estimators.validation import Training, check_flag, check_number, training_data
from dcadl.ops.patches import unit_rows
from dcadl.ops.targets import code_sizes, hybrid_codes
from dcadl.ops.threshold import hard_threshold
from dcadl.solvers import dadl


class DADL(CodingClassifier):
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

    @fitting
    def fit(self, X: Any, y: Any) -> DADL:
        """Learn the atoms, and keep the samples' codes; X as rows (n, r) or images (n, H, W[, c])."""
        self._check_parameters()
        data = training_data(self, X, y)
        targets = hybrid_codes(len(data.classes), data.rows.shape[1])
        label = np.argmax(data.Y, axis=1)
        H = unit_rows(targets.codes.astype(data.rows.dtype))[label]
        problem = dadl.pose(
            unit_rows(send(data.rows, self.backend)),
            send(H, self.backend),
            send(label, self.backend),
            dadl.Weights(float(self.lam1), float(self.lam2), float(self.lam3), float(self.sigma)),
            dadl.Options(targets.sparsity, min(self.n_neighbors, len(label) - 1), self.inner_iter),
        )
        return self._fit_by_passes(
            data,
            partial(dadl.step, problem),
            dadl.start(problem),
            keep=lambda model, state: model._keep(data, state, targets.sparsity),
            tol=self.tol,
        )

    def _keep(self, data: Training, state: dadl.State, sparsity: int) -> None:
        atoms = fitted_array(state.Omega)
        codes = self._codes_by(data.rows, atoms, sparsity)
        self.classes_, self.image_shape_ = data.classes, data.image_shape
        self.atoms_, self.sparsity_ = atoms, sparsity
        self.codes_, self.code_classes_ = fitted_array(codes), np.argmax(data.Y, axis=1)
        self.objective_ = np.asarray(state.trace)

    def _scores(self, rows: Array) -> np.ndarray:
        """Less the distance to the nearest code of each class."""
        order = np.argsort(self.code_classes_, kind="stable")
        first = np.searchsorted(self.code_classes_[order], np.arange(len(self.classes_)))
        found = pairwise_distances_chunked(
            self._codes(rows),
            self.codes_[order],
            reduce_func=lambda distances, start: -np.minimum.reduceat(distances, first, axis=1),
        )
        return np.concatenate(list(found))

    def _codes(self, rows: Array) -> np.ndarray:
        """As they are compared with those of the training samples."""
        return self._codes_by(rows, self.atoms_, self.sparsity_)

    def _codes_by(self, rows: Array, atoms: np.ndarray, sparsity: int) -> np.ndarray:
        x, Omega = on_backend(self.backend, rows, atoms)
        return fetch(hard_threshold(unit_rows(x) @ Omega.T, sparsity if self.threshold else len(atoms)))

    def _check_parameters(self) -> None:
        check_number("lam3", self.lam3, 0, above=True)
        check_number("sigma", self.sigma, 0, above=True)
        for name in ("lam1", "lam2", "tol"):
            check_number(name, getattr(self, name), 0)
        for name in ("n_neighbors", "max_iter", "inner_iter"):
            check_number(name, getattr(self, name), 1, integer=True)
        check_flag("threshold", self.threshold)
        check_backend(self.backend)

    @property
    def _n_features_out(self) -> int:
        return len(self.atoms_)

    def _check_fitted(self) -> None:
        C, n_features = len(self.classes_), self.n_features_in_
        check_class_numbers("code_classes_", self.code_classes_, C)
        if len(np.unique(self.code_classes_)) < C:
            raise ValueError(f"code_classes_ must hold every number from 0 to {C - 1}")
        if self.sparsity_ != code_sizes(C, n_features).sparsity:
            raise ValueError(f"sparsity_ must follow from the classes and values; got {self.sparsity_!r}")

    def _saved(self) -> SavedModel:
        r = code_sizes(len(self.classes_), self.n_features_in_).length
        return SavedModel(
            {
                "atoms_": (r, self.n_features_in_),
                "codes_": ("samples", r),
                "code_classes_": ("samples",),
                "objective_": ("passes",),
            },
            ("sparsity_", "n_iter_", "n_features_in_", "image_shape_"),
        )
