"""SADL: analysis atoms whose responses a linear map turns into a structure of classes, then a classifier."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.callback import CallbackSupportMixin, with_callbacks
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from dcadl.arrays import Array, check_backend, fetch, send
from dcadl.estimators.files import SavedModel, save
from dcadl.estimators.inputs import check_number, check_option, fit_rows, one_hot, predict_rows
from dcadl.estimators.passes import FitReport, warn_if_not_converged
from dcadl.estimators.patchwise import decision, labels, run_on
from dcadl.estimators.start import gaussian_atoms
from dcadl.ops.normalise import normalise_images
from dcadl.solvers import sadl
from dcadl.solvers.loop import Result, iterate


class SADL(
    CallbackSupportMixin, ClassNamePrefixFeaturesOutMixin, ClassifierMixin, TransformerMixin, BaseEstimator
):
    """Structured analysis dictionary learning.

    Learns atoms Ω, a structure map Q and a classifier W by minimising over them and codes U

        ½‖U − ΩX‖² + λ1‖U‖₁ + ½γ1‖H − QU‖² + ½γ2‖Y − WQU‖² + ½δ1‖Q‖² + ½δ2‖W‖² + ½λ4‖Ω‖²

    with ‖ω_i‖ ≤ 1. H gives every class entries of its own. A sample x is classified by WQΩx, which is
    linear in x: ridge regression from X to Y is its natural control.

    Parameters
    ----------
    n_atoms : int or None, default=None
        Number of atoms, r. None: as many as training samples, as in the published comparisons.
    block_size : int, default=4
        Entries of H that each class has of its own, so that Q has block_size · n_classes rows.
    lam1, lam4 : float, default=0.001, 0.001
        Sparsity of the codes; ridge on the atoms.
    gamma1, gamma2 : float, default=1, 1
        Weight of the structure and of the labels. solver="admm" multiplies its multipliers by them.
    delta1, delta2 : float, default=0.1, 0.1
        Ridge on Q and on W.
    solver : {"descent", "admm"}, default="descent"
        "descent" never raises the objective. "admm" is the linearised ADMM that the authors released,
        with free atoms: its constraints QU = H and WQU = Y are met too slowly for its own test to end
        it, and where it runs for long it may diverge.
    normalize : {"image", None}, default="image"
        Every sample to unit length, or nothing.
    max_iter : int, default=30
        Most passes. The authors ran "admm" for 283 on Scene15.
    tol : float, default=1e-3
        Stop when a pass lowers the objective by less than this share of it; for "admm", when the
        residuals of the constraints are less than this share of ‖Y‖. 0: exactly max_iter passes.
    backend : {"numpy", "torch", "torch:cuda", "cupy"}, default="numpy"
        Where the arithmetic runs. Fitted attributes are NumPy arrays in any case.
    random_state : int, RandomState or None, default=None
        Seed of the start.

    Attributes
    ----------
    atoms_ : ndarray (n_atoms, n_features_in_)
        Ω.
    structure_ : ndarray (block_size * n_classes, n_atoms)
        Q.
    coef_ : ndarray (n_classes, block_size * n_classes)
        W.
    classes_ : ndarray (n_classes,)
    objective_ : ndarray (4 * n_iter_,), or (n_iter_,) for "admm"
        The objective after each block (codes, Q, W, atoms) of each pass, never rising; for "admm", which
        has no objective to lower, the residual of its constraints after each pass.
    n_iter_, n_features_in_ : int

    Notes
    -----
    Our reading: the journal paper was not at hand, only the authors' description and release, and the
    file with their structure targets is missing from it. H is assumed to be block-diagonal: `block_size`
    ones for each class, at places of its own.

    ======= ================================= ================
    paper   here                              shape
    ======= ================================= ================
    X       samples, one per row              (n, d)
    U       codes                             (n, n_atoms)
    Ω, Q, W `atoms_`, `structure_`, `coef_`
    H, Y    structure targets, labels         (n, s), (n, C)
    ρ1, ρ2  `gamma1`, `gamma2`
    ======= ================================= ================

    References
    ----------
    W. Tang, A. Panahi, H. Krim, L. Dai, "Structured Analysis Dictionary Learning for Image
    Classification", ICASSP 2018; "Analysis Dictionary Learning Based Classification: Structure for
    Robustness", IEEE Transactions on Image Processing 28(12), 2019.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from dcadl import SADL
    >>> X, y = load_digits(return_X_y=True)
    >>> SADL(n_atoms=64, max_iter=5, tol=0, random_state=0).fit(X[:500], y[:500]).structure_.shape
    (40, 64)
    """

    def __init__(
        self,
        n_atoms: int | None = None,
        block_size: int = 4,
        lam1: float = 0.001,
        lam4: float = 0.001,
        gamma1: float = 1.0,
        gamma2: float = 1.0,
        delta1: float = 0.1,
        delta2: float = 0.1,
        solver: str = "descent",
        normalize: str | None = "image",
        max_iter: int = 30,
        tol: float = 1e-3,
        backend: str = "numpy",
        random_state: Any = None,
    ) -> None:
        self.n_atoms = n_atoms
        self.block_size = block_size
        self.lam1 = lam1
        self.lam4 = lam4
        self.gamma1 = gamma1
        self.gamma2 = gamma2
        self.delta1 = delta1
        self.delta2 = delta2
        self.solver = solver
        self.normalize = normalize
        self.max_iter = max_iter
        self.tol = tol
        self.backend = backend
        self.random_state = random_state

    @with_callbacks
    def fit(self, X: Any, y: Any) -> SADL:
        """Learn atoms, structure map and classifier together.

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
        self.classes_, Y = one_hot(y, X.dtype)
        H = np.repeat(Y, self.block_size, axis=1)
        report = FitReport(self, self.max_iter, X, y, None)

        learn = _learn_by_admm if self.solver == "admm" else _learn_by_descent
        rows = normalise_images(send(X, self.backend), self.normalize)
        result = learn(self, rows, Y, H, report)
        self.__dict__.update(_fitted(result.state))
        self.objective_ = np.asarray(result.state.seen)
        self.n_iter_ = result.n_iter
        warn_if_not_converged("SADL", result, self.tol)
        report.end()
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Structured codes QΩx of X, one row per sample."""
        check_is_fitted(self)
        return self._mapped(X, self.structure_)

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
        return self._mapped(X, self.coef_ @ self.structure_)

    def _mapped(self, X: Any, after: np.ndarray) -> np.ndarray:
        """X times Ωᵀ and `after`ᵀ, the two taken together first: one small product per sample."""

        def mapped(x: Array, both: Array) -> Array:
            return normalise_images(x, self.normalize) @ both.T

        return run_on(
            self.backend, mapped, predict_rows(self, X, self._image_shape), np.dot(after, self.atoms_)
        )

    def _check_parameters(self) -> None:
        if self.n_atoms is not None:
            check_number("n_atoms", self.n_atoms, 1, whole=True)
        for name in ("block_size", "max_iter"):
            check_number(name, getattr(self, name), 1, whole=True)
        for name in ("gamma1", "gamma2", "delta1", "delta2", "lam4"):
            check_number(name, getattr(self, name), 0, above=True)
        for name in ("lam1", "tol"):
            check_number(name, getattr(self, name), 0)
        check_option("solver", self.solver, ("descent", "admm"))
        check_option("normalize", self.normalize, ("image", None))
        check_backend(self.backend)

    def _weights(self) -> sadl.Weights:
        return sadl.Weights(*(float(getattr(self, name)) for name in sadl.Weights._fields))

    @property
    def _n_features_out(self) -> int:
        return len(self.structure_)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "coef_")

    def _saved(self) -> SavedModel:
        """What a model file must hold for this class."""
        C = len(self.classes_)
        s = self.block_size * C
        return SavedModel(
            {
                "atoms_": (self.n_atoms, self.n_features_in_),
                "structure_": (s, self.n_atoms),
                "coef_": (C, s),
                "objective_": (None,),
            },
            ("n_iter_", "n_features_in_", "_image_shape"),
        )


def _learn_by_descent(model: SADL, X: Array, Y: np.ndarray, H: np.ndarray, report: FitReport) -> Result:
    problem = sadl.pose(X, send(Y, model.backend), send(H, model.backend), model._weights())
    atoms = gaussian_atoms(model.n_atoms or X.shape[0], X.shape[1], model.random_state).astype(Y.dtype)
    return iterate(
        lambda state: sadl.step(problem, state),
        sadl.start(problem, send(atoms, model.backend)),
        sadl.last_value,
        max_iter=model.max_iter,
        tol=model.tol or -np.inf,
        watch=lambda t, state: report.after_pass(lambda: _fitted(state)),
    )


def _learn_by_admm(model: SADL, X: Array, Y: np.ndarray, H: np.ndarray, report: FitReport) -> Result:
    problem = sadl.pose_admm(X, send(Y, model.backend), send(H, model.backend), model._weights())
    rng = check_random_state(model.random_state)
    r = model.n_atoms or X.shape[0]
    shapes = ((r, X.shape[1]), (H.shape[1], r), (Y.shape[1], H.shape[1]), H.shape)  # Ω, Q, W, Y1
    first = (send(rng.uniform(size=shape).astype(Y.dtype), model.backend) for shape in shapes)
    result = iterate(
        lambda state: sadl.admm_step(problem, state),
        sadl.start_admm(problem, *first),
        sadl.last_value,
        max_iter=model.max_iter,
        tol=-np.inf,  # the residual may rise: its size judges, not its decrease
        watch=lambda t, state: report.after_pass(lambda: _fitted(state)) or state.seen[-1] < model.tol,
    )
    met = result.n_iter < model.max_iter or model.tol == 0 or result.state.seen[-1] < model.tol
    return result._replace(converged=met)


def _fitted(state: Any) -> dict[str, np.ndarray]:
    return {
        "atoms_": np.ascontiguousarray(fetch(state.Omega)),
        "structure_": np.ascontiguousarray(fetch(state.Q)),
        "coef_": np.ascontiguousarray(fetch(state.W)),
    }
