"""DCADL: atoms and a linear classifier, learned together."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from dcadl.arrays import check_backend, fetch
from dcadl.estimators.base import PatchClassifier, fitted_array, fitting
from dcadl.estimators.callbacks import FitReport, warn_if_not_converged
from dcadl.estimators.checkpoint import Checkpoint, identity_of
from dcadl.estimators.cluster import parts_on_cluster, scatter
from dcadl.estimators.files import SavedModel
from dcadl.estimators.lazy import fit_source, numbered_labels
from dcadl.estimators.learn import (
    Learned,
    Watch,
    learn_by_descent,
    learn_by_paper,
    parts_in_memory,
    parts_of_source,
)
from dcadl.estimators.prediction import atom_shape, is_dask
from dcadl.estimators.stream import learn_batch
from dcadl.estimators.validation import check_number, check_option, fit_rows, grid_of, one_hot, sample_weights
from dcadl.ops.contrasts import from_contrasts
from dcadl.solvers.budget import memory_bytes
from dcadl.solvers.sources import StoredImages, on_disk, open_npy


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
    refit : bool, default=True
        After the last pass, fit the classifier once more, to the codes that predictions see. The codes of
        the passes have seen their labels, which those of a new image have not. Not for solver="paper",
        nor in `partial_fit`.
    class_weight : dict, "balanced" or None, default=None
        Weight of each class; multiplies `sample_weight`.
    backend : {"numpy", "torch", "torch:cuda", "cupy"}, default="numpy"
        Where the arithmetic runs. Fitted attributes are NumPy arrays in any case.
    max_memory : str, int or None, default=None
        Most memory that a fit may take beyond its data, such as "2GB", for solver="descent" on NumPy.
        Patches are made when a chunk is visited; codes that do not fit lie in a temporary file.
    overflow : {"spill", "recompute"}, default="spill"
        What becomes of codes for which `max_memory` has no room: they lie in a temporary file, or are
        made again at each visit, which takes no disk but more time. Codes that cannot be made again, of
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
        refit: bool = True,
        class_weight: Any = None,
        backend: str = "numpy",
        max_memory: Any = None,
        overflow: str = "spill",
        forgetting: float = 1.0,
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
        self.refit = refit
        self.class_weight = class_weight
        self.backend = backend
        self.max_memory = max_memory
        self.overflow = overflow
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
        checkpoint : path or None
            A file that is written after passes, at most a tenth of the time. Where it is there, the fit
            goes on from it and ends with the model of an undisturbed one; delete it to begin anew.

        Returns
        -------
        self
        """
        self._check_parameters()
        self.__dict__.pop("_stream", None)
        if is_dask(X):
            learn = self._cluster_learner(X, y, sample_weight, checkpoint)
        else:
            learn = self._learner(open_npy(X), y, sample_weight, checkpoint)
        report = FitReport(self, self.max_iter + (self.solver == "paper"), X, y, sample_weight)
        result, trace = learn(lambda t, state: report.after_pass(lambda model: model._keep(state)))
        self._keep(result.state)
        self.objective_ = np.asarray(trace)
        self.n_iter_ = result.n_iter
        warn_if_not_converged("DCADL", result, self.tol)
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
        self.__dict__.update(learn_batch(self, X, y, classes, sample_weight))
        return self

    def _learner(self, X: Any, y: Any, sample_weight: Any, checkpoint: Any) -> Callable[[Watch], Learned]:
        """Checks the data, names the classes; what then learns, given who watches."""
        lazy = self.solver != "paper" and (on_disk(X) or self.max_memory is not None)
        rows, y, shape = (fit_source if lazy else fit_rows)(self, X, y)
        self.grid_ = grid_of(self, shape)
        self.image_shape_ = shape
        weight = sample_weights(sample_weight, self.class_weight, y, rows.dtype)
        saved = None
        if checkpoint is not None:
            saved = Checkpoint(checkpoint, identity_of(self, y, weight, rows.dtype))
        if self.solver == "paper":  # the authors' classifier has no intercept
            assert not isinstance(rows, StoredImages)
            self.classes_, Y = one_hot(y, rows.dtype)
            self.intercept_ = np.zeros(len(self.classes_), rows.dtype)
            return partial(learn_by_paper, self, rows, Y, weight, saved)
        self.classes_, numbers = numbered_labels(y, weight, rows.dtype)
        self.intercept_ = numbers.intercept
        if isinstance(rows, StoredImages):
            return partial(learn_by_descent, self, parts_of_source(self, rows, numbers), saved)
        parts = parts_in_memory(self, rows, numbers.rows(slice(None)), weight)
        return partial(learn_by_descent, self, parts, saved)

    def _cluster_learner(
        self, X: Any, y: Any, sample_weight: Any, checkpoint: Any
    ) -> Callable[[Watch], Learned]:
        """The same for dask arrays, whose blocks stay on their workers."""
        if (self.solver, self.backend, self.max_memory, checkpoint) != ("descent", "numpy", None, None):
            raise ValueError(
                "Dask arrays are fitted with solver='descent' and backend='numpy', without checkpoint and "
                "without max_memory: workers have their own limit."
            )
        data = scatter(self, X, y, sample_weight)
        self.classes_, self.intercept_ = data.classes, data.intercept
        return partial(learn_by_descent, self, parts_on_cluster(self, data), None)

    def _check_parameters(self) -> None:
        check_number("n_atoms", self.n_atoms, 1, whole=True)
        check_number("max_iter", self.max_iter, 1, whole=True)
        check_number("tol", self.tol, 0)
        check_number("lam2", self.lam2, 0, above=True)
        for name in ("lam1", "lam3", "lam4"):
            check_number(name, getattr(self, name), 0)
        check_number("forgetting", self.forgetting, 0)
        if self.forgetting > 1:
            raise ValueError(f"forgetting must be at most 1; got {self.forgetting!r}.")
        check_option("solver", self.solver, ("descent", "paper"))
        check_option("init", self.init, ("gaussian", "pca"))
        check_option("overflow", self.overflow, ("spill", "recompute"))
        check_backend(self.backend)
        if memory_bytes(self.max_memory) and (self.backend != "numpy" or self.solver == "paper"):
            raise ValueError(
                f"max_memory is kept by solver='descent' on backend='numpy'; got solver={self.solver!r}, "
                f"backend={self.backend!r}. Leave it None there."
            )

    def _threshold(self) -> float:
        """The authors classify by plain responses; the codes of the descending solver are shrunk."""
        return 0.0 if self.solver == "paper" else float(self.lam1)

    def _atom_shape(self) -> tuple[int, ...]:
        return atom_shape(self.grid_, self.image_shape_)

    def _keep(self, state: Any) -> None:
        atoms = fitted_array(state.Omega)
        W = fetch(state.W).T
        W = W if self.solver == "paper" else from_contrasts(W)
        self.atoms_ = atoms.reshape(-1, *self._atom_shape())
        self.coef_ = fitted_array(W.T, atoms.dtype)

    def _saved(self) -> SavedModel:
        """What a model file must hold for this class."""
        C, m = len(self.classes_), self.n_atoms
        return SavedModel(
            {
                "atoms_": (m, *self._atom_shape()),
                "coef_": (C, self.grid_.p * m),
                "intercept_": (C,),
                "objective_": (None,),
            },
            ("n_iter_", "n_features_in_", "grid_", "image_shape_"),
        )
