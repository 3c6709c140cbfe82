"""DPL: one dictionary and one projection for each class."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.callback import CallbackSupportMixin, with_callbacks
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from dcadl.arrays import check_backend, fetch, send
from dcadl.estimators.files import SavedModel, save
from dcadl.estimators.inputs import check_number, fit_rows, one_hot, predict_rows
from dcadl.estimators.passes import FitReport, warn_if_not_converged
from dcadl.estimators.patchwise import decision, labels, run_on
from dcadl.estimators.start import gaussian_atoms
from dcadl.ops.normalise import unit_rows
from dcadl.solvers import dpl
from dcadl.solvers.loop import iterate


class DPL(CallbackSupportMixin, ClassifierMixin, BaseEstimator):
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

    @with_callbacks
    def fit(self, X: Any, y: Any) -> DPL:
        """Learn the dictionaries and projections from samples (n, values) or images (n, H, W[, channels])."""
        self._check_parameters()
        X, y, self._image_shape = fit_rows(self, X, y)
        self.classes_, Y = one_hot(y, X.dtype)
        report = FitReport(self, self.max_iter, X, y, None)
        rows, member = self._samples(X), Y.argmax(axis=1)
        parts = [send(rows[member == k], self.backend) for k in range(len(self.classes_))]
        problem = dpl.pose(parts, float(self.tau), float(self.lam), float(self.gamma))
        result = iterate(
            lambda state: dpl.step(problem, state),
            dpl.start(problem, *self._first_pairs()),
            dpl.last_value,
            max_iter=self.max_iter,
            tol=self.tol,
            watch=lambda t, state: report.after_pass(lambda: self._fitted(problem, state, X.dtype)),
        )
        self.__dict__.update(self._fitted(problem, result.state, X.dtype))
        self.objective_ = np.asarray(dpl.objective(problem, result.state))
        self.n_iter_ = result.n_iter
        warn_if_not_converged("DPL", result, self.tol)
        report.end()
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """−‖y − D_kP_ky‖² for each class; for two classes the second's less the first's."""
        return decision(self._scores(X))

    def predict(self, X: Any) -> np.ndarray:
        """The class whose pair rebuilds the sample best."""
        return labels(self._scores(X), self.classes_)

    def save(self, path: Any) -> None:
        """Write the model to a safetensors file that `dcadl.load` reads; no pickle."""
        save(self, path)

    def _scores(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        rows = self._samples(predict_rows(self, X, self._image_shape))
        return run_on(self.backend, dpl.scores, rows, self.atoms_, self.projections_)

    def _samples(self, X: np.ndarray) -> np.ndarray:
        """Rows of unit length, the constant appended."""
        if self.intercept == 0:
            return unit_rows(X)
        return unit_rows(np.pad(X, ((0, 0), (0, 1)), constant_values=self.intercept))

    def _pair_shape(self) -> tuple[int, int, int]:
        return len(self.classes_), self.n_atoms, self.n_features_in_ + (self.intercept != 0)

    def _check_parameters(self) -> None:
        check_number("n_atoms", self.n_atoms, 1, whole=True)
        check_number("max_iter", self.max_iter, 1, whole=True)
        check_number("tol", self.tol, 0)
        for name in ("lam", "intercept"):
            check_number(name, getattr(self, name), 0)
        for name in ("tau", "gamma"):
            check_number(name, getattr(self, name), 0, above=True)
        check_backend(self.backend)

    def _first_pairs(self) -> list[Any]:
        """Random D and P, (C, m, d) each, on the backend."""
        rng = check_random_state(self.random_state)
        shape = self._pair_shape()
        rows = shape[0] * shape[1]
        return [send(gaussian_atoms(rows, shape[2], rng).reshape(shape), self.backend) for _ in range(2)]

    def _fitted(self, problem: dpl.Problem, state: dpl.State, dtype: Any) -> dict[str, Any]:
        D, P = dpl.pairs(problem, state)
        return {"atoms_": fetch(D).astype(dtype), "projections_": fetch(P).astype(dtype)}

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "projections_")

    def _saved(self) -> SavedModel:
        """What a model file must hold for this class."""
        arrays = {"atoms_": self._pair_shape(), "projections_": self._pair_shape(), "objective_": (None,)}
        return SavedModel(arrays, ("n_iter_", "n_features_in_", "_image_shape"))
