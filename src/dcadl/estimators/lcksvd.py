"""LC-KSVD: one dictionary whose atoms belong to classes, and a linear classifier on sparse codes."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import numpy as np

from dcadl.arrays import Array, check_backend, fetch, send
from dcadl.estimators.base import CodingClassifier
from dcadl.estimators.files import SavedModel
from dcadl.estimators.fitting import fitted_array, fitting
from dcadl.estimators.loaded import check_class_numbers
from dcadl.estimators.prediction import on_backend
from dcadl.estimators.validation import Training, check_number, training_data
from dcadl.ops.patches import unit_rows
from dcadl.solvers import lcksvd
from dcadl.solvers.walk import walker


class LCKSVD(CodingClassifier):
    """Label consistent K-SVD.

    Learns atoms D, a transform A of codes and a linear classifier W by minimising

        ‖Y − DX‖² + α‖Q − AX‖² + β‖H − WX‖²   with at most T atoms in the code of a sample

    where Q asks samples to use atoms of their own class and H holds the labels. `variant=1` has no third
    term and fits W to the codes in the end. A new sample is coded over D by orthogonal matching
    pursuit and classified by W.

    Parameters
    ----------
    n_atoms : int, default=570
        Atoms in all, K, shared out evenly between the classes. A class gets no more atoms than it has
        samples.
    variant : {1, 2}, default=2
        LC-KSVD1 or LC-KSVD2.
    sparsity : int, default=30
        Most atoms in a code, T.
    alpha, beta : float
        Weight of label consistency; of the label error (variant 2 only). For samples of unit length
        they must be small: the values of the authors' programs, whose features have another scale and which
        take the square roots (4 and 2), leave too little of the samples in the codes.
    init_iter : int, default=20
        Passes of K-SVD on each class alone, and then on all samples, for the first atoms and classifier.
    max_iter : int, default=50
        Passes of K-SVD with labels.
    backend : {"numpy", "torch", "torch:cuda", "cupy"}, default="numpy"
        Where the arithmetic runs. Fitted attributes are NumPy arrays in any case.

    Attributes
    ----------
    atoms_ : ndarray (K, n_features_in_)
        D, one row per atom, of unit length.
    atom_classes_ : ndarray (K,)
        The class, as an index into `classes_`, that each atom was first learned from.
    coef_ : ndarray (n_classes, K)
        W.
    classes_ : ndarray (n_classes,)
        The labels, sorted.
    objective_ : ndarray (n_iter_,)
        The objective after each pass. Matching pursuit is greedy and atoms are replaced, so it may rise.
    n_iter_, n_features_in_ : int
        Passes made; values per sample.

    Notes
    -----
    Our reading, the journal text not being at hand: samples are scaled to unit length; atoms are refitted
    in fixed order by one power step; after each pass an atom that nearly doubles another (inner product
    above 0.99) or that fewer than 4 samples use gives way to the worst coded sample.
    A equals W with each row repeated for the atoms of its class, at every pass, so it is not kept.

    References
    ----------
    Z. Jiang, Z. Lin, L. S. Davis, "Learning a discriminative dictionary for sparse coding via label
    consistent K-SVD", CVPR 2011; "Label consistent K-SVD", IEEE TPAMI 35(11), 2013.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from dcadl import LCKSVD
    >>> digits = load_digits()
    >>> model = LCKSVD(n_atoms=80, sparsity=5, init_iter=3, max_iter=3)
    >>> model.fit(digits.images[:1000], digits.target[:1000]).atoms_.shape
    (80, 64)
    """

    def __init__(
        self,
        n_atoms: int = 570,
        variant: int = 2,
        sparsity: int = 30,
        alpha: float = 1e-3,
        beta: float = 1e-2,
        init_iter: int = 20,
        max_iter: int = 50,
        backend: str = "numpy",
    ) -> None:
        self.n_atoms = n_atoms
        self.variant = variant
        self.sparsity = sparsity
        self.alpha = alpha
        self.beta = beta
        self.init_iter = init_iter
        self.max_iter = max_iter
        self.backend = backend

    @fitting
    def fit(self, X: Any, y: Any) -> LCKSVD:
        """Learn atoms and classifier together from samples (n, values) or images (n, H, W[, channels])."""
        self._check_parameters()
        data = training_data(self, X, y)
        shares = _atoms_per_class(self.n_atoms, data.rows, data.Y)
        weight = np.sqrt(float(self.alpha) * shares + (float(self.beta) if self.variant == 2 else 0))
        H, sent_weight = send(data.Y, self.backend), send(weight.astype(data.Y.dtype), self.backend)
        Y = send(unit_rows(data.rows), self.backend)
        with walker(Y, lcksvd.sample_slices(Y)) as walk:
            parts = _class_parts(fetch(Y), data.Y, shares, self.backend)
            D = lcksvd.first_atoms(parts, self.sparsity, self.init_iter, walk)
            coordinates, basis = lcksvd.in_span(Y)
            plain = lcksvd.pose(coordinates, self.sparsity, walk)
            D = D if basis is None else D @ basis.T
            problem, state = lcksvd.attach_labels(plain, H, D, sent_weight, self.init_iter)

            def keep(model: LCKSVD, now: lcksvd.State) -> None:
                atoms, W = lcksvd.detach_labels(now.D, sent_weight)
                W = W if self.variant == 2 else lcksvd.fitted_classifier(now.X, H)
                model._keep(data, atoms if basis is None else atoms @ basis, W, shares, now.trace)

            return self._fit_by_passes(
                data,
                partial(lcksvd.step, problem),
                state,
                keep=keep,
                tol=0,  # K-SVD may rise and fall again: it has no other end than max_iter
            )

    def _keep(self, data: Training, atoms: Array, W: Array, shares: np.ndarray, seen: Any) -> None:
        self.classes_, self.image_shape_ = data.classes, data.image_shape
        self.atoms_, self.coef_ = fitted_array(atoms), fitted_array(W)
        self.atom_classes_ = np.repeat(np.arange(len(shares)), shares)
        self._n_learned = int(shares.sum())
        self.objective_ = np.asarray(seen)

    def _scores(self, rows: Array) -> Array:
        Y, D, W = on_backend(self.backend, unit_rows(rows), self.atoms_, self.coef_)
        return lcksvd.codes(Y, D, self.sparsity) @ W.T

    def _codes(self, rows: Array) -> np.ndarray:
        """Sparse codes, (n, K)."""
        Y, D = on_backend(self.backend, unit_rows(rows), self.atoms_)
        return fetch(lcksvd.codes(Y, D, self.sparsity))

    def _check_parameters(self) -> None:
        for name in ("n_atoms", "sparsity", "init_iter", "max_iter"):
            check_number(name, getattr(self, name), 1, integer=True)
        if self.variant not in (1, 2):
            raise ValueError(f"variant must be 1 (LC-KSVD1) or 2 (LC-KSVD2); got {self.variant!r}.")
        check_number("alpha", self.alpha, 0, above=True)
        check_number("beta", self.beta, 0)
        check_backend(self.backend)

    @property
    def _n_features_out(self) -> int:
        return self._n_learned

    def _check_fitted(self) -> None:
        check_number("_n_learned", self._n_learned, 1, integer=True)
        check_class_numbers("atom_classes_", self.atom_classes_, len(self.classes_))

    def _saved(self) -> SavedModel:
        return SavedModel(
            {
                "atoms_": (self._n_learned, self.n_features_in_),
                "coef_": (len(self.classes_), self._n_learned),
                "atom_classes_": (self._n_learned,),
                "objective_": ("passes",),
            },
            ("n_iter_", "n_features_in_", "image_shape_", "_n_learned"),
        )


def _atoms_per_class(n_atoms: int, X: np.ndarray, H: np.ndarray) -> np.ndarray:
    """Atoms of each class: an even share, but no more than it has samples that are not zero."""
    C = H.shape[1]
    if n_atoms < C:
        raise ValueError(f"n_atoms must be at least the number of classes, {C}; got {n_atoms}.")
    shares = np.full(C, n_atoms // C) + (np.arange(C) < n_atoms % C)
    samples = H[X.any(axis=1)].sum(axis=0).astype(int)
    if not samples.all():
        raise ValueError(
            f"every class needs a sample that is not zero; class number {samples.argmin()} has none."
        )
    crowded = int(np.sum(shares >= samples))
    if crowded:
        warnings.warn(
            f"{crowded} of {C} classes have no more samples than atoms ({samples.min()} samples, "
            f"{shares.max()} atoms): each sample there becomes an atom of its own and nothing is learned "
            f"from them together. Lower n_atoms={n_atoms} or give more samples; atoms beyond their number "
            "are left out.",
            UserWarning,
            stacklevel=3,
        )
    return np.minimum(shares, samples)


def _class_parts(Y: np.ndarray, H: np.ndarray, shares: np.ndarray, backend: str) -> list[tuple[Array, int]]:
    """Samples of each class, zero ones left out, with the number of its atoms."""
    lit = Y.any(axis=1)
    return [(send(Y[lit & (H[:, c] > 0)], backend), int(k)) for c, k in enumerate(shares)]
