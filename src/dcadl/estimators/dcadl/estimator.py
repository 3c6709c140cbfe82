"""DCADL: atoms and a linear classifier, learned together."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np

from dcadl.arrays import Array, check_backend, fetch, send
from dcadl.estimators.base import PatchClassifier
from dcadl.estimators.dcadl.by_paper import fit_by_paper
from dcadl.estimators.dcadl.checkpoint import Checkpoint, identity_of
from dcadl.estimators.dcadl.dask_input import blocks_on_cluster, check_cluster_supports
from dcadl.estimators.dcadl.out_of_core import check_memory, stored_images
from dcadl.estimators.dcadl.stream import learn_batch
from dcadl.estimators.files import SavedModel, normalisation_value
from dcadl.estimators.fitting import (
    FitReport,
    Progress,
    fitted_array,
    fitting,
    gaussian_atoms,
    iterate,
    warn_of_better_passes,
)
from dcadl.estimators.validation import (
    TrainingSet,
    check_flag,
    check_number,
    check_option,
    check_ridge,
    images_in_memory,
    is_dask,
    on_disk,
    open_npy,
)
from dcadl.locks import locked
from dcadl.ops.codes import encode
from dcadl.ops.filters import leading_filters
from dcadl.ops.patches import atom_shape
from dcadl.ops.ridge import from_contrasts
from dcadl.solvers import code_ridge, descent
from dcadl.solvers.code_ridge import CodeRidge


class DCADL(PatchClassifier):
    """Discriminative convolutional analysis dictionary learning.

    Learns m atoms (filters) Ω and a linear classifier W by minimising

        ½‖ΩX̄ − Ū‖² + λ1‖U‖₁ + ½λ2‖Y − WŨ‖² + ½λ3‖W‖² + ½λ4‖Ω‖²   with ‖ω_i‖ ≤ 1

    over Ω, W and the codes U of all patches X̄ of the training images. A new image is classified by
    W·τ_λ1(ΩX̄): its patches' responses to the atoms, shrunk, go straight into the classifier.

    Parameters
    ----------
    n_atoms : int, default=50
        Number of atoms, m.
    patch_shape : int, tuple, "auto" or None, default="auto"
        Height and width of an atom; for signals its length. "auto": a quarter of an image's shorter side, 3
        to 32 pixels; of vectors and signals all. None: the whole sample.
    stride : int, tuple or None, default=None
        Step between patches. None: half a patch; for "auto" patches on large images more: 12 places an axis.
    image_shape : tuple or None, default=None
        (H, W), (H, W, channels) or (length,), to fold samples that come as rows. Not needed for X of
        shape (n, H, W) or (n, H, W, channels).
    normalize : {"auto", "patch", "centred", "image", None}, default="auto"
        Every patch to unit length; the same after its mean is removed; every image to unit length;
        or nothing. It matters more than any other parameter. "auto": the one of the first three with which
        random atoms have the least leave-one-out error, on about 500 images, before any is learned; in
        `partial_fit` on the first batch; for solver="paper" "patch".
    lam1, lam2, lam3, lam4 : float
        Sparsity of the codes; weight of the label error; ridge on the classifier; ridge on the atoms.
    solver : {"descent", "paper"}, default="descent"
        "descent" never raises the objective. "paper" is Algorithm 1 with what the authors' release adds to
        it: uniform start, step length 1, max_iter + 1 passes, atoms rescaled, prediction without shrinkage.
    w_ridge : {"paper", "release"}, default="paper"
        Ridge of line 10 for solver="paper": λ3/λ2 as printed, or λ3, with which the authors ran it.
    codes : {"signed", "split"}, default="signed"
        "split": max(r − λ1, 0) and max(−r − λ1, 0) of a response r, two codes an atom: for feature vectors.
    init : {"gaussian", "pca"}, default="gaussian"
        First atoms of solver="descent": random directions, or the patches' principal components.
    max_iter : int, default=50
        Most passes over the data.
    tol : float, default=1e-2
        Stop where the leave-one-out error of the classifier (every second pass, on 500 to 2000 images) has
        not fallen by this share in eight passes, or atoms begin to die, and keep the best pass: a lower
        objective is not a better classifier. 0: exactly max_iter passes, of which the last is kept.
    refit : bool, default=True
        After the last pass, fit the classifier once more, to the codes that predictions see. The codes of
        the passes have seen their labels, which those of a new image have not. It is solved exactly, or
        where neither images nor features are few enough, to a residual of 1e-6. Not for solver="paper",
        nor in `partial_fit`.
    refit_lam : "auto" or float, default="auto"
        Ridge of that classifier, λ in ½‖Y − WŨ‖² + ½λ‖W‖². "auto": the one of least leave-one-out error,
        computed exactly, where no more than 2048 images or 4096 features there are; of more images about a
        thousand are left out, each in turn.
    class_weight : dict, "balanced" or None, default=None
        Weight of each class; multiplies `sample_weight`.
    backend : {"numpy", "torch", "torch:cuda", "cupy"}, default="numpy"
        Where the arithmetic runs. Fitted attributes are NumPy arrays in any case.
    max_memory : str, int or None, default=None
        Most memory that a fit may take beyond its data, such as "2GB", for solver="descent" on NumPy.
        Patches are made when a chunk is visited; codes that do not fit lie in a temporary file.
    overflow : {"spill", "recompute"}, default="spill"
        What becomes of codes for which `max_memory` has no room: they lie in a temporary file, or are
        computed again at each visit, which takes no disk but more time. Codes that cannot be, of
        chunks in which an image kept old ones, are spilled in either case. The model is the same.
    forgetting : float, default=1.0
        What `partial_fit` multiplies its sums by before each batch; 1 forgets nothing.
    random_state : int, RandomState or None, default=None
        Seed of the first atoms.

    Attributes
    ----------
    atoms_ : ndarray (n_atoms, *patch_shape[, channels])
        Ω, each of length at most one.
    coef_ : ndarray (n_classes, n_patches * n_atoms)
        W, or after `refit` what took its place; columns ordered patch first, then atom.
    intercept_ : ndarray (n_classes,)
        The weighted share of each class in the training labels, taken out of Y before the fit and
        added to the scores; zero for solver="paper".
    refit_lam_ : float
        The ridge of the refitted classifier.
    temperature_ : float
        Of `predict_proba`; by what the refitted classifier says of training images left out.
    classes_ : ndarray (n_classes,)
        The labels, sorted.
    objective_ : ndarray (3 * n_iter_,)
        The objective after each block (codes, classifier, atoms) of each pass.
    n_iter_, best_iter_, n_dead_atoms_ : int
        Passes made; the one that was kept; atoms that no training image answers to.
    grid_, normalize_, n_features_in_ : Grid, str or None, int
        Where the patches lie; how they are normalised; values per image.

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
        n_atoms: int = 50,  # m of the paper
        patch_shape: Any = "auto",  # s × s there
        stride: Any = None,
        image_shape: Any = None,
        normalize: str | None = "auto",
        lam1: float = 1e-3,
        lam2: float = 0.2,
        lam3: float = 0.1,
        lam4: float = 0.1,
        solver: str = "descent",
        w_ridge: str = "paper",
        codes: str = "signed",
        init: str = "gaussian",
        max_iter: int = 50,
        tol: float = 1e-2,
        refit: bool = True,
        refit_lam: Any = "auto",
        class_weight: Any = None,
        backend: str = "numpy",
        max_memory: Any = None,
        overflow: str = "spill",
        forgetting: float = 1.0,
        random_state: Any = None,
    ) -> None:
        self.n_atoms = n_atoms
        self.patch_shape, self.stride, self.image_shape = patch_shape, stride, image_shape
        self.normalize = normalize
        self.lam1, self.lam2, self.lam3, self.lam4 = lam1, lam2, lam3, lam4
        self.solver, self.w_ridge, self.codes, self.init = solver, w_ridge, codes, init
        self.max_iter, self.tol = max_iter, tol
        self.refit, self.refit_lam = refit, refit_lam
        self.class_weight, self.backend = class_weight, backend
        self.max_memory, self.overflow = max_memory, overflow
        self.forgetting = forgetting
        self.random_state = random_state

    @fitting
    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, checkpoint: Any = None) -> DCADL:
        """Learn atoms and classifier together.

        Parameters
        ----------
        X : array-like of shape (n, H, W), (n, H, W, channels), or rows (n, values)
            A memory map, an HDF5 or Zarr array or the path of a `.npy` file is read a chunk at a time.
            A dask array is fitted on the workers of the active client, where its chunks stay.
        y : array-like of shape (n,)
        sample_weight : array-like of shape (n,) or None
            A sample of weight k counts as k copies of it in every sum over images.
        checkpoint : path or None
            A file that is written after passes, at most a tenth of the time. Where it is there, the fit
            goes on from it and ends with the model of an undisturbed one; delete it to start again.

        Returns
        -------
        self
        """
        self._check_parameters()
        X = open_npy(X)
        if is_dask(X):
            check_cluster_supports(self, checkpoint)
        if self.solver == "paper":
            return fit_by_paper(self, X, y, sample_weight, checkpoint)
        data = self._door(X)(self, X, y, sample_weight)
        saved = None if checkpoint is None else Checkpoint(checkpoint, identity_of(self, data))
        report = FitReport(self, self.max_iter, X, y, sample_weight)

        def watch(t: int, state: descent.State) -> bool:
            if saved is not None:
                saved.write_in_time(state)
            return report.after_pass(lambda model: model._keep(data, state)) or code_ridge.settled(state)

        alone = nullcontext() if checkpoint is None else locked(checkpoint)  # no other fit writes there
        with alone, data.open() as (chunks, walk):
            problem = descent.pose(chunks, walk, self._lams(), self.codes == "split")
            begin = None if saved is None else saved.restore(problem, self.backend)
            if begin is None:
                Omega = send(self._first_atoms(data, problem.G).astype(data.dtype), self.backend)
                begin = Progress(descent.start(problem, Omega))
            report.passes_done_before(begin.n_iter)
            most = begin.n_iter if code_ridge.settled(begin.state) else self.max_iter
            step, judge = partial(descent.step, problem), partial(code_ridge.judge_pass, problem, self.tol)
            state, n_iter, *_ = iterate(step, begin, max_iter=most, tol=0, judge=judge, watch=watch)
            last = code_ridge.best_of(state)
            del begin, state  # with their codes: those of the refit lie in memory next
            found = self._refitted(problem, last, data.largest) if self.refit else None
        self._keep(data, last, found)
        self.n_iter_, self.best_iter_ = n_iter, last.best.n_iter if last.best else n_iter
        if self.tol > 0 and n_iter == self.max_iter and not code_ridge.settled(last):
            warn_of_better_passes(self.max_iter)
        report.end()
        return self

    @fitting
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> DCADL:
        """Learn from one batch of a stream; only sums over its codes are kept.

        After each call atoms and classifier minimise exactly an upper bound of the objective of all batches
        so far: the objective at the codes that each batch had when it came, older batches weighed by
        `forgetting` for every batch since. `objective_` holds that bound after each call, `n_iter_` the
        number of calls. After `fit` or `dcadl.load` a new stream begins from the atoms as they are.

        Parameters
        ----------
        X, y, sample_weight : as in `fit`, in memory
        classes : array-like of shape (n_classes,)
            All labels there will be; needed on the first call.

        Returns
        -------
        self
        """
        self._check_parameters()
        learn_batch(self, X, y, classes, sample_weight)
        return self

    def _door(self, X: Any) -> Callable[[DCADL, Any, Any, Any], TrainingSet]:
        """Where data come in and are checked: dask, disk or memory."""
        if is_dask(X):
            return blocks_on_cluster
        return stored_images if on_disk(X) or self.max_memory is not None else images_in_memory

    def _first_atoms(self, data: TrainingSet, G: Array) -> np.ndarray:
        d = G.shape[0]
        if self.init == "gaussian":
            drawn = gaussian_atoms(self.n_atoms, data.grid.d, self.random_state)
            return drawn if data.basis is None else drawn @ data.basis
        leading = leading_filters(fetch(G), min(self.n_atoms, d))
        more = gaussian_atoms(max(self.n_atoms - d, 0), d, self.random_state)
        return np.concatenate([leading, more])

    def _refitted(self, problem: descent.Problem, last: descent.State, largest: int) -> CodeRidge:
        """The classifier on the codes that predictions see: those of the passes know their labels."""
        code = partial(encode, last.Omega, problem.lam1, problem.split)
        lam = None if isinstance(self.refit_lam, str) else float(self.refit_lam)
        return code_ridge.code_ridge(problem.chunks, problem.walk, code, last.W.shape[1], lam, largest)

    def _keep(self, data: TrainingSet, state: descent.State, found: CodeRidge | None = None) -> None:
        """Assign what a state of the descending solver is to a model, and the refitted classifier if any."""
        self.__dict__.pop("_stream", None)  # sums of an earlier stream
        self.classes_, self.intercept_ = data.classes, data.intercept
        self.image_shape_, self.grid_, self.normalize_ = data.image_shape, data.grid, data.normalize
        Omega = fetch(state.Omega) if data.basis is None else fetch(state.Omega) @ data.basis.T
        self.atoms_ = fitted_array(Omega).reshape(-1, *atom_shape(data.grid, data.image_shape))
        W = state.W if found is None else found.W
        self.coef_ = fitted_array(from_contrasts(fetch(W).T).T, data.dtype)
        self.objective_ = np.asarray(state.trace)
        if found is not None:
            self.refit_lam_ = found.lam
            self.temperature_ = code_ridge.temperature_left_out(found, data.intercept)

    def _lams(self) -> tuple[float, float, float, float]:
        return float(self.lam1), float(self.lam2), float(self.lam3), float(self.lam4)

    def _check_parameters(self) -> None:
        check_number("n_atoms", self.n_atoms, 1, integer=True)
        check_number("max_iter", self.max_iter, 1, integer=True)
        check_number("tol", self.tol, 0)
        check_number("lam2", self.lam2, 0, above=True)
        for name in ("lam1", "lam3", "lam4"):
            check_number(name, getattr(self, name), 0)
        check_number("forgetting", self.forgetting, 0)
        if self.forgetting > 1:
            raise ValueError(f"forgetting must be at most 1; got {self.forgetting!r}.")
        check_flag("refit", self.refit)
        check_ridge("refit_lam", self.refit_lam)
        check_option("solver", self.solver, ("descent", "paper"))
        check_option("w_ridge", self.w_ridge, ("paper", "release"))
        check_option("codes", self.codes, ("signed",) if self.solver == "paper" else ("signed", "split"))
        check_option("init", self.init, ("gaussian", "pca"))
        check_option("overflow", self.overflow, ("spill", "recompute"))
        check_backend(self.backend)
        if self.max_memory is not None:
            check_memory(self)

    def _threshold(self) -> float:
        """The authors classify by plain responses; the codes of the descending solver are shrunk."""
        return 0.0 if self.solver == "paper" else float(self.lam1)

    def _codes_per_patch(self) -> int:
        return 2 * self.n_atoms if self.codes == "split" else self.n_atoms

    @property
    def n_dead_atoms_(self) -> int:
        """Atoms that the classifier does not read, since no training image answers to them."""
        used = (self.coef_ != 0).any(axis=0).reshape(-1, len(self.atoms_)).any(axis=0)
        return int((~used).sum())

    def _saved(self) -> SavedModel:
        """What a model file must hold for this class."""
        C, chosen = len(self.classes_), normalisation_value(self.normalize)
        atoms, codes = atom_shape(self.grid_, self.image_shape_), self.grid_.p * self._codes_per_patch()
        arrays = {"atoms_": (self.n_atoms, *atoms), "coef_": (C, codes), "intercept_": (C,)}
        values = ("n_iter_", "n_features_in_", "grid_", "image_shape_", *chosen)
        return SavedModel({**arrays, "objective_": ("passes",)}, values, ("refit_lam_", "best_iter_"))
