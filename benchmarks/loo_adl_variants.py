"""What is changed, one thing at a time, to see what each part of LOO-ADL is worth."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any
from unittest import mock

import numpy as np

from dcadl.estimators.loo_adl import learn as learning
from dcadl.ops import discriminant
from dcadl.ops.leave_one_out import Rows
from dcadl.solvers import loo_adl, structure

Context = Callable[[], AbstractContextManager[Any]]


def _starting_from(atoms: Callable[..., np.ndarray]) -> Context:
    """Other first atoms, of windows U (n, d) as k-means sees them."""
    return lambda: mock.patch.object(structure, "signless_kmeans", atoms)


def random_directions(U: np.ndarray, m: int, rng: np.random.RandomState) -> np.ndarray:
    """Any directions."""
    Omega = rng.standard_normal((m, U.shape[1]))
    return Omega / np.linalg.norm(Omega, axis=1, keepdims=True)


def leading_directions(U: np.ndarray, m: int, rng: np.random.RandomState) -> np.ndarray:
    """Leading directions; where more are asked for than there are, random ones follow."""
    directions = np.linalg.svd(U, full_matrices=False)[2][:m]
    return np.concatenate([directions, random_directions(U, m - len(directions), rng)])


def _plain_loss(rows: Rows, lam: float, *blocks: Any) -> tuple[float, np.ndarray]:
    """The least value of the ridge regression itself, λ⟨Y, (FFᵀ/τ + λI)⁻¹Y⟩/Σs, and its slope."""
    F, Y = np.asarray(rows.F, np.float64), np.asarray(rows.Y, np.float64)
    tau = np.sum(F * F) / rows.total
    a = np.linalg.solve(F @ F.T / tau + lam * np.eye(len(F)), Y)
    dF = -2 * lam / (rows.total * tau) * (a @ (a.T @ F))
    dF -= np.sum(F * dF) / np.sum(F * F) * F  # τ moves along
    return lam * float(np.sum(Y * a)) / rows.total, dF.astype(rows.F.dtype)


@contextmanager
def _always_kept() -> Iterator[None]:
    """Without the guard: learned atoms are kept, good or not."""

    def learned(images: Any, n_classes: int, backend: str, model: Any, first: Any, passes: Any) -> Any:
        positions = images.order[: learning.LEARNING_IMAGES]
        some = learning.subset(images, positions, n_classes, backend)
        return learning.Learned(learning.learn(some, model, first, passes).atoms)

    with mock.patch.object(learning, "learn_atoms", learned):
        yield


@contextmanager
def _by_plain_loss() -> Iterator[None]:
    with mock.patch.object(loo_adl, "loss_and_gradient", _plain_loss), _always_kept():
        yield


def by_largest_score() -> AbstractContextManager[Any]:
    """The largest score of the ridge regression, but for log π, whatever left-out images score."""
    return mock.patch.multiple(discriminant, ALPHAS=(1.0,), NUS=(np.inf,))


def _variants() -> dict[str, tuple[Context, dict[str, Any]]]:
    """Name → what is replaced, and parameters."""
    found: dict[str, tuple[Context, dict[str, Any]]] = {"as it is": (nullcontext, {})}
    for m in (4, 8, 16, 64):
        found[f"{m} atoms, learned"] = (nullcontext, {"n_atoms": m})
        for name, atoms in (("k-means", None), ("PCA", leading_directions), ("random", random_directions)):
            context: Context = nullcontext if atoms is None else _starting_from(atoms)
            found[f"{m} atoms, {name}"] = (context, {"n_atoms": m, "learn": False})
    found["16 atoms, learned without the guard"] = (_always_kept, {"n_atoms": 16})
    found["16 atoms, learned by the plain loss"] = (_by_plain_loss, {"n_atoms": 16})
    found["named by the largest score"] = (by_largest_score, {})
    for how in ("whitened", "whitened-once", "centred"):
        found[f"normalize={how!r}"] = (nullcontext, {"normalize": how, "n_atoms": 16})
    for pool in ((1,), (1, 2, 4), (2, 4, 8)):
        found[f"pool={pool}"] = (nullcontext, {"pool": pool, "n_atoms": 16})
    found["stride=2"] = (nullcontext, {"stride": 2, "n_atoms": 16})
    return found


VARIANTS = _variants()
