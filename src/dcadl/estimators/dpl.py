"""DPL: one dictionary and one projection for each class."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from dcadl.arrays import Array, check_backend, send
from dcadl.estimators.base import Classifier
from dcadl.estimators.files import SavedModel
from dcadl.estimators.fitting import fitted_array, fitting, gaussian_atoms
from dcadl.estimators.prediction import on_backend
from dcadl.estimators.validation import Training, check_number, training_data
from dcadl.ops.patches import unit_rows
from dcadl.solvers import dpl


class DPL(Classifier):
    """Projective dictionary pair learning.

    Learns for each class k a dictionary D_k and a projection P_k by minimising

        Σ_k ‖X_k − D_kA_k‖² + τ‖P_kX_k − A_k‖² + λ‖P_kX̄_k‖² + γ‖P_k‖²   with ‖d_i‖ ≤ 1

    over D, P and the codes A; X_k are the samples of the class, X̄_k all others, each scaled to unit
    length. A new sample belongs to the class whose pair rebuilds it best: argmin_k ‖y − D_kP_ky‖².

    Parameters
    ----------
    n_atoms : int, default=30
        Atoms of each class, m.
    tau, lam, gamma : float
        Weight of the code error; of the codes of other classes' samples; ridge on the projections.
    intercept : float, default=1.0
        Constant appended to every sample before it is scaled to unit length, since otherwise a sample
        and its negative look alike. 0: nothing is appended, as in the paper, whose pixels have one sign.
    max_iter : int, default=20
        Most passes.
    tol : float, default=0
        Stop when a pass lowers the objective by less than this share of it. 0: exactly max_iter passes.
    backend : {"numpy", "torch", "torch:cuda", "cupy"}, default="numpy"
        Where the arithmetic runs. Fitted attributes are NumPy arrays in any case.
    random_state : int, RandomState or None, default=None
        Seed of the first dictionaries and projections.

    Attributes
    ----------
    atoms_ : ndarray (n_classes, n_atoms, n_features_in_ + 1), or + 0 for intercept=0
        D, one row per atom, each of length at most one.
    projections_ : ndarray of the same shape
        P, one row per code.
    classes_ : ndarray (n_classes,)
        The labels, sorted.
    objective_ : ndarray (3 * n_iter_,)
        The objective after each block (projections, dictionaries, codes) of each pass: never rising.
    n_iter_, n_features_in_ : int
        Passes made; values per sample.

    Notes
    -----
    As in the authors' release the ridge γ belongs to the objective and a pass updates P, D, A in this
    order. Their dictionary step stops outside the unit ball; ours goes atom by atom and stays inside.
    D and P start as random rows of unit length.

    References
    ----------
    S. Gu, L. Zhang, W. Zuo, X. Feng, "Projective dictionary pair learning for pattern
    classification", NIPS 2014.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from dcadl import DPL
    >>> digits = load_digits()
    >>> model = DPL(n_atoms=8, random_state=0).fit(digits.images[:1000], digits.target[:1000])
    >>> model.atoms_.shape
    (10, 8, 65)
    """

    def __init__(
        self,
        n_atoms: int = 30,
        tau: float = 0.05,
        lam: float = 0.003,
        gamma: float = 1e-4,
        intercept: float = 1.0,
        max_iter: int = 20,
        tol: float = 0.0,
        backend: str = "numpy",
        random_state: Any = None,
    ) -> None:
        self.n_atoms = n_atoms
        self.tau = tau
        self.lam = lam
        self.gamma = gamma
        self.intercept = intercept
        self.max_iter = max_iter
        self.tol = tol
        self.backend = backend
        self.random_state = random_state

    @fitting
    def fit(self, X: Any, y: Any) -> DPL:
        """Learn the dictionaries and projections from samples (n, values) or images (n, H, W[, channels])."""
        self._check_parameters()
        data = training_data(self, X, y)
        rows, member = self._samples(data.rows), data.Y.argmax(axis=1)
        parts = [send(rows[member == k], self.backend) for k in range(len(data.classes))]
        problem = dpl.pose(parts, float(self.tau), float(self.lam), float(self.gamma))
        pairs = self._first_pairs(len(parts), rows.shape[1])
        return self._fit_by_passes(
            data,
            partial(dpl.step, problem),
            dpl.start(problem, *pairs),
            keep=lambda model, state: model._keep(data, problem, state),
            tol=self.tol,
        )

    def _keep(self, data: Training, problem: dpl.Problem, state: dpl.State) -> None:
        D, P = dpl.pairs(problem, state)
        self.classes_, self.image_shape_ = data.classes, data.image_shape
        self.atoms_ = fitted_array(D, data.rows.dtype)
        self.projections_ = fitted_array(P, data.rows.dtype)
        self.objective_ = np.asarray(dpl.objective(problem, state))

    def _scores(self, rows: Array) -> Array:
        """−‖y − D_kP_ky‖² for each class k."""
        return dpl.scores(*on_backend(self.backend, self._samples(rows), self.atoms_, self.projections_))

    def _samples(self, X: np.ndarray) -> np.ndarray:
        """Rows of unit length, the constant appended."""
        if self.intercept == 0:
            return unit_rows(X)
        return unit_rows(np.pad(X, ((0, 0), (0, 1)), constant_values=self.intercept))

    def _check_parameters(self) -> None:
        check_number("n_atoms", self.n_atoms, 1, integer=True)
        check_number("max_iter", self.max_iter, 1, integer=True)
        check_number("tol", self.tol, 0)
        for name in ("lam", "intercept"):
            check_number(name, getattr(self, name), 0)
        for name in ("tau", "gamma"):
            check_number(name, getattr(self, name), 0, above=True)
        check_backend(self.backend)

    def _first_pairs(self, C: int, d: int) -> list[Any]:
        """Random D and P, (C, m, d) each, on the backend."""
        rng = check_random_state(self.random_state)
        m = self.n_atoms
        return [send(gaussian_atoms(C * m, d, rng).reshape(C, m, d), self.backend) for _ in range(2)]

    def _saved(self) -> SavedModel:
        pair = len(self.classes_), self.n_atoms, self.n_features_in_ + (self.intercept != 0)
        return SavedModel(
            {"atoms_": pair, "projections_": pair, "objective_": ("passes",)},
            ("n_iter_", "n_features_in_", "image_shape_"),
        )
