"""PCANet: principal components as filters, hashed histograms, and a linear SVM."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.svm import LinearSVC

from dcadl.arrays import Array
from dcadl.estimators.base import CodingClassifier
from dcadl.estimators.files import SavedModel
from dcadl.estimators.fitting import FitReport, fitted_array, fitting
from dcadl.estimators.validation import check_number, check_option, training_data
from dcadl.ops.patches import Grid, atom_shape, patch_grid
from dcadl.solvers.pcanet import Stage, histograms, learn_stage

MOST_FILTERS = 16  # of the last stage: each doubles the histogram's bins


class PCANet(CodingClassifier):
    """PCANet with one or two stages, hashing histograms and a linear SVM.

    The filters of a stage are the leading eigenvectors of Σ p̄p̄ᵀ over all patches p̄ of the training
    images (of their first-stage maps in stage two). The signs of the last stage's maps make one whole
    number a pixel; its histogram in each block of the image is what the SVM sees.

    Parameters
    ----------
    n_stages : {1, 2}, default=1
        One stage, or two: a second one on each map of the first.
    n_filters : int or tuple of two, default=8
        Filters of each stage, L1 and L2; at most as many as a filter has values.
    filter_shape : int or tuple, default=5
        Height and width of a filter, k1 × k2, cut to the image where that is smaller.
    block_shape : int, tuple or None, default=None
        Height and width of a histogram's block. None: a seventh of the image, at least 4; for plain rows
        every value is a block of its own.
    block_overlap : float in [0, 1), default=0.5
        Share of a block that the next one covers again.
    centre : {"patch", "dataset", None}, default=None
        What a patch loses: its own mean, as in the paper, or the mean of all patches. None: "patch" for
        images, "dataset" for plain rows, where neighbours may mean nothing.
    image_shape : tuple or None, default=None
        (H, W) or (H, W, channels), to fold samples that come as rows.
    C : float, default=1.0
        Weight of the SVM's errors.
    max_iter : int, default=1000
        Most passes of the SVM.
    random_state : int, RandomState or None, default=None
        Order in which the SVM visits samples. The filters need none.

    Attributes
    ----------
    filters_ : ndarray (L1, *filter_shape[, channels])
    second_filters_ : ndarray (L2, *filter_shape); only with two stages
    coef_ : ndarray (n_classes, n_features_out)
        The SVM's weights; features ordered map, block, bin. For two classes its one row w as −w/2, w/2.
    intercept_ : ndarray (n_classes,)
    classes_ : ndarray (n_classes,)
    n_iter_ : int
        Passes of the SVM.
    n_features_in_ : int

    Notes
    -----
    Our reading: the paper's text was not at hand; the construction follows descriptions of it and the
    constants of public releases. A response within rounding of zero counts as not positive, so that a
    flat patch has the same code on every machine.

    | Paper | Here |
    |---|---|
    | k1 × k2 | `filter_shape` |
    | L1, L2 | `n_filters` |
    | block, overlap ratio | `block_shape`, `block_overlap` |

    References
    ----------
    T.-H. Chan, K. Jia, S. Gao, J. Lu, Z. Zeng, Y. Ma, "PCANet: A simple deep learning baseline for image
    classification?", IEEE Transactions on Image Processing 24(12), 2015.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from dcadl import PCANet
    >>> digits = load_digits()
    >>> model = PCANet(filter_shape=3, random_state=0).fit(digits.images[:500], digits.target[:500])
    >>> model.filters_.shape
    (8, 3, 3)
    """

    def __init__(
        self,
        n_stages: int = 1,
        n_filters: Any = 8,
        filter_shape: Any = 5,
        block_shape: Any = None,
        block_overlap: float = 0.5,
        centre: str | None = None,
        image_shape: Any = None,
        C: float = 1.0,
        max_iter: int = 1000,
        random_state: Any = None,
    ) -> None:
        self.n_stages = n_stages
        self.n_filters = n_filters
        self.filter_shape = filter_shape
        self.block_shape = block_shape
        self.block_overlap = block_overlap
        self.centre = centre
        self.image_shape = image_shape
        self.C = C
        self.max_iter = max_iter
        self.random_state = random_state

    @fitting
    def fit(self, X: Any, y: Any) -> PCANet:
        """Learn the filters, then the SVM on the histograms of their signs; X and y as in `DCADL.fit`."""
        self._check_parameters()
        data = training_data(self, X, y)
        rows, shape = data.rows, data.image_shape
        blocks = self._blocks(shape)  # refuses a block that does not fit before any work
        report = FitReport(self, self.n_stages + 1, X, y)

        stages: tuple[Stage, ...] = ()
        for count in self._counts():
            grid = _filter_grid(shape if not stages else shape[:2], self.filter_shape)
            stages += (learn_stage(rows, stages, grid, min(count, grid.d), self._centre(shape)),)
            report.after_pass(_nothing_yet)
        svm = LinearSVC(C=self.C, max_iter=self.max_iter, random_state=self.random_state)
        svm.fit(sparse.vstack(histograms(rows, stages, blocks, sparse.csr_array), format="csr"), data.y)
        W, b = _one_row_per_class(svm, rows.dtype)
        self.classes_, self.image_shape_ = data.classes, shape
        for (filters, offset), stage, one in zip(_NAMES, stages, self._filter_shapes()):
            setattr(self, filters, fitted_array(stage.filters).reshape(-1, *one))
            setattr(self, offset, fitted_array(stage.offset))
        self.coef_, self.intercept_ = W, b
        self.n_iter_ = int(svm.n_iter_)
        report.after_pass(_nothing_yet)
        report.end()
        return self

    def _scores(self, rows: Array) -> np.ndarray:
        W = self.coef_.T.astype(rows.dtype)
        blocks = self._blocks(self.image_shape_)
        parts = histograms(rows, self._stages(rows.dtype), blocks, lambda H: sparse.csr_array(H) @ W)
        return np.concatenate(parts) + self.intercept_

    def _codes(self, rows: Array) -> Any:
        """Hashed histograms in a sparse array: map, block, bin."""
        blocks = self._blocks(self.image_shape_)
        parts = histograms(rows, self._stages(rows.dtype), blocks, sparse.csr_array)
        return sparse.vstack(parts, format="csr")

    def _stages(self, dtype: Any) -> tuple[Stage, ...]:
        shapes = self.image_shape_, self.image_shape_[:2]
        return tuple(
            Stage(
                getattr(self, filters).reshape(len(getattr(self, filters)), -1).astype(dtype),
                getattr(self, offset).astype(dtype),
                _filter_grid(shape, self.filter_shape),
            )
            for (filters, offset), shape in zip(_NAMES[: self.n_stages], shapes)
        )

    def _filter_shapes(self) -> list[tuple[int, ...]]:
        shapes = (self.image_shape_, self.image_shape_[:2])[: self.n_stages]
        return [atom_shape(_filter_grid(shape, self.filter_shape), shape) for shape in shapes]

    def _counts(self) -> tuple[int, ...]:
        """Filters of each stage."""
        given = (self.n_filters,) * self.n_stages if np.ndim(self.n_filters) == 0 else tuple(self.n_filters)
        if len(given) != self.n_stages:
            raise ValueError(
                f"n_filters must be one number, or one for each of {self.n_stages} stages; got {given}."
            )
        for count in given:
            check_number("n_filters", count, 1, integer=True)
        if given[-1] > MOST_FILTERS:
            raise ValueError(
                f"n_filters must be at most {MOST_FILTERS} in the last stage, whose histograms have "
                f"2^n_filters bins; got {given[-1]}."
            )
        return given

    def _check_parameters(self) -> None:
        check_number("n_stages", self.n_stages, 1, integer=True)
        if self.n_stages > 2:
            raise ValueError(f"n_stages must be 1 or 2; got {self.n_stages}.")
        self._counts()
        check_number("block_overlap", self.block_overlap, 0)
        if self.block_overlap >= 1:
            raise ValueError(f"block_overlap must be less than 1; got {self.block_overlap}.")
        check_option("centre", self.centre, ("patch", "dataset", None))
        check_number("C", self.C, 0, above=True)
        check_number("max_iter", self.max_iter, 1, integer=True)

    def _blocks(self, image_shape: tuple[int, ...]) -> Grid:
        """Where the histograms' blocks lie on a map."""
        sizes = image_shape[:2]
        default = [min(size, max(4, size // 7)) for size in sizes] if len(sizes) > 1 else 1
        shape = default if self.block_shape is None else self.block_shape
        block = patch_grid(sizes, shape, 1, name="block_shape").patch[-len(sizes) :]
        return patch_grid(sizes, block, [max(1, round((1 - self.block_overlap) * size)) for size in block])

    def _centre(self, image_shape: tuple[int, ...]) -> str:
        return self.centre or ("patch" if len(image_shape) > 1 else "dataset")

    @property
    def _n_features_out(self) -> int:
        return self.coef_.shape[1]

    def _saved(self) -> SavedModel:
        C, shapes = len(self.classes_), self._filter_shapes()
        counts = [min(count, math.prod(shape)) for count, shape in zip(self._counts(), shapes)]
        histograms_of = math.prod(counts[:-1]) * self._blocks(self.image_shape_).p
        arrays: dict[str, tuple[int | str, ...]] = {
            "coef_": (C, histograms_of * 2 ** counts[-1]),
            "intercept_": (C,),
        }
        for (filters, offset), shape, count in zip(_NAMES, shapes, counts):
            arrays |= {filters: (count, *shape), offset: (count,)}
        return SavedModel(arrays, ("n_iter_", "n_features_in_", "image_shape_"))


_NAMES = (("filters_", "_offset"), ("second_filters_", "_second_offset"))  # of each stage's attributes


def _nothing_yet(model: PCANet) -> None:
    """Filters without a classifier are no model that a callback could use."""


def _filter_grid(shape: tuple[int, ...], filter_shape: Any) -> Grid:
    """Every position of a filter in an image; a filter larger than the image is cut to it."""
    sizes = shape[:2]
    given = [filter_shape] * len(sizes) if np.ndim(filter_shape) == 0 else list(filter_shape)
    try:
        cut = [min(int(side), size) for side, size in zip(given, sizes, strict=True)]
    except (TypeError, ValueError, OverflowError):
        raise ValueError(
            f"filter_shape must be {len(sizes)} integer(s) for samples of shape {shape}; "
            f"got {filter_shape!r}."
        ) from None
    return patch_grid(shape, cut, 1, name="filter_shape")


def _one_row_per_class(svm: Any, dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    coef, intercept = svm.coef_, np.atleast_1d(svm.intercept_)
    if len(coef) == 1:  # two classes
        coef, intercept = np.vstack([-coef, coef]) / 2, np.concatenate([-intercept, intercept]) / 2
    return fitted_array(coef, dtype), fitted_array(intercept, dtype)
