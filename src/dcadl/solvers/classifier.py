"""The classifier's block, line 10: ridge regression of the labels on the codes, (λ2ŨŨᵀ + λ3I)Wᵀ = λ2ŨYᵀ.

Up to max(512, 4C) features (p·m of them) the system is summed up and solved in each pass. Beyond, we take a
conjugate-gradient step from the last W, which costs one product with the codes and lowers the objective. Its
metric makes up for what ŨŨᵀ has of a product of patches and atoms: with S = Σ_j U_jU_jᵀ (p × p) and
T = Σ_j U_jᵀU_j (m × m) of the first codes, ŨŨᵀ ≈ S⊗T / tr S. In the plain metric a step would mostly see the
few directions that all patches share.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from dcadl.arrays import Array, array_namespace, plainly, spd_solver, wide, zeros
from dcadl.ops.codes import by_image, by_patch, sum_over_rows, weigh
from dcadl.ops.ridge import System, add_to_diagonal, block_conjugate_gradient
from dcadl.solvers.walk import Walk

SMALL_GRAM = 512  # features up to which a solution costs less than a step
START_STEPS = 4  # towards a first classifier, from zero
REFIT_STEPS = 10  # towards the last one, where the classifier is all that counts
DUST = 1e-12  # share of the diagonal that keeps a solution alive where λ3 = 0
# Share of a step's directions that is ridge. Directions that nearly depend on each other carry rounding: with
# 1e-6 float32 and float64 differ by 2 % in W after 23 passes on faces, with 1e-2 by 4e-6; F ends 0.2 % up.
STEP_DUST = 1e-2
FRESH_DUST = 1e-3  # many steps in a row settle by themselves


class Regression(NamedTuple):
    """What the classifier's block is made of."""

    chunks: Sequence[Any]
    walk: Walk
    lam2: float
    lam3: float
    run: Callable[..., tuple[Array, ...]] = plainly  # how steps are run: as they are, or from a recording


class Metric(NamedTuple):
    """An inverse of λ2(S⊗T)/tr S + λ3I by the eigenvectors of S and T."""

    patches: Array  # (p, p), a column each
    atoms: Array  # (m, m)
    inverse: Array  # (p, m): one over the eigenvalues

    def solve(self, R: Array) -> Array:
        """The inverse times R (p·m, C)."""
        xp = array_namespace(R)
        rows = xp.reshape(R.T, (R.shape[1], *self.inverse.shape))
        turned = (self.patches.T @ rows @ self.atoms) * self.inverse
        return xp.reshape(self.patches @ turned @ self.atoms.T, (R.shape[1], R.shape[0])).T


def metric_of(regression: Regression, codes: Sequence[Any], shape: tuple[int, int]) -> Metric | None:
    """The metric of these codes, where steps are taken; `shape` is (p·m, C)."""
    if solved_exactly(shape[1], shape[0]):
        return None
    _, (S, T) = regression.walk(_marginals, regression.chunks, codes)
    xp = array_namespace(S)
    (s, patches), (t, atoms) = xp.linalg.eigh(S), xp.linalg.eigh(T)
    total = xp.linalg.trace(S) + float(xp.finfo(S.dtype).smallest_normal)
    products = xp.clip(s[:, None] * t[None, :] / total, min=0.0)
    ridge = regression.lam3 + 1e-6 * regression.lam2 * total  # λ3 may be 0
    return Metric(patches, atoms, 1 / (regression.lam2 * products + ridge))


def first_classifier(
    regression: Regression, codes: Sequence[Any], target: Array, metric: Metric | None, steps: int
) -> Array:
    """W from λ2ŨYᵀ and nothing else."""
    W = zeros((target.shape[1], target.shape[0]), like=target)
    if metric is None:
        return _solved(regression, codes, W, target)
    return _stepped(regression, codes, W, target, metric, steps, FRESH_DUST)


def lower_classifier(
    regression: Regression, codes: Sequence[Any], W: Array, slope: Array, metric: Metric | None
) -> Array:
    """W with a lower ridge objective, or its minimum. `slope` is λ2Ũ(Y − WŨ)ᵀ."""
    residual = slope - regression.lam3 * W.T
    if metric is None:
        return _solved(regression, codes, W, residual)
    # One step, which is not recorded by itself: the whole pass may be.
    return _stepped(regression, codes, W, residual, metric, 1, STEP_DUST)


def solved_exactly(n_classes: int, n_features: int) -> bool:
    """Whether a Gram matrix costs no more than a CG step. Independent of the number of images."""
    return n_features <= max(SMALL_GRAM, 4 * n_classes)


def _solved(regression: Regression, codes: Sequence[Any], W: Array, residual: Array) -> Array:
    _, (G,) = regression.walk(_code_gram, regression.chunks, codes)
    G = regression.lam2 * G
    xp = array_namespace(G)
    ridge = xp.clip(DUST * xp.max(xp.linalg.diagonal(G)), min=regression.lam3)  # λ3 may be 0
    return W + spd_solver(add_to_diagonal(G, ridge))(residual).T


def _stepped(
    regression: Regression,
    codes: Sequence[Any],
    W: Array,
    residual: Array,
    metric: Metric,
    steps: int,
    dust: float,
) -> Array:
    """Some block conjugate-gradient steps from W."""
    system = System(partial(_product, regression), metric.solve, dust)

    def recorded(step: Callable[..., tuple[Array, ...]], *arrays: Any) -> tuple[Array, ...]:
        # A recording keeps the metric that it was made with, and any metric will do.
        return regression.run(lambda plan, number, *given: step(*given), ("step", dust), 0.0, *arrays)

    return block_conjugate_gradient(system, W.T, residual, steps, codes, recorded).T


def _product(regression: Regression, D: Array, *codes: Any) -> Array:
    """(λ2ŨŨᵀ + λ3I)D, the large part in the codes' own precision."""
    _, (image,) = regression.walk(lambda chunk, U: _code_image(chunk, U, D), regression.chunks, codes)
    return regression.lam2 * image + regression.lam3 * D


def _code_gram(chunk: Any, U: Array) -> tuple[None, tuple[Array]]:
    rows = wide(by_image(U))
    return None, (weigh(rows, chunk.weight).T @ rows,)


def _marginals(chunk: Any, U: Array) -> tuple[None, tuple[Array, Array]]:
    """Σ_j s_jU_jU_jᵀ and Σ_j s_jU_jᵀU_j."""
    xp = array_namespace(U)

    def by_position(V: Array) -> Array:
        return xp.reshape(xp.permute_dims(V, (1, 0, 2)), (V.shape[1], -1))

    heavy = weigh(U, chunk.weight)
    return None, (wide(by_position(heavy) @ by_position(U).T), sum_over_rows(by_patch(heavy), by_patch(U)))


def _code_image(chunk: Any, U: Array, D: Array) -> tuple[None, tuple[Array]]:
    rows = by_image(U)
    D = array_namespace(U).astype(D, U.dtype)
    return None, (sum_over_rows(rows, weigh(rows @ D, chunk.weight)),)
