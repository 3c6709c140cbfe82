"""Ridge regression: exact, by a few conjugate-gradient steps; its error on samples left out, and λ by it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import cache
from typing import NamedTuple

import numpy as np
from scipy.linalg import helmert
from scipy.optimize import minimize_scalar

from dcadl.arrays import Array, array_namespace, as_float64, device_of, inverse_factor, spd_solver, tiny
from dcadl.ops.floors import PRECONDITIONER_DAMPING, RIDGE_DAMPING

FIRST, LEAST, MOST = -2.0, -5.0, 2.0  # decades of λ: where the search begins and what it stays within
LOG_RANGE = (-7.0, 7.0)  # of the temperature's natural logarithm, beside the spread of the scores
LEAST_EXPONENT = -700.0  # of what vanishes beside 1; below it exp takes 6 to 40 times as long

Product = Callable[[Array], Array]  # a positive definite matrix times an array
Each = Callable[..., Iterable[float]]  # maps a function over several λ


def ridge(A: Array, T: Array, lam: float, weight: Array | None = None) -> Array:
    """argmin_B ½‖√s(T − AB)‖² + ½λ‖B‖², solved in float64: primal if A is tall, dual if it is wide."""
    xp = array_namespace(A)
    dtype, A, T = A.dtype, as_float64(A), as_float64(T)
    if weight is not None:
        root = xp.sqrt(as_float64(weight))[:, None]
        A, T = A * root, T * root
    if A.shape[0] < A.shape[1]:
        return xp.astype(A.T @ spd_solver(add_to_diagonal(A @ A.T, lam))(T), dtype)
    return xp.astype(spd_solver(add_to_diagonal(A.T @ A, lam))(A.T @ T), dtype)


def add_to_diagonal(G: Array, value: float | Array) -> Array:
    """G + value·I, without an identity: to make one takes three passes over memory."""
    flat = array_namespace(G).reshape(G, (-1,)) + 0.0  # a copy
    flat[:: G.shape[0] + 1] += value
    return array_namespace(G).reshape(flat, G.shape)


class ConjugateGradient:
    """Steps towards product(X) = B from a warm start X, where `residual` is B − product(X).

    `product` is positive definite, and the caller's own: it takes the `directions` of each step and `move`s
    along them with their product. `precondition` is close to its inverse. The columns share their directions:
    each step minimises ½⟨X, product(X)⟩ − ⟨B, X⟩ exactly over the span of as many new directions as there are
    columns, so that it is lower after every step.
    """

    def __init__(
        self,
        X: Array,
        residual: Array,
        precondition: Product = lambda residual: residual,
        damping: float = RIDGE_DAMPING,
    ) -> None:
        self.X, self.residual = X, residual
        self._precondition, self._damping = precondition, damping
        self._eye = array_namespace(X).eye(X.shape[1], dtype=X.dtype, device=device_of(X))
        self._last: tuple[Array, Array, Array] | None = None

    def directions(self) -> Array:
        """Orthonormal columns to step along, conjugate to those of the step before."""
        toward = self._precondition(self.residual)
        if self._last is not None:
            D, K, image = self._last
            toward = toward - D @ (K.T @ (K @ (image.T @ toward)))
        return toward @ inverse_factor(self._damped(toward.T @ toward), self._eye).T

    def move(self, D: Array, image: Array) -> None:
        """One step along D, where `image` is product(D)."""
        K = inverse_factor(self._damped(D.T @ image), self._eye)  # KᵀK = (Dᵀ·product(D))⁻¹
        along = K.T @ (K @ (D.T @ self.residual))
        self.X = self.X + D @ along
        self.residual = self.residual - image @ along
        self._last = D, K, image

    def _damped(self, M: Array) -> Array:
        """M positive definite where columns depend on each other; a factorisation reads one half of it only.

        A damped step still descends. Undamped, such columns would carry nothing but amplified rounding.
        """
        return M + (self._damping * array_namespace(M).linalg.trace(M) + tiny(M)) * self._eye


class KroneckerPreconditioner(NamedTuple):
    """An inverse of λ2(S⊗T)/tr S + λ3I by the eigenvectors of S (patches) and T (atoms)."""

    patches: Array  # (p, p), a column each
    atoms: Array  # (m, m)
    inverse: Array  # (p, m): one over the eigenvalues

    def solve(self, R: Array) -> Array:
        """The inverse times R (p·m, C)."""
        xp = array_namespace(R)
        rows = xp.reshape(R.T, (R.shape[1], *self.inverse.shape))
        turned = (self.patches.T @ rows @ self.atoms) * self.inverse
        return xp.reshape(self.patches @ turned @ self.atoms.T, (R.shape[1], R.shape[0])).T


def kronecker_preconditioner(S: Array, T: Array, lam2: float, lam3: float) -> KroneckerPreconditioner:
    """The preconditioner for codes with S = Σ_j U_jU_jᵀ and T = Σ_j U_jᵀU_j."""
    xp = array_namespace(S)
    (s, patches), (t, atoms) = xp.linalg.eigh(S), xp.linalg.eigh(T)
    trace = xp.linalg.trace(S) + tiny(S)
    products = xp.clip(s[:, None] * t[None, :] / trace, min=0.0)
    ridge = lam3 + PRECONDITIONER_DAMPING * lam2 * trace
    return KroneckerPreconditioner(patches, atoms, 1 / (lam2 * products + ridge))


# --- the error on samples left out, and λ by it (the forms: `ops.leave_one_out`, `ops.left_out`) -------


def mean_square(squares: Array, total: float) -> Array:
    """τ = ‖F‖²/Σs, in which λ is measured; 1 where all features are zero."""
    return array_namespace(squares).where(squares > 0, squares / total, 1.0)


def loss(e: Array, total: float) -> float:
    """L = Σ‖e_i‖²/Σs."""
    return float(squared_length(e)) / total


def squared_length(A: Array) -> Array:
    """‖A‖², summed in float64."""
    xp = array_namespace(A)
    return xp.sum(xp.vecdot(A, A), dtype=xp.float64)


def search_lam(error: Callable[[float], float], begin: float | None = None, each: Each = map) -> float:
    """λ of least error, downhill: from 0.01 by decades, then by half ones; from `begin` by half decades."""
    known: dict[float, float] = {}
    best = FIRST if begin is None else math.log10(begin)
    for stride in (1.0, 0.5) if begin is None else (0.5,):
        while True:
            near = [x for x in (best - stride, best + stride) if LEAST <= x <= MOST]
            new = [x for x in (best, *near) if x not in known]
            known |= zip(new, each(error, [10.0**x for x in new]))  # several at once
            lowest = min(near, key=known.__getitem__)
            if not known[lowest] < known[best]:  # not >=: an error that is no number must end it too
                break
            best = lowest
    return 10.0**best


# --- what left-out scores are worth as probabilities -------------------------------------------------


def best_temperature(scores: np.ndarray, numbers: np.ndarray, weight: np.ndarray | None = None) -> float:
    """The temperature of least log loss on scores (n, C) of images that the model has not seen.

    `numbers` are their classes. Scores are measured in units of their own spread, so that any scale will do.
    """
    return least_log_loss(scores, numbers, weight)[0]


def least_log_loss(
    scores: np.ndarray, numbers: np.ndarray, weight: np.ndarray | None = None
) -> tuple[float, float]:
    """That temperature, and the log loss at it: how well scores tell classes apart, whatever their scale."""
    scores = scores.astype(np.float64) - scores.max(axis=1, keepdims=True)
    away = scores - scores.mean(axis=1, keepdims=True)
    spread = float(np.sqrt(np.mean(away**2))) or 1.0
    scores = scores / spread
    own, room = scores[np.arange(len(scores)), numbers], np.empty_like(scores)

    def log_loss(log_temperature: float) -> float:
        beta = np.exp(-log_temperature)
        np.maximum(np.multiply(scores, beta, out=room), LEAST_EXPONENT, out=room)  # 0 at most
        sums = np.exp(room, out=room).sum(axis=1)
        return float(np.average(np.log(sums) - beta * own, weights=weight))

    found = minimize_scalar(log_loss, bounds=LOG_RANGE, method="bounded")
    return spread * float(np.exp(found.x)), float(found.fun)


# --- labels by contrasts -----------------------------------------------------------------------------
#
# A one-hot label less the shares of the classes sums to zero, and so do the rows of a classifier that is
# fitted to such labels. In all C coordinates one direction holds nothing but rounding, and steps that share
# directions would follow it; in an orthonormal basis of the others every norm, and so the objective, is the
# same.


def to_contrasts(x: np.ndarray) -> np.ndarray:
    """Labels (n, C), or a classifier transposed, that sum to zero along the classes: (n, C − 1)."""
    return x @ _basis(x.shape[1]).T.astype(x.dtype)


def from_contrasts(x: np.ndarray) -> np.ndarray:
    """The same undone: (n, C − 1) to (n, C)."""
    return x @ _basis(x.shape[1] + 1).astype(x.dtype)


@cache
def _basis(n_classes: int) -> np.ndarray:
    """(C − 1, C): orthonormal rows, each of which sums to zero."""
    return helmert(n_classes)
