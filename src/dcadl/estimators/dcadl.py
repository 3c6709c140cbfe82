"""DCADL: atoms and a linear classifier, learned together."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.callback import CallbackSupportMixin, with_callbacks
from sklearn.utils.validation import check_is_fitted

from dcadl.arrays import Array, check_backend, fetch, send
from dcadl.estimators.files import SavedModel, save
from dcadl.estimators.inputs import (
    check_number,
    check_option,
    class_shares,
    fit_rows,
    grid_of,
    one_hot,
    predict_rows,
    sample_weights,
)
from dcadl.estimators.passes import FitReport, warn_if_not_converged
from dcadl.estimators.patchwise import atom_shape, coded, coded_scores, decision, labels, leave_on, run_on
from dcadl.estimators.start import gaussian_atoms, pca_atoms, uniform_start
from dcadl.ops.normalise import normalised_patches
from dcadl.solvers import descent, paper
from dcadl.solvers.chunks import chunk_slices, walker
from dcadl.solvers.loop import Result, iterate


class DCADL(
    CallbackSupportMixin, ClassNamePrefixFeaturesOutMixin, ClassifierMixin, TransformerMixin, BaseEstimator
):
    """Discriminative convolutional analysis dictionary learning.

    Learns m atoms (filters) Ω and a linear classifier W by minimising

        ½‖ΩX̄ − Ū‖² + λ1‖U‖₁ + ½λ2‖Y − WŨ‖² + ½λ3‖W‖² + ½λ4‖Ω‖²   with ‖ω_i‖ ≤ 1

    over Ω, W and the codes U of all patches X̄ of the training images. A new image is classified by
    W·τ_λ1(ΩX̄): its patches' responses to the atoms, shrunk, go straight into the classifier.

    Parameters
    ----------
    n_atoms : int, default=50
        Number of atoms, m.
    patch_shape : int, tuple or None, default=None
        Height and width of an atom; for signals its length. None: the whole sample.
    stride : int, tuple or None, default=None
        Step between patches. None: half a patch.
    image_shape : tuple or None, default=None
        (H, W), (H, W, channels) or (length,), to fold samples that come as rows. Not needed for X of
        shape (n, H, W) or (n, H, W, channels).
    normalize : {"patch", "centred", "image", None}, default="patch"
        Every patch to unit length; the same after its mean is removed; every image to unit length;
        or nothing. It matters more than any other parameter.
    lam1, lam2, lam3, lam4 : float
        Sparsity of the codes; weight of the label error; ridge on the classifier; ridge on the atoms.
    solver : {"descent", "paper"}, default="descent"
        "descent" never raises the objective. "paper" is Algorithm 1 as its authors ran it: uniform
        start, step length 1, max_iter + 1 passes, atoms rescaled, prediction without shrinkage.
    init : {"gaussian", "pca"}, default="gaussian"
        First atoms of solver="descent": random directions, or the patches' principal components.
    max_iter : int, default=50
        Most passes over the data.
    tol : float, default=1e-4
        Stop when a pass lowers the objective by less than this share of it. 0: exactly max_iter passes.
    class_weight : dict, "balanced" or None, default=None
        Weight of each class; multiplies `sample_weight`.
    backend : {"numpy", "torch", "torch:cuda", "cupy"}, default="numpy"
        Where the arithmetic runs. Fitted attributes are NumPy arrays in any case.
    random_state : int, RandomState or None, default=None
        Seed of the first atoms.

    Attributes
    ----------
    atoms_ : ndarray (n_atoms, *patch_shape[, channels])
        Ω, each of length at most one.
    coef_ : ndarray (n_classes, n_patches * n_atoms)
        W; columns ordered patch first, then atom.
    intercept_ : ndarray (n_classes,)
        The weighted share of each class in the training labels, taken out of Y before the fit and
        added to the scores; zero for solver="paper".
    classes_ : ndarray (n_classes,)
        The labels, sorted.
    objective_ : ndarray (3 * n_iter_,)
        The objective after each block (codes, classifier, atoms) of each pass.
    n_iter_ : int
        Passes made.
    grid_ : Grid
        Where the patches lie.
    n_features_in_ : int
        Values per image.

    Notes
    -----
    A sample of weight k counts as k copies of it in every sum over images, the label term included.

    References
    ----------
    W. Tang, A. Panahi, H. Krim, L. Dai, "Analysis Dictionary Learning: An Efficient and
    Discriminative Solution", ICASSP 2019. `docs/errata.md` lists where we read it differently.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from dcadl import DCADL
    >>> digits = load_digits()
    >>> model = DCADL(n_atoms=16, patch_shape=4, stride=2, max_iter=5, tol=0, random_state=0)
    >>> model.fit(digits.images[:1000], digits.target[:1000]).atoms_.shape
    (16, 4, 4)
    """

    def __init__(
        self,
        n_atoms: int = 50,
        patch_shape: Any = None,
        stride: Any = None,
        image_shape: Any = None,
        normalize: str | None = "patch",
        lam1: float = 1e-3,
        lam2: float = 0.2,
        lam3: float = 0.1,
        lam4: float = 0.1,
        solver: str = "descent",
        init: str = "gaussian",
        max_iter: int = 50,
        tol: float = 1e-4,
        class_weight: Any = None,
        backend: str = "numpy",
        random_state: Any = None,
    ) -> None:
        self.n_atoms = n_atoms
        self.patch_shape = patch_shape
        self.stride = stride
        self.image_shape = image_shape
        self.normalize = normalize
        self.lam1 = lam1
        self.lam2 = lam2
        self.lam3 = lam3
        self.lam4 = lam4
        self.solver = solver
        self.init = init
        self.max_iter = max_iter
        self.tol = tol
        self.class_weight = class_weight
        self.backend = backend
        self.random_state = random_state

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> DCADL:
        """Learn atoms and classifier together.

        Parameters
        ----------
        X : array-like of shape (n, H, W), (n, H, W, channels), or rows (n, values)
        y : array-like of shape (n,)
        sample_weight : array-like of shape (n,) or None

        Returns
        -------
        self
        """
        self._check_parameters()
        X, y, shape = fit_rows(self, X, y)
        self.grid_ = grid_of(self, shape)
        self._image_shape = shape
        self.classes_, Y = one_hot(y, X.dtype)
        weight = sample_weights(sample_weight, self.class_weight, y, X.dtype)
        # The authors' classifier has no intercept.
        shares = class_shares(Y, weight)
        self.intercept_ = np.zeros_like(shares) if self.solver == "paper" else shares
        report = FitReport(self, self.max_iter + (self.solver == "paper"), X, y, sample_weight)

        learn = _learn_by_paper if self.solver == "paper" else _learn_by_descent
        sent_weight = None if weight is None else send(weight, self.backend)
        result, trace = learn(
            self, send(X, self.backend), send(Y - self.intercept_, self.backend), sent_weight, report
        )
        self.__dict__.update(self._fitted(result.state))
        self.objective_ = np.asarray(trace)
        self.n_iter_ = result.n_iter
        warn_if_not_converged("DCADL", result, self.tol)
        report.end()
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Codes of X, one row per image: shrunken responses to the atoms, patch first, then atom."""
        check_is_fitted(self)
        rows = predict_rows(self, X, self._image_shape)
        return run_on(
            self.backend,
            lambda x, Omega: coded(x, self.grid_, self.normalize, Omega, self._threshold()),
            rows,
            self._Omega(),
        )

    def decision_function(self, X: Any) -> np.ndarray:
        """Score of each class; for two classes the second's less the first's."""
        return decision(self._scores(X))

    def predict(self, X: Any) -> np.ndarray:
        """The class of the highest score."""
        return labels(self._scores(X), self.classes_)

    def save(self, path: Any) -> None:
        """Write the model to a safetensors file that `dcadl.load` reads; no pickle."""
        save(self, path)

    def _scores(self, X: Any) -> Array:
        check_is_fitted(self)
        rows = predict_rows(self, X, self._image_shape)

        def score(x: Array, Omega: Array, W: Array, b: Array) -> Array:
            return coded_scores(x, self.grid_, self.normalize, Omega, self._threshold(), W) + b

        return leave_on(self.backend, score, rows, self._Omega(), self.coef_, self.intercept_)

    def _check_parameters(self) -> None:
        check_number("n_atoms", self.n_atoms, 1, whole=True)
        check_number("max_iter", self.max_iter, 1, whole=True)
        check_number("tol", self.tol, 0)
        check_number("lam2", self.lam2, 0, above=True)
        for name in ("lam1", "lam3", "lam4"):
            check_number(name, getattr(self, name), 0)
        check_option("solver", self.solver, ("descent", "paper"))
        check_option("init", self.init, ("gaussian", "pca"))
        check_backend(self.backend)

    def _threshold(self) -> float:
        """The authors classify by plain responses; the codes of the descending solver are shrunk."""
        return 0.0 if self.solver == "paper" else float(self.lam1)

    def _Omega(self) -> np.ndarray:
        return self.atoms_.reshape(len(self.atoms_), -1)

    def _fitted(self, state: Any) -> dict[str, Any]:
        atoms = fetch(state.Omega).reshape(-1, *atom_shape(self.grid_, self._image_shape))
        return {"atoms_": atoms, "coef_": np.ascontiguousarray(fetch(state.W), dtype=atoms.dtype)}

    @property
    def _n_features_out(self) -> int:
        return self.coef_.shape[1]

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "coef_")

    def _saved(self) -> SavedModel:
        """What a model file must hold for this class."""
        C, m = len(self.classes_), self.n_atoms
        return SavedModel(
            {
                "atoms_": (m, *atom_shape(self.grid_, self._image_shape)),
                "coef_": (C, self.grid_.p * m),
                "intercept_": (C,),
                "objective_": (None,),
            },
            ("n_iter_", "n_features_in_", "grid_", "_image_shape"),
        )


def _learn_by_descent(
    model: DCADL, X: Array, Y: Array, weight: Array | None, report: FitReport
) -> tuple[Result, tuple[float, ...]]:
    grid, how = model.grid_, model.normalize
    slices = chunk_slices(X, grid)
    with walker(X, slices) as walk:
        patches, _ = walk(lambda part: (normalised_patches(X[part, :], grid, how), ()), slices)
        chunks = [
            descent.Chunk(partial(_same, P), Y[part, :], None if weight is None else weight[part])
            for P, part in zip(patches, slices)
        ]
        problem = descent.pose(chunks, walk, _lams(model))
        if model.init == "pca":
            atoms = pca_atoms(fetch(problem.G), model.n_atoms, model.random_state)
        else:
            atoms = gaussian_atoms(model.n_atoms, grid.d, model.random_state)
        state = descent.start(problem, _as(atoms, X, model), Y.shape[1])
        result = iterate(
            lambda state: descent.step(problem, state),
            state,
            descent.last_value,
            max_iter=model.max_iter,
            tol=model.tol,
            watch=_watch(model, report),
        )
        return result, descent.objective(problem, result.state)


def _learn_by_paper(
    model: DCADL, X: Array, Y: Array, weight: Array | None, report: FitReport
) -> tuple[Result, tuple[float, ...]]:
    if weight is not None:
        raise ValueError(
            "solver='paper' knows no weights; use solver='descent' with sample_weight or class_weight."
        )
    grid = model.grid_
    problem = paper.pose(normalised_patches(X, grid, model.normalize), Y, _lams(model))
    C = Y.shape[1]
    Omega, W = uniform_start(model.n_atoms, grid.d, C, grid.p * model.n_atoms, model.random_state)
    result = iterate(
        lambda state: paper.step(problem, state),
        paper.start(problem, _as(Omega, X, model), _as(W, X, model)),
        paper.last_value,
        max_iter=model.max_iter + 1,  # the authors' loop runs once more than T
        tol=-np.inf,  # and has no other end
        watch=_watch(model, report),
    )
    return result._replace(converged=True), paper.objective(problem, result.state)


def _same(P: Array) -> Array:
    return P


def _watch(model: DCADL, report: FitReport) -> Callable[[int, Any], bool]:
    return lambda t, state: report.after_pass(lambda: model._fitted(state))


def _lams(model: DCADL) -> tuple[float, float, float, float]:
    return float(model.lam1), float(model.lam2), float(model.lam3), float(model.lam4)


def _as(a: np.ndarray, X: Array, model: DCADL) -> Array:
    """A start array in X's precision, on the model's backend."""
    return send(a.astype(fetch(X[:1, :1]).dtype), model.backend)
