"""ConvNet: one or three convolutional layers on DCADL's patches, trained by back-propagation."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from dcadl.arrays import Array, check_backend, fetch, import_torch, send
from dcadl.estimators.base import Classifier
from dcadl.estimators.files import SavedModel
from dcadl.estimators.fitting import fitted_array, fitting
from dcadl.estimators.prediction import on_backend
from dcadl.estimators.validation import Training, check_number, check_option, grid_of, training_data
from dcadl.ops.patches import NORMALISATIONS, Grid, normalised_patches
from dcadl.solvers import convnet
from dcadl.solvers.walk import map_rows


class ConvNet(Classifier):
    """A small convolutional network with DCADL's patch geometry: the control for learning by gradient.

    The first layer holds m filters of the size and step of DCADL's patches, each patch normalised first
    if `normalize` says so; layers two and three (`n_layers=3`) are 3×3 on the grid of patches; a fully
    connected layer gives the scores. Minimises the mean cross-entropy, or ½‖y − scores‖² a sample, plus
    weight decay, by SGD with momentum.

    Parameters
    ----------
    n_layers : {1, 3}, default=1
        Convolutional layers.
    n_filters : int, default=50
        Filters of each layer, m.
    patch_shape, stride, image_shape, normalize
        As in `DCADL`.
    activation : {"relu", "identity", "shrink"}, default="relu"
        After each layer; "shrink" is the soft threshold at `lam1`, as in DCADL.
    lam1 : float, default=1e-3
        Threshold of "shrink".
    loss : {"cross_entropy", "squared"}, default="cross_entropy"
        What is minimised.
    learning_rate, momentum, weight_decay : float, default=0.05, 0.9, 5e-4
        Of SGD; the rate falls to a tenth at half and at three quarters of the epochs.
    batch_size : int, default=64
        Images in a step.
    max_iter : int, default=100
        Epochs. All are run unless a callback stops them.
    backend : {"torch", "torch:cuda"}, default="torch"
        Where torch computes.
    random_state : int, RandomState or None, default=None
        Seed of the first weights and of the order of the images. On a CPU one seed gives one model.

    Attributes
    ----------
    filters_ : ndarray (m, d)
        First layer; d values of a patch in C order.
    filter_bias_ : ndarray (m,)
    deep_filters_ : ndarray (2, m, m, 3, 3); only with three layers
    deep_bias_ : ndarray (2, m); only with three layers
    coef_ : ndarray (n_classes, n_patches * m)
    intercept_, classes_, grid_, n_features_in_ : as in `DCADL`
    objective_ : ndarray (n_iter_,)
        Mean training loss of each epoch, each batch before its own step; it need not fall.
    n_iter_ : int
        Epochs made.

    Notes
    -----
    Our own control rather than a published network; the paper's own networks could not be identified.
    Needs PyTorch: ``pip install 'dcadl[torch]'``. All normalised patches of the training images are held
    in memory.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from dcadl import ConvNet
    >>> digits = load_digits()
    >>> model = ConvNet(n_filters=8, patch_shape=4, stride=2, max_iter=2, random_state=0)
    >>> model.fit(digits.images[:200], digits.target[:200]).filters_.shape  # doctest: +SKIP
    (8, 16)
    """

    def __init__(
        self,
        n_layers: int = 1,
        n_filters: int = 50,
        patch_shape: Any = None,
        stride: Any = None,
        image_shape: Any = None,
        normalize: str | None = "patch",
        activation: str = "relu",
        lam1: float = 1e-3,
        loss: str = "cross_entropy",
        learning_rate: float = 0.05,
        momentum: float = 0.9,
        weight_decay: float = 5e-4,
        batch_size: int = 64,
        max_iter: int = 100,
        backend: str = "torch",
        random_state: Any = None,
    ) -> None:
        self.n_layers = n_layers
        self.n_filters = n_filters
        self.patch_shape = patch_shape
        self.stride = stride
        self.image_shape = image_shape
        self.normalize = normalize
        self.activation = activation
        self.lam1 = lam1
        self.loss = loss
        self.learning_rate = learning_rate
        self.momentum = momentum
        self.weight_decay = weight_decay
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.backend = backend
        self.random_state = random_state

    @fitting
    def fit(self, X: Any, y: Any) -> ConvNet:
        """Train the network; X and y as in `DCADL.fit`."""
        self._check_parameters()
        data = training_data(self, X, y)
        grid = grid_of(self, data.image_shape)
        rng = check_random_state(self.random_state)
        weights = _he_weights(self, grid, len(data.classes), data.rows.dtype, rng)
        problem = convnet.Problem(
            send(normalised_patches(data.rows, grid, self.normalize), self.backend),
            send(data.Y, self.backend),
            grid.counts,
            convnet.activation(self.activation, float(self.lam1)),
            convnet.loss_of(self.loss),
            int(self.batch_size),
            lambda: rng.permutation(len(data.rows)),
        )
        state = convnet.start(
            [send(w, self.backend) for w in weights],
            learning_rate=self.learning_rate,
            momentum=self.momentum,
            weight_decay=self.weight_decay,
            epochs=self.max_iter,
        )
        return self._fit_by_passes(
            data,
            partial(convnet.step, problem),
            state,
            keep=lambda model, now: model._keep(data, grid, now),
            tol=0,  # the loss of an epoch may rise: it is no sign of the end
        )

    def _keep(self, data: Training, grid: Grid, state: convnet.State) -> None:
        first, bias, *deep, coef, intercept = (fitted_array(w).copy() for w in state.weights)
        self.classes_, self.image_shape_, self.grid_ = data.classes, data.image_shape, grid
        self.normalize_ = self.normalize
        self.filters_, self.filter_bias_ = first, bias
        self.coef_, self.intercept_ = coef, intercept
        if deep:
            self.deep_filters_, self.deep_bias_ = np.stack(deep[::2]), np.stack(deep[1::2])
        self.objective_ = np.asarray(state.trace)

    def _scores(self, rows: Array) -> Array:
        grid, how = self.grid_, self.normalize_
        return map_rows(lambda part: self._patch_scores(normalised_patches(part, grid, how)), rows, grid)

    def _patch_scores(self, P: Array) -> np.ndarray:
        x, *weights = on_backend(self.backend, P, *self._weights())
        activate = convnet.activation(self.activation, float(self.lam1))
        return fetch(convnet.forward(x, weights, self.grid_.counts, activate))

    def _weights(self) -> list[np.ndarray]:
        """Filters and bias of each layer, then the classifier."""
        deep = zip(self.deep_filters_, self.deep_bias_) if self.n_layers > 1 else ()
        layers = [array for layer in deep for array in layer]
        return [self.filters_, self.filter_bias_, *layers, self.coef_, self.intercept_]

    def _check_parameters(self) -> None:
        import_torch("ConvNet")
        if self.n_layers not in (1, 3):
            raise ValueError(f"n_layers must be 1 or 3; got {self.n_layers!r}.")
        for name in ("n_filters", "batch_size", "max_iter"):
            check_number(name, getattr(self, name), 1, integer=True)
        for name in ("lam1", "momentum", "weight_decay"):
            check_number(name, getattr(self, name), 0)
        check_number("learning_rate", self.learning_rate, 0, above=True)
        check_option("normalize", self.normalize, NORMALISATIONS)
        check_option("activation", self.activation, ("relu", "identity", "shrink"))
        check_option("loss", self.loss, ("cross_entropy", "squared"))
        if not str(self.backend).startswith("torch"):
            raise ValueError(f"backend must be 'torch' or 'torch:cuda' for ConvNet; got {self.backend!r}.")
        check_backend(self.backend)

    def _saved(self) -> SavedModel:
        C, m, grid = len(self.classes_), self.n_filters, self.grid_
        arrays: dict[str, tuple[int | str, ...]] = {
            "filters_": (m, grid.d),
            "filter_bias_": (m,),
            "coef_": (C, grid.p * m),
            "intercept_": (C,),
            "objective_": ("passes",),
        }
        if self.n_layers > 1:
            k = convnet.KERNEL
            arrays |= {"deep_filters_": (self.n_layers - 1, m, m, k, k), "deep_bias_": (self.n_layers - 1, m)}
        return SavedModel(arrays, ("n_iter_", "n_features_in_", "grid_", "image_shape_"))


def _he_weights(model: ConvNet, grid: Grid, n_classes: int, dtype: Any, rng: Any) -> list[np.ndarray]:
    """First weights: N(0, 2/fan-in) for layers before a ReLU, zero biases."""
    m, k = model.n_filters, convnet.KERNEL
    shapes = [(m, grid.d), *[(m, m, k, k)] * (model.n_layers - 1), (n_classes, grid.p * m)]
    weights = []
    for shape in shapes:
        scale = math.sqrt(2 / math.prod(shape[1:]))
        weights += [(scale * rng.standard_normal(shape)).astype(dtype), np.zeros(shape[0], dtype)]
    return weights
