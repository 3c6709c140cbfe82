"""ADL+SVM: analysis atoms learned without labels, then a linear support vector machine on the codes."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from sklearn.svm import LinearSVC
from sklearn.utils import check_random_state

from dcadl.arrays import Array, check_backend, fetch, send
from dcadl.estimators.base import CodingClassifier
from dcadl.estimators.files import SavedModel
from dcadl.estimators.fitting import fitted_array, fitting, gaussian_atoms
from dcadl.estimators.prediction import on_backend
from dcadl.estimators.validation import Training, check_number, check_option, training_data
from dcadl.ops.codes import soft_threshold
from dcadl.ops.patches import unit_rows
from dcadl.ops.threshold import hard_threshold
from dcadl.solvers import adl

SHARE_KEPT = 0.3  # of the atoms, where the user gives no sparsity


class ADLSVM(CodingClassifier):
    """Analysis dictionary learning, then a linear support vector machine on the codes.

    Learns atoms Ω of unit length and full rank, without labels, by minimising over Ω and codes X

        ½‖X − ΩY‖² + ½β‖Ω‖²  with at most T entries in each code   (penalty="l0"), or
        ½‖X − ΩY‖² + ½β‖Ω‖² + λ1‖X‖₁                               (penalty="l1"),

    for samples Y scaled to unit length. The classifier is scikit-learn's `LinearSVC`, one class against
    the rest, on the thresholded responses.

    Parameters
    ----------
    n_atoms : int or None, default=None
        Number of atoms, m. None: as many as training samples, as in the published comparisons.
    penalty : {"l0", "l1"}, default="l0"
        Codes by hard thresholding to T entries, or by soft thresholding at λ1.
    sparsity : int or None, default=None
        Entries of a code, T, for penalty="l0". None: three tenths of the atoms.
    lam1 : float, default=0.001
        Soft threshold for penalty="l1".
    beta : float, default=0.01
        Ridge on the atoms.
    C : float, default=10
        Inverse regularisation of the support vector machine.
    max_iter : int, default=30
        Most passes over codes and atoms.
    tol : float, default=1e-4
        Stop when a pass changes the objective by less than this share of it. 0: exactly max_iter passes.
    backend : {"numpy", "torch", "torch:cuda", "cupy"}, default="numpy"
        Where the dictionary is learned. The support vector machine always runs on the host.
    random_state : int, RandomState or None, default=None
        Seed of the first atoms and of the support vector machine.

    Attributes
    ----------
    atoms_ : ndarray (n_atoms, n_features_in_)
        Ω.
    coef_ : ndarray (n_classes, n_atoms), or (1, n_atoms) for two classes
    intercept_ : ndarray (n_classes,) or (1,)
    sparsity_ : int
        T; the number of atoms for penalty="l1".
    classes_ : ndarray (n_classes,)
    objective_ : ndarray (n_iter_,)
        The objective after the codes of each pass. It may rise: scaling the atoms to unit length is no
        descent step.
    n_iter_, n_features_in_ : int

    Notes
    -----
    Our reading: the publication was not at hand. The alternation, the ridge, the unit length and the call
    for full rank are taken from papers that describe it. Assumed here: random first atoms; an atom that
    no code uses becomes the sample whose code fits worst; where the rank falls below what the samples
    allow, redundant atoms become what a sample has outside the span of the others.

    ====== ===================== =================
    paper  here                  shape
    ====== ===================== =================
    Y      samples, one per row  (n, d)
    X      codes                 (n, n_atoms)
    Ω      `atoms_`              (n_atoms, d)
    T, β   `sparsity`, `beta`
    ====== ===================== =================

    References
    ----------
    S. Shekhar, V. M. Patel, R. Chellappa, "Analysis sparse coding models for image-based
    classification", ICIP 2014.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from dcadl import ADLSVM
    >>> X, y = load_digits(return_X_y=True)
    >>> ADLSVM(n_atoms=64, random_state=0).fit(X[:500], y[:500]).coef_.shape
    (10, 64)
    """

    def __init__(
        self,
        n_atoms: int | None = None,
        penalty: str = "l0",
        sparsity: int | None = None,
        lam1: float = 0.001,
        beta: float = 0.01,
        C: float = 10.0,
        max_iter: int = 30,
        tol: float = 1e-4,
        backend: str = "numpy",
        random_state: Any = None,
    ) -> None:
        self.n_atoms = n_atoms
        self.penalty = penalty
        self.sparsity = sparsity
        self.lam1 = lam1
        self.beta = beta
        self.C = C
        self.max_iter = max_iter
        self.tol = tol
        self.backend = backend
        self.random_state = random_state

    @fitting
    def fit(self, X: Any, y: Any) -> ADLSVM:
        """Learn the atoms, then the support vector machine; X as rows (n, r) or images (n, H, W[, c])."""
        self._check_parameters()
        data = training_data(self, X, y)
        rows, lam1 = data.rows, float(self.lam1) if self.penalty == "l1" else 0.0
        rng = check_random_state(self.random_state)
        m = len(rows) if self.n_atoms is None else self.n_atoms
        first = gaussian_atoms(m, rows.shape[1], rng).astype(rows.dtype)
        seed = rng.randint(2**31 - 1)  # one for all passes: whoever watches them changes nothing
        sparsify = partial(self._sparsify, self._entries(m))
        problem = adl.pose(unit_rows(send(rows, self.backend)), sparsify, lam1, float(self.beta))
        return self._fit_by_passes(
            data,
            partial(adl.step, problem),
            adl.start(problem, send(first, self.backend)),
            keep=lambda model, state: model._keep(data, state, seed),
            tol=self.tol,
        )

    def _keep(self, data: Training, state: adl.State, seed: int) -> None:
        atoms = fitted_array(state.Omega)
        T = self._entries(len(atoms))
        svm = LinearSVC(C=self.C, random_state=seed, max_iter=10_000)
        svm.fit(self._codes_by(data.rows, atoms, T), data.y)
        self.classes_, self.image_shape_ = data.classes, data.image_shape
        self.atoms_, self.sparsity_ = atoms, T
        self.coef_ = fitted_array(svm.coef_, atoms.dtype)
        self.intercept_ = np.atleast_1d(svm.intercept_).astype(atoms.dtype)
        self.objective_ = np.asarray(state.trace)

    def _scores(self, rows: Array) -> np.ndarray:
        scores = self._codes(rows) @ self.coef_.T + self.intercept_
        return np.hstack([-scores, scores]) / 2 if len(self.classes_) == 2 else scores

    def _codes(self, rows: Array) -> np.ndarray:
        """Thresholded responses to the atoms."""
        return self._codes_by(rows, self.atoms_, self.sparsity_)

    def _codes_by(self, rows: Array, atoms: np.ndarray, T: int) -> np.ndarray:
        x, Omega = on_backend(self.backend, rows, atoms)
        return fetch(self._sparsify(T, unit_rows(x) @ Omega.T))

    def _check_parameters(self) -> None:
        for name in ("n_atoms", "sparsity"):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name), 1, integer=True)
        check_option("penalty", self.penalty, ("l0", "l1"))
        check_number("max_iter", self.max_iter, 1, integer=True)
        check_number("lam1", self.lam1, 0)
        check_number("tol", self.tol, 0)
        check_number("beta", self.beta, 0, above=True)
        check_number("C", self.C, 0, above=True)
        check_backend(self.backend)

    def _entries(self, m: int) -> int:
        """T, at most the number of atoms."""
        if self.penalty == "l1":
            return m
        return min(m, max(1, int(SHARE_KEPT * m)) if self.sparsity is None else self.sparsity)

    def _sparsify(self, T: int, responses: Array) -> Array:
        if self.penalty == "l1":
            return soft_threshold(responses, float(self.lam1))
        return hard_threshold(responses, T)

    @property
    def _n_features_out(self) -> int:
        return len(self.atoms_)

    def _check_fitted(self) -> None:
        check_number("sparsity_", self.sparsity_, 1, integer=True)

    def _saved(self) -> SavedModel:
        m = self.n_atoms or "n_atoms"
        machines = 1 if len(self.classes_) == 2 else len(self.classes_)
        return SavedModel(
            {
                "atoms_": (m, self.n_features_in_),
                "coef_": (machines, m),
                "intercept_": (machines,),
                "objective_": ("passes",),
            },
            ("sparsity_", "n_iter_", "n_features_in_", "image_shape_"),
        )
