"""SADL: analysis atoms whose responses a linear map turns into a structure of classes, then a classifier."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from dcadl.arrays import Array, check_backend, fetch, send
from dcadl.estimators.base import CodingClassifier
from dcadl.estimators.files import SavedModel
from dcadl.estimators.fitting import fitted_array, fitting, gaussian_atoms
from dcadl.estimators.prediction import on_backend
from dcadl.estimators.validation import Training, check_number, check_option, training_data
from dcadl.ops.patches import normalise_images
from dcadl.solvers import sadl


class SADL(CodingClassifier):
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
        Stop when a pass changes the objective, or for "admm" the residual of the constraints, by less
        than this share of it. 0: exactly max_iter passes.
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

    @fitting
    def fit(self, X: Any, y: Any) -> SADL:
        """Learn atoms, structure map and classifier together; X as rows (n, r) or images (n, H, W[, c])."""
        self._check_parameters()
        data = training_data(self, X, y)
        descends = self.solver == "descent"
        step, state = (_descent if descends else _admm)(self, data)
        return self._fit_by_passes(
            data,
            step,
            state,
            keep=lambda model, now: model._keep(data, now),
            tol=self.tol,
        )

    def _keep(self, data: Training, state: sadl.State | sadl.AdmmState) -> None:
        self.classes_, self.image_shape_ = data.classes, data.image_shape
        self.atoms_ = fitted_array(state.Omega)
        self.structure_ = fitted_array(state.Q)
        self.coef_ = fitted_array(state.W)
        self.objective_ = np.asarray(state.trace)

    def _scores(self, rows: Array) -> Array:
        return self._mapped(rows, self.coef_ @ self.structure_)

    def _codes(self, rows: Array) -> np.ndarray:
        """Structured codes QΩx."""
        return fetch(self._mapped(rows, self.structure_))

    def _mapped(self, rows: Array, after: np.ndarray) -> Array:
        """X times Ωᵀ and `after`ᵀ, the two taken together first: one small product per sample."""
        x, both = on_backend(self.backend, rows, after @ self.atoms_)
        return normalise_images(x, self.normalize) @ both.T

    def _check_parameters(self) -> None:
        if self.n_atoms is not None:
            check_number("n_atoms", self.n_atoms, 1, integer=True)
        for name in ("block_size", "max_iter"):
            check_number(name, getattr(self, name), 1, integer=True)
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

    def _saved(self) -> SavedModel:
        C = len(self.classes_)
        s, r = self.block_size * C, self.n_atoms or "n_atoms"
        return SavedModel(
            {
                "atoms_": (r, self.n_features_in_),
                "structure_": (s, r),
                "coef_": (C, s),
                "objective_": ("passes",),
            },
            ("n_iter_", "n_features_in_", "image_shape_"),
        )


def _posed(model: SADL, data: Training, pose: Callable[..., sadl.Problem]) -> sadl.Problem:
    """The problem on the backend: samples, labels Y, and H, which gives every class entries of its own."""
    X = normalise_images(send(data.rows, model.backend), model.normalize)
    H = np.repeat(data.Y, model.block_size, axis=1)
    return pose(X, send(data.Y, model.backend), send(H, model.backend), model._weights())


def _descent(model: SADL, data: Training) -> tuple[Callable[[Any], Any], sadl.State]:
    problem = _posed(model, data, sadl.pose)
    n, d = data.rows.shape
    atoms = gaussian_atoms(model.n_atoms or n, d, model.random_state).astype(data.Y.dtype)
    return partial(sadl.step, problem), sadl.start(problem, send(atoms, model.backend))


def _admm(model: SADL, data: Training) -> tuple[Callable[[Any], Any], sadl.AdmmState]:
    problem = _posed(model, data, sadl.pose_admm)
    rng = check_random_state(model.random_state)
    (n, d), C = data.rows.shape, data.Y.shape[1]
    r, s = model.n_atoms or n, C * model.block_size
    shapes = ((r, d), (s, r), (C, s), (n, s))  # Ω, Q, W, Y1
    first = (send(rng.uniform(size=shape).astype(data.Y.dtype), model.backend) for shape in shapes)
    return partial(sadl.admm_step, problem), sadl.start_admm(problem, *first)
