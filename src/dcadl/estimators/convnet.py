"""ConvNet: one or three convolutional layers on DCADL's patches, trained by back-propagation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.callback import CallbackSupportMixin, with_callbacks
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from dcadl.arrays import Array, check_backend, fetch, send
from dcadl.estimators.files import SavedModel, save
from dcadl.estimators.inputs import check_number, check_option, fit_rows, grid_of, one_hot, predict_rows
from dcadl.estimators.passes import FitReport
from dcadl.estimators.patchwise import decision, labels
from dcadl.ops.normalise import normalised_patches
from dcadl.solvers import convnet
from dcadl.solvers.chunks import map_patches
from dcadl.solvers.loop import Result, iterate


class ConvNet(CallbackSupportMixin, ClassifierMixin, BaseEstimator):
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

    @with_callbacks
    def fit(self, X: Any, y: Any) -> ConvNet:
        """Train the network; X and y as in `DCADL.fit`."""
        self._check_parameters()
        X, y, shape = fit_rows(self, X, y)
        self.grid_ = grid_of(self, shape)
        self._image_shape = shape
        self.classes_, Y = one_hot(y, X.dtype)
        report = FitReport(self, self.max_iter, X, y, None)
        result = self._train(X, Y, report)
        self.__dict__.update(self._fitted(result.state))
        self.objective_ = np.asarray(result.state.losses)
        self.n_iter_ = result.n_iter
        report.end()
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """Score of each class; for two classes the second's less the first's."""
        return decision(self._scores(X))

    def predict(self, X: Any) -> np.ndarray:
        """The class of the highest score."""
        return labels(self._scores(X), self.classes_)

    def save(self, path: Any) -> None:
        """Write the model to a safetensors file that `dcadl.load` reads; no pickle."""
        save(self, path)

    def _train(self, X: np.ndarray, Y: np.ndarray, report: FitReport) -> Result:
        rng = check_random_state(self.random_state)
        weights = _he_weights(self, Y.shape[1], X.dtype, rng)
        problem = convnet.Problem(
            send(normalised_patches(X, self.grid_, self.normalize), self.backend),
            send(Y, self.backend),
            self.grid_.counts,
            convnet.activation(self.activation, float(self.lam1)),
            convnet.loss_of(self.loss),
            int(self.batch_size),
            lambda: rng.permutation(len(X)),
        )
        return iterate(
            lambda state: convnet.step(problem, state),
            convnet.start(
                [send(w, self.backend) for w in weights],
                learning_rate=self.learning_rate,
                momentum=self.momentum,
                weight_decay=self.weight_decay,
                epochs=self.max_iter,
            ),
            convnet.last_value,
            max_iter=self.max_iter,
            tol=-np.inf,  # the loss of an epoch may rise: it is no sign of the end
            watch=lambda epoch, state: report.after_pass(lambda: self._fitted(state)),
        )

    def _scores(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        rows = predict_rows(self, X, self._image_shape)
        weights = [send(w.astype(rows.dtype), self.backend) for w in self._weights()]
        activate = convnet.activation(self.activation, float(self.lam1))

        def score(P: Array) -> Array:
            return fetch(convnet.forward(send(P, self.backend), weights, self.grid_.counts, activate))

        return map_patches(score, rows, self.grid_, self.normalize)

    def _fitted(self, state: convnet.State) -> dict[str, Any]:
        first, bias, *deep, coef, intercept = (fetch(w).copy() for w in state.weights)
        fitted = {"filters_": first, "filter_bias_": bias, "coef_": coef, "intercept_": intercept}
        if deep:
            fitted |= {"deep_filters_": np.stack(deep[::2]), "deep_bias_": np.stack(deep[1::2])}
        return fitted

    def _weights(self) -> list[np.ndarray]:
        """Filters and bias of each layer, then the classifier."""
        deep = zip(self.deep_filters_, self.deep_bias_) if self.n_layers > 1 else ()
        layers = [array for layer in deep for array in layer]
        return [self.filters_, self.filter_bias_, *layers, self.coef_, self.intercept_]

    def _check_parameters(self) -> None:
        convnet.import_torch()
        if self.n_layers not in (1, 3):
            raise ValueError(f"n_layers must be 1 or 3; got {self.n_layers!r}.")
        for name in ("n_filters", "batch_size", "max_iter"):
            check_number(name, getattr(self, name), 1, whole=True)
        for name in ("lam1", "momentum", "weight_decay"):
            check_number(name, getattr(self, name), 0)
        check_number("learning_rate", self.learning_rate, 0, above=True)
        check_option("activation", self.activation, ("relu", "identity", "shrink"))
        check_option("loss", self.loss, ("cross_entropy", "squared"))
        if not str(self.backend).startswith("torch"):
            raise ValueError(f"backend must be 'torch' or 'torch:cuda' for ConvNet; got {self.backend!r}.")
        check_backend(self.backend)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "coef_")

    def _saved(self) -> SavedModel:
        """What a model file must hold for this class."""
        C, m, grid = len(self.classes_), self.n_filters, self.grid_
        arrays: dict[str, tuple[int | None, ...]] = {
            "filters_": (m, grid.d),
            "filter_bias_": (m,),
            "coef_": (C, grid.p * m),
            "intercept_": (C,),
            "objective_": (None,),
        }
        if self.n_layers > 1:
            k = convnet.KERNEL
            arrays |= {"deep_filters_": (self.n_layers - 1, m, m, k, k), "deep_bias_": (self.n_layers - 1, m)}
        return SavedModel(arrays, ("n_iter_", "n_features_in_", "grid_", "_image_shape"))


def _he_weights(model: ConvNet, n_classes: int, dtype: Any, rng: Any) -> list[np.ndarray]:
    """First weights: N(0, 2/fan-in) for layers before a ReLU, zero biases."""
    m, grid, k = model.n_filters, model.grid_, convnet.KERNEL
    shapes = [(m, grid.d), *[(m, m, k, k)] * (model.n_layers - 1), (n_classes, grid.p * m)]
    weights = []
    for shape in shapes:
        scale = math.sqrt(2 / math.prod(shape[1:]))
        weights += [(scale * rng.standard_normal(shape)).astype(dtype), np.zeros(shape[0], dtype)]
    return weights
