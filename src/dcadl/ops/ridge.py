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
from dcadl.arrays.inverses import spd_inverse, spd_inverse_root
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


# --- each sample left out -----------------------------------------------------------------------------
#
# F (n, D) and Y (n, C) come centred, rows times the root of their weight s_i; v (n,) is that root, of length
# one: the direction of the intercept, which is not penalised. With μ = λτ, τ = ‖F‖²/Σs, the residual of
# sample i when it is left out, intercept refitted, is in two equal forms
#
#     dual   (n × n)  Z = (FFᵀ/τ + λI)⁻¹ − vvᵀ/λ,  a = ZY:          e_i = a_i / Z_ii
#     primal (D × D)  S = (FᵀF/τ + λI)⁻¹/τ, W = SFᵀY, ρ = Y − FW:   e_i = ρ_i / (1 − v_i² − f_iᵀSf_i)
#
# and L = Σ‖e_i‖²/Σs (rows e_i carry the root of s_i too). Without −vvᵀ/λ the constant direction would
# dominate Z_ii at small λ, every sample would look predicted, and λ → 0 would be chosen.


class Rows(NamedTuple):
    """Centred rows, each times the root of its weight."""

    F: Array  # (n, D)
    Y: Array  # (n, C)
    v: Array  # (n,) roots of the weights, over the root of their sum
    total: float  # Σs

    def part(self, which: slice) -> Rows:
        """Some of them; the total stays that of all."""
        return Rows(self.F[which, :], self.Y[which, :], self.v[which], self.total)


class Gram(NamedTuple):
    """What all λ share, in float64: FFᵀ/τ or FᵀF/τ, the smaller one, with FᵀY and τ."""

    K: Array
    FY: Array
    tau: Array


class Dual(NamedTuple):
    """The n × n form at one λ. Z itself is made for the gradient alone: errors need no more than its root."""

    root: Array  # L⁻¹ of FFᵀ/τ + λI = LLᵀ, so that Z = L⁻ᵀL⁻¹ − vvᵀ/λ
    a: Array
    z: Array  # diagonal of Z
    e: Array  # residuals of samples left out


class Primal(NamedTuple):
    """The D × D form at one λ. Rows may be some of the samples that the Gram matrix is made of."""

    W: Array
    rho: Array
    left: Array  # 1 − h: what a sample leaves to the others
    e: Array
    FS: Array  # (n, D) in F's precision


def uses_dual(rows: Rows) -> bool:
    """Whether the n × n form is the smaller one."""
    return rows.F.shape[0] <= rows.F.shape[1]


def gram(rows: Rows) -> Gram:
    """The Gram matrix of all samples."""
    F = rows.F
    K = centred(as_float64(F @ F.T), rows.v) if uses_dual(rows) else as_float64(F.T @ F)
    tau = mean_square(array_namespace(K).linalg.trace(K), rows.total)
    K /= tau
    return Gram(K, as_float64(F.T @ rows.Y), tau)


def mean_square(squares: Array, total: float) -> Array:
    """τ = ‖F‖²/Σs, in which λ is measured; 1 where all features are zero."""
    return array_namespace(squares).where(squares > 0, squares / total, 1.0)


def centred(K: Array, v: Array) -> Array:
    """(I − vvᵀ)K(I − vvᵀ): what float32 left of the constant direction taken out in float64.

    As little as 1e-7 of it beside λ = 1e-5 would add to Z_ii what the samples themselves have there.
    """
    v = as_float64(v)
    Kv = K @ v
    u = Kv - 0.5 * (v @ Kv) * v
    found = K - v[:, None] * u
    found -= u[:, None] * v
    return found


def left_out(rows: Rows, shared: Gram, lam: float) -> Dual | Primal:
    """Residuals e, and what else the form knows, at λ."""
    if shared.K.shape[0] == rows.F.shape[0] and uses_dual(rows):
        return dual(shared.K, rows.Y, rows.v, lam)
    return primal(rows, shared, lam)


def dual(K: Array, Y: Array, v: Array, lam: float) -> Dual:
    """The n × n form, of K = FFᵀ/τ."""
    xp, v, Y = array_namespace(K), as_float64(v), as_float64(Y)
    root = spd_inverse_root(add_to_diagonal(K, lam))
    columns = xp.matrix_transpose(root)
    a = columns @ (root @ Y) - v[:, None] * ((v @ Y) / lam)
    z = xp.vecdot(columns, columns) - v * v / lam
    return Dual(root, a, z, a / z[:, None])


def primal(rows: Rows, shared: Gram, lam: float) -> Primal:
    """The D × D form."""
    return primal_errors(rows, *primal_solution(shared, lam))


def primal_solution(shared: Gram, lam: float) -> tuple[Array, Array]:
    """S and W, of K = FᵀF/τ."""
    S = spd_inverse(add_to_diagonal(shared.K, lam)) / shared.tau
    return S, S @ shared.FY


def primal_errors(rows: Rows, S: Array, W: Array) -> Primal:
    """What the rows, or some of them, are missed by."""
    xp, F, v = array_namespace(rows.F), rows.F, as_float64(rows.v)
    rho = as_float64(rows.Y - F @ xp.astype(W, F.dtype))
    FS = F @ xp.astype(S, F.dtype)
    left = 1 - v * v - as_float64(xp.vecdot(FS, F))
    return Primal(W, rho, left, rho / left[:, None], FS)


def coefficients(rows: Rows, shared: Gram, form: Dual | Primal) -> Array:
    """W (D, C) of the ridge regression on all samples, in float64."""
    if isinstance(form, Primal):
        return form.W
    xp = array_namespace(rows.F)
    return as_float64(rows.F.T @ xp.astype(form.a, rows.F.dtype)) / shared.tau


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


def share_shift(scores: np.ndarray, numbers: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """What to add to the scores of each class, a multiple of the logarithm of its share, for least log loss.

    Ridge regression shrinks the scores of a class the more, the fewer images it has. Where all classes have
    the same share nothing is added.
    """
    C = scores.shape[1]
    shares = np.bincount(numbers, weights=weight, minlength=C)
    present = shares > 0
    logs = np.log(np.where(present, shares, shares.max()) / shares.max())
    if np.allclose(logs, 0.0):
        return np.zeros(C)

    def loss(gain: float) -> float:
        return least_log_loss(scores + gain * logs, numbers, weight)[1]

    most = float(scores.std()) / float(np.ptp(logs))
    gain = minimize_scalar(loss, bounds=(-most, most), method="bounded", options={"xatol": most / 50}).x
    return gain * logs if loss(gain) < loss(0.0) else np.zeros(C)


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
