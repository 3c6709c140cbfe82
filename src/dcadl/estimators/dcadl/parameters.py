"""What DCADL's parameters may be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dcadl.arrays import check_backend
from dcadl.estimators.validation import check_flag, check_number, check_option, check_ridge
from dcadl.solvers.budget import memory_bytes

if TYPE_CHECKING:
    from dcadl.estimators.dcadl.estimator import DCADL


def check_parameters(model: DCADL) -> None:
    """Refuse parameters that no fit could use, with a ValueError that says what to do."""
    check_number("n_atoms", model.n_atoms, 1, integer=True)
    check_number("max_iter", model.max_iter, 1, integer=True)
    check_number("tol", model.tol, 0)
    check_number("lam2", model.lam2, 0, above=True)
    for name in ("lam1", "lam3", "lam4"):
        check_number(name, getattr(model, name), 0)
    check_number("forgetting", model.forgetting, 0)
    if model.forgetting > 1:
        raise ValueError(f"forgetting must be at most 1; got {model.forgetting!r}.")
    check_flag("refit", model.refit)
    check_ridge("refit_lam", model.refit_lam)
    check_option("solver", model.solver, ("descent", "paper"))
    check_option("w_ridge", model.w_ridge, ("paper", "release"))
    check_option("codes", model.codes, ("signed",) if model.solver == "paper" else ("signed", "split"))
    check_option("init", model.init, ("gaussian", "pca"))
    check_option("overflow", model.overflow, ("spill", "recompute"))
    check_backend(model.backend)
    if model.max_memory is None:
        return
    memory_bytes(model.max_memory)
    if model.backend != "numpy" or model.solver == "paper":
        raise ValueError(
            f"max_memory is kept by solver='descent' on backend='numpy'; got solver={model.solver!r}, "
            f"backend={model.backend!r}. Leave it None there."
        )
