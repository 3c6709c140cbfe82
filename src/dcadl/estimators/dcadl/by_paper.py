"""Training by Algorithm 1, with the ridge of line 10 as printed or as released."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import check_random_state

from dcadl.arrays import send
from dcadl.estimators.fitting import FitReport, Result, fitted_array, iterate, last_value
from dcadl.estimators.validation import Training, check_number, grid_of, open_npy, training_data
from dcadl.ops.patches import Grid, atom_shape, normalised_patches
from dcadl.solvers import paper

if TYPE_CHECKING:
    from dcadl.estimators.dcadl.estimator import DCADL

_DIVERGED = (
    "solver='paper' has diverged: its codes grew until the classifier's ridge could not be felt beside them. "
    "Lower lam2, raise lam3, or use solver='descent', which cannot climb."
)


def fit_by_paper(model: DCADL, X: Any, y: Any, sample_weight: Any, checkpoint: Any) -> DCADL:
    """Fit a model; its fitted attributes are assigned at the end."""
    if sample_weight is not None or model.class_weight is not None or checkpoint is not None:
        raise ValueError(
            "solver='paper' supports neither weights nor checkpoints; use solver='descent' with "
            "sample_weight, class_weight or checkpoint."
        )
    check_number("lam3", model.lam3, 0, above=True)  # line 10 has no other ridge
    data = training_data(model, open_npy(X), y)
    grid, how = grid_of(model, data.image_shape), _normalisation(model)
    report = FitReport(model, model.max_iter + 1, X, y)

    def keep(model: DCADL, state: paper.State) -> None:
        model.classes_, model.image_shape_, model.grid_ = data.classes, data.image_shape, grid
        model.normalize_ = how
        model.intercept_ = np.zeros(len(data.classes), data.rows.dtype)  # the authors have none
        model.atoms_ = fitted_array(state.Omega).reshape(-1, *atom_shape(grid, data.image_shape))
        model.coef_ = fitted_array(state.W, data.rows.dtype)

    def watch(t: int, state: paper.State) -> bool:
        return report.after_pass(lambda model: keep(model, state))

    result = _learn(model, data, grid, watch)
    keep(model, result.state)
    model.objective_ = np.asarray(result.state.trace)
    model.n_iter_ = result.n_iter
    model.__dict__.pop("_stream", None)  # sums of an earlier stream
    report.end()
    return model


def _normalisation(model: DCADL) -> str | None:
    """The authors' own, where none is named."""
    return "patch" if model.normalize == "auto" else model.normalize


def _learn(model: DCADL, data: Training, grid: Grid, watch: Callable[[int, paper.State], bool]) -> Result:
    """Passes from uniform random atoms and classifier, as the authors started them."""
    rng, (X, _, Y, *_) = check_random_state(model.random_state), data
    Omega, W = (
        rng.uniform(size=(model.n_atoms, grid.d)),
        rng.uniform(size=(Y.shape[1], grid.p * model.n_atoms)),
    )
    there, labels, Omega, W = (send(a.astype(X.dtype), model.backend) for a in (X, Y, Omega, W))
    lams = model._lams()
    w_ridge = lams[2] if model.w_ridge == "release" else lams[2] / lams[1]
    problem = paper.pose(
        normalised_patches(there, grid, _normalisation(model)), labels, lams, w_ridge=w_ridge
    )
    try:
        result = iterate(
            partial(paper.step, problem),
            paper.start(problem, Omega, W),
            max_iter=model.max_iter + 1,  # the authors' loop runs once more than T
            tol=0,  # and has no other end
            watch=watch,
        )
    except np.linalg.LinAlgError:
        raise ValueError(_DIVERGED) from None
    if not np.isfinite(last_value(result.state)):  # devices give no error
        raise ValueError(_DIVERGED)
    return result
