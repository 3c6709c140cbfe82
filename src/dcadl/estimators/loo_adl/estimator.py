"""LOOADL: a picture classifier without settings."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np

from dcadl.arrays import Array, check_backend, fetch
from dcadl.estimators.base import CodingClassifier
from dcadl.estimators.files import SavedModel
from dcadl.estimators.fitting import FitReport, fitted_array, fitting
from dcadl.estimators.loo_adl import learn as learning
from dcadl.estimators.loo_adl.choice import chosen_structure
from dcadl.estimators.loo_adl.images import Images, reduce_images, reduced_shape, training_images
from dcadl.estimators.loo_adl.journal import Journal, identity_of
from dcadl.estimators.loo_adl.structures import (
    Candidates,
    candidates,
    check_levels,
    check_structure,
)
from dcadl.estimators.prediction import on_backend
from dcadl.estimators.validation import check_number, check_option, is_dask
from dcadl.locks import locked
from dcadl.ops.maps import WindowTransform
from dcadl.ops.patches import Grid, atom_shape, patch_grid
from dcadl.ops.pool import Pyramid
from dcadl.solvers import loo_adl
from dcadl.solvers.budget import memory_bytes
from dcadl.solvers.loo_adl import Atoms, Model
from dcadl.solvers.loo_ridge import RidgeFit
from dcadl.solvers.structure import NORMALISATIONS, Candidate
from dcadl.solvers.walk import map_rows


class LOOADL(CodingClassifier):
    """LOO-ADL: an analysis dictionary learned by its own exact leave-one-out error.

    Every window of an image, whitened, responds to m atoms (small filters); positive and negative responses
    beyond a threshold are averaged over the cells of a pyramid of grids; ridge regression reads scores off
    them, and discriminants of the scores the class. Window size, normalisation and pyramid are chosen by the
    regression's leave-one-out error before anything is learned. Then the same error is lowered by learning,
    and atoms are kept only if they do better on images they were not learned from. Nothing need be given.

    Parameters
    ----------
    n_atoms : int or "auto", default="auto"
        Number of atoms, m; "auto" is 64, 32 for 1000 to 2000 images that are nearly all named rightly
        before any atom is learned, and up to 128 from 2000 on, as far as `max_memory` goes.
    patch_shape : int, tuple or "auto", default="auto"
        Height and width of an atom; for signals its length. "auto" compares three sizes, and reduces large
        images first, to about 8000 pixels.
    stride : int, tuple or "auto", default="auto"
        Step between windows; "auto" is 1: dense windows are worth points of accuracy.
    normalize : {"auto", "whitened", "whitened-once", "centred", None}, default="auto"
        "whitened": mean removed, unit length, whitened, unit length; "whitened-once" without the last,
        where light is constant; "centred": mean removed, unit length; None: as they are, brightness kept.
    pool : tuple of int or "auto", default="auto"
        Sides of the grids that responses are averaged over, such as (1, 2, 4).
    learn : bool, default=True
        False keeps the first atoms, directions that many windows share: the control of learning.
    image_shape : tuple or None, default=None
        (H, W), (H, W, channels) or (length,), to fold samples that come as rows. Rows without it are
        plain vectors: one patch of all values.
    max_iter : int, default=8
        Most passes of learning. More lower the error further, but hardly help on new images.
    tol : float, default=1e-3
        Stop when a pass lowers the error by less than this share of it. 0: exactly max_iter passes.
    class_weight : dict, "balanced" or None, default=None
        Weight of each class; multiplies `sample_weight`.
    backend : {"numpy", "torch", "torch:cuda", "cupy"}, default="numpy"
        Where the arithmetic runs. Fitted attributes are NumPy arrays in any case.
    max_memory : str, int or None, default=None
        About the most memory that a fit takes beyond its data, such as "1GB"; what work on some 2000 images
        needs (400 MB where they have 80 × 80 pixels) is taken whatever the limit.
    random_state : int, RandomState or None, default=None
        Seed of the first atoms.

    Attributes
    ----------
    atoms_ : ndarray (n_atoms, *patch_shape[, channels])
        The filters as they act on pixels, whitening composed in.
    thresholds_ : ndarray (n_atoms,)
    coef_ : ndarray (n_classes, 2 * n_atoms * n_cells)
        The ridge regression and the discriminants of its scores in one; columns by sign, atom, cell.
    intercept_ : ndarray (n_classes,)
    classes_ : ndarray (n_classes,)
    candidates_ : list of dict
        The structures that were compared, best first: `patch_shape`, `normalize`, `pool`, and the
        leave-one-out log `loss` and `accuracy` of each before anything was learned, on `n_images` images.
    n_atoms_, normalize_, pool_ : number of atoms, the chosen normalisation and pyramid
    learned_ : bool
        Whether learned atoms were kept.
    objective_ : ndarray (n_iter_ + 1,)
        The leave-one-out error that atoms were learned by, at the start and after each pass; never rising.
        Empty where nothing was learned or kept.
    expected_accuracy_ : float
        Share of training images whose class is right when they are left out of the classifier, under atoms
        that have not seen them: each half under atoms learned from the other half, or, beyond 4000 images,
        those that atoms were not learned from.
    n_judged_ : int
        Number of images that `expected_accuracy_` is taken over.
    confusion_ : ndarray (n_classes, n_classes)
        What these images were named: their weight, true class in rows, named class in columns.
    lam_ : float
        The ridge, chosen by exact leave-one-out.
    n_iter_ : int
        Passes of learning; 1 where nothing was learned.
    n_features_in_ : int
    patch_shape_, stride_, grid_
        Size of windows, step between them, and where they lie on the (reduced) image.
    reduction_ : int
        Factor by which sides of images are reduced first.

    Notes
    -----
    A sample of weight k counts as k copies of it; copies of an image count as one image of that weight, so
    that leaving it out leaves out all of them. Weights matter by their ratios alone.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from dcadl import LOOADL
    >>> digits = load_digits()
    >>> model = LOOADL(random_state=0).fit(digits.images[::6], digits.target[::6])
    >>> model.score(digits.images[1::6], digits.target[1::6]) > 0.95
    True
    """

    atoms_: np.ndarray
    thresholds_: np.ndarray
    coef_: np.ndarray
    intercept_: np.ndarray
    patch_shape_: tuple[int, int]
    stride_: tuple[int, int]
    n_atoms_: int
    normalize_: str | None
    pool_: tuple[int, ...]
    reduction_: int
    _usual: float | None
    _compared: tuple[tuple[Any, ...], ...]

    def __init__(
        self,
        n_atoms: Any = "auto",
        patch_shape: Any = "auto",
        stride: Any = "auto",
        normalize: str | None = "auto",
        pool: Any = "auto",
        learn: bool = True,
        image_shape: Any = None,
        max_iter: int = 8,
        tol: float = 1e-3,
        class_weight: Any = None,
        backend: str = "numpy",
        max_memory: Any = None,
        random_state: Any = None,
    ) -> None:
        self.n_atoms = n_atoms
        self.patch_shape = patch_shape
        self.stride = stride
        self.normalize = normalize
        self.pool = pool
        self.learn = learn
        self.image_shape = image_shape
        self.max_iter = max_iter
        self.tol = tol
        self.class_weight = class_weight
        self.backend = backend
        self.max_memory = max_memory
        self.random_state = random_state

    @fitting
    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, checkpoint: Any = None) -> LOOADL:
        """Choose a structure, learn atoms, and fit the classifier.

        Parameters
        ----------
        X : array-like of shape (n, H, W), (n, H, W, channels), or rows (n, values)
            A memory map, an HDF5 or Zarr array or the path of a `.npy` file is read a chunk at a time.
            Of a dask array, images that atoms are learned from come home; sums over all others are made on
            the workers of the active client.
        y : array-like of shape (n,)
        sample_weight : array-like of shape (n,) or None
        checkpoint : path or None
            A file that is written after the choice and after passes. Where it is there, the fit goes on
            from it and ends with the model of an undisturbed one; delete it to begin anew.

        Returns
        -------
        self
        """
        self._check_parameters()
        if is_dask(X) and checkpoint is not None:
            raise ValueError("Dask arrays are fitted without checkpoint.")
        with nullcontext() if checkpoint is None else locked(checkpoint):  # no other fit writes there
            images, classes = self._images(X, y, sample_weight)
            identity = identity_of(self.get_params(deep=False), images, classes)
            return self._fit(images, classes, (X, y, sample_weight), Journal(checkpoint, identity))

    def _fit(self, images: Images, classes: np.ndarray, given: tuple[Any, ...], journal: Journal) -> LOOADL:
        C, wanted, limit = len(classes), self._candidates(images), memory_bytes(self.max_memory)
        m = None if self._open("n_atoms") else int(self.n_atoms)
        found, model, first = chosen_structure(
            images, C, self.backend, wanted, m, self.random_state, journal, limit
        )

        def keep(target: LOOADL, learned: learning.Learned) -> None:
            ridge, named = learning.last_ridge(images, C, self.backend, model, learned, limit)
            target.classes_, target.image_shape_ = classes, images.shape
            target.reduction_, target._compared = images.factor, tuple(map(tuple, found))
            target._keep(model, learned, ridge, named, images.unit)

        learned, report = learning.Learned(first), FitReport(self, self.max_iter, *given)
        if self.learn and learning.worth_learning(images, model):

            def watch(atoms: Atoms) -> bool:
                return report.after_pass(lambda target: keep(target, learning.Learned(atoms)))

            passes = learning.Passes(self.max_iter, self.tol, watch, journal, limit)
            learned = learning.learn_atoms(images, C, self.backend, model, first, passes)
        keep(self, learned)
        report.end()
        return self

    @property
    def grid_(self) -> Grid:
        """Where windows lie on the (reduced) image."""
        shape = reduced_shape(self.image_shape_, self.reduction_)
        axes = len(shape[:2])  # a signal has one
        return patch_grid(shape, self.patch_shape_[-axes:], self.stride_[-axes:])

    @property
    def candidates_(self) -> list[dict[str, Any]]:
        """The structures that were compared, best first."""
        return [dict(zip(Candidate._fields, one)) for one in self._compared]

    def _images(self, X: Any, y: Any, sample_weight: Any) -> tuple[Images, np.ndarray]:
        free = self._open("patch_shape") and self._open("stride")
        return training_images(self, X, y, sample_weight, None if free else 1)

    def _open(self, name: str) -> bool:
        """Whether a parameter is left to the fit."""
        return isinstance(getattr(self, name), str) and getattr(self, name) == "auto"

    def _candidates(self, images: Images) -> Candidates:
        vector = self.image_shape is None and len(images.shape) == 1
        return candidates(
            images.working_shape, self.patch_shape, self.stride, self.normalize, self.pool, vector
        )

    def _keep(
        self, model: Model, learned: learning.Learned, ridge: RidgeFit, named: learning.Named, unit: float
    ) -> None:
        """Fitted attributes, all but those of the data."""
        (held_out, linear), transform, result = named, model.transform, learned.result
        self.n_atoms_, self.normalize_ = len(learned.atoms.t), self._compared[0][1]
        whitener = fetch(transform.whitener)
        dtype, filters = whitener.dtype, learned.atoms.Omega @ whitener
        self.patch_shape_, self.stride_ = transform.grid.patch, transform.grid.stride
        self.pool_ = model.pyramid.levels
        self.atoms_ = fitted_array(filters, dtype).reshape(-1, *self._atom_shape())
        self.thresholds_ = fitted_array(learned.atoms.t, dtype)
        self.coef_ = fitted_array(linear.A @ fetch(ridge.W), dtype)
        self.intercept_ = fitted_array(linear.A @ fetch(ridge.b) + linear.b, dtype)
        self.lam_, self.learned_ = ridge.lam, result is not None
        self.objective_ = np.asarray(result.state.trace if result else ())
        self.n_iter_ = result.n_iter if result else 1
        self.temperature_ = 1.0  # these are log odds
        self.expected_accuracy_, self.n_judged_ = held_out.accuracy, len(held_out.numbers)
        self.confusion_ = unit * held_out.confusion
        self._usual = transform.typical_length
        again = transform.whitener if transform.typical_length else np.empty((0, 0))
        self._whitener = fitted_array(again, dtype)

    def _scores(self, rows: Array) -> Array:
        x, W, b = on_backend(self.backend, rows, self.coef_, self.intercept_)
        return self._mapped(x, lambda F: F @ W.T + b)

    def _codes(self, rows: Array) -> np.ndarray:
        return fetch(self._mapped(on_backend(self.backend, rows)[0], lambda F: F))

    def _mapped(self, x: Array, function: Callable[[Array], Array]) -> Array:
        """`function` of the features of each chunk of images."""
        _, filters, t, whitener = on_backend(
            self.backend, x, self._filters(), self.thresholds_, self._whitener
        )
        transform = WindowTransform(self.grid_, whitener, self.normalize_ is not None, self._usual)
        model = Model(transform, Pyramid(self.grid_.counts, self.pool_))

        def visit(part: Array) -> Array:
            small = reduce_images(part, self.image_shape_, self.reduction_)
            return function(loo_adl.features(small, model, filters, t))

        return map_rows(visit, x, self.grid_, loo_adl.feature_slices(x, model, len(self.thresholds_)))

    def _filters(self) -> np.ndarray:
        return self.atoms_.reshape(len(self.atoms_), -1)

    @property
    def _n_features_out(self) -> int:
        return self.coef_.shape[1]

    def _check_parameters(self) -> None:
        if not self._open("n_atoms"):
            check_number("n_atoms", self.n_atoms, 1, integer=True)
        check_option("normalize", self.normalize, ("auto", *NORMALISATIONS))
        if not self._open("pool"):
            check_levels(self.pool)
        check_option("learn", self.learn, (True, False))
        check_number("max_iter", self.max_iter, 1, integer=True)
        check_number("tol", self.tol, 0)
        check_backend(self.backend)
        memory_bytes(self.max_memory)

    def _saved(self) -> SavedModel:
        check_structure(self)
        C, d = len(self.classes_), self.grid_.d
        m = self.n_atoms_ if self._open("n_atoms") else int(self.n_atoms)
        cells = Pyramid(self.grid_.counts, self.pool_).n_cells
        side = d if self._usual else 0
        arrays: dict[str, tuple[int | str, ...]] = {
            "atoms_": (m, *self._atom_shape()),
            "thresholds_": (m,),
            "coef_": (C, 2 * m * cells),
            "intercept_": (C,),
            "objective_": ("passes",),
            "confusion_": (C, C),
            "_whitener": (side, side),
        }
        chosen = (
            "n_atoms_",
            "patch_shape_",
            "stride_",
            "normalize_",
            "pool_",
            "reduction_",
            "_usual",
            "_compared",
        )
        told = ("n_atoms_", "expected_accuracy_", "n_judged_", "learned_", "lam_", "n_iter_")
        return SavedModel(arrays, ("image_shape_", "n_features_in_", *chosen, *told))

    def _atom_shape(self) -> tuple[int, ...]:
        return atom_shape(self.grid_, self.image_shape_)
