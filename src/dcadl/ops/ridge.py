"""Ridge regression: exact, by a few conjugate-gradient steps; its error on samples left out, and λ by it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import cache, partial
from itertools import combinations_with_replacement
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import helmert
from scipy.optimize import brentq

from dcadl.arrays import (
    LARGE_SYSTEM,
    Array,
    SpdFactor,
    array_namespace,
    batch_rows,
    device_of,
    inverse_factor,
    tiny,
    zeros,
)
from dcadl.ops.floors import PRECONDITIONER_DAMPING, RIDGE_DAMPING

FIRST, LEAST, MOST = -2.0, -5.0, 2.0  # decades of λ: where the search begins and what it stays within

LOG_RANGE, LOG_STEP = (-7.0, 7.0), 1e-3  # of the temperature's natural logarithm, beside the scores' spread
LEAST_EXPONENT = -700.0  # of what vanishes beside 1; below it exp takes 6 to 40 times as long
BLOCK = 1024  # samples whose rows are looked at in float64 at once
TILE, INNER = 256, 4096  # rows and columns of a product that a thread makes at once, and terms of its sums
ALL = slice(None)
THREADS_FROM = 300  # side of systems that are looked at in threads
Walk = Callable[..., tuple[Any, tuple[Any, ...]]]  # a function, columns of arguments -> all kept, the sums
Product = Callable[[Array], Array]  # a positive definite matrix times an array
Each = Callable[..., Iterable[float]]  # maps a function over several λ


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


# --- the error on samples left out -------------------------------------------------------------------
#
# Without an intercept: rows of F (n, D) and Y (n, C) times the roots of their weights s_i, λ in units of
# τ = ‖F‖²/Σs. F stays in its own precision: codes side by side in float64 would take twice the room.
#
#     dual   (n × n)  A = FFᵀ/τ + λI,  a = A⁻¹Y,  W = Fᵀa/τ:    e_i = a_i / (A⁻¹)_ii
#     primal (D × D)  A = FᵀF/τ + λI,  W = A⁻¹FᵀY/τ:            e_i = (y_i − Wᵀf_i) / (1 − f_iᵀA⁻¹f_i/τ)
#
# `ops.leave_one_out` has both forms with an intercept, and what gradients need of them.


class Samples(NamedTuple):
    """Features and labels of samples, and their weights."""

    F: Array  # (n, D) in any precision, not weighed
    Y: Array  # (n, C) in float64, rows times the roots of their weights
    root: Array | None  # (n,) of those in float64; None where all are 1
    total: float  # Σs

    @property
    def dual(self) -> bool:
        """Whether the n × n form is the smaller one."""
        return int(self.F.shape[0]) <= int(self.F.shape[1])

    def block(self, rows: slice, columns: slice = ALL) -> Array:
        """Features of samples, some of each, weighed, in float64."""
        xp = array_namespace(self.F)
        F = xp.astype(self.F[rows, columns], xp.float64)
        return F if self.root is None else F * self.root[rows, None]

    def some(self, places: np.ndarray) -> Samples:
        """Some of the samples."""
        F, Y = taken(self.F, places), taken(self.Y, places)
        if self.root is None:
            return Samples(F, Y, None, float(len(places)))
        root = taken(self.root, places)
        return Samples(F, Y, root, float(array_namespace(root).sum(root * root)))


def taken(x: Array, places: np.ndarray, axis: int = 0) -> Array:
    """Some rows of x, or columns."""
    xp = array_namespace(x)
    return xp.take(x, xp.asarray(places, device=device_of(x)), axis=axis)


class System(NamedTuple):
    """What all λ share, in float64."""

    K: Array  # FFᵀ/τ or FᵀF/τ
    tau: Array
    FY: Array | None  # FᵀY/τ of the primal form


class Solution(NamedTuple):
    """The regression at one λ."""

    solved: Array  # a of the dual form, W (D, C) of the primal one
    e: Array  # (n, C) residuals of samples left out, times the roots of their weights


def solve(samples: Samples, system: System, lam: float) -> Solution:
    """The regression at λ. In the primal form samples may be some of those that the system is made of."""
    factor = SpdFactor(add_to_diagonal(system.K, lam))
    if system.FY is None:
        a = factor.solve(samples.Y)
        return Solution(a, a / factor.inverse_diagonal()[:, None])
    errors = []
    for part in slices_of(int(samples.F.shape[0]), BLOCK):
        FW, forms = factor.forms(samples.block(part), system.FY)
        errors.append((samples.Y[part, :] - FW) / (1 - forms / system.tau)[:, None])
    return Solution(factor.solve(system.FY), array_namespace(FW).concat(errors, axis=0))


def slices_of(n: int, size: int) -> list[slice]:
    """Runs of so many samples."""
    return [slice(begin, min(begin + size, n)) for begin in range(0, n, size)]


def system_of(samples: Samples, walk: Walk) -> System:
    """The smaller of FFᵀ/τ and FᵀF/τ, made in tiles, several at once where `walk` has threads."""
    sides = [int(side) for side in samples.F.shape]
    side, inner = sides if samples.dual else reversed(sides)
    K = zeros((side, side), samples.Y)
    block = samples.block if samples.dual else lambda part, run: samples.block(run, part).T

    def tile(one: slice, other: slice) -> tuple[None, tuple[()]]:
        product: Any = 0.0
        for run in slices_of(inner, INNER):
            left = block(one, run)
            product = product + left @ (left if one == other else block(other, run)).T
        K[one, other], K[other, one] = product, product.T
        return None, ()

    pairs = combinations_with_replacement(slices_of(side, batch_rows(samples.F, TILE)), 2)
    walk(tile, *zip(*pairs))
    tau = mean_square(array_namespace(K).linalg.trace(K), samples.total)
    K /= tau
    return System(K, tau, None if samples.dual else features_times(samples, samples.Y, walk) / tau)


def features_times(samples: Samples, B: Array, walk: Walk) -> Array:
    """FᵀB in float64, some features at a time."""
    slices = slices_of(int(samples.F.shape[1]), batch_rows(samples.F, TILE))
    found, _ = walk(lambda part: (samples.block(ALL, part).T @ B, ()), slices)
    return array_namespace(B).concat(list(found), axis=0)


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


# --- λ by that error ----------------------------------------------------------------------------------


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


class BestRidge(NamedTuple):
    """The regression at the λ of least error."""

    lam: float  # in units of τ
    error: float  # Σ‖e_i‖²/Σs
    found: Solution


def best_lam(samples: Samples, system: System, begin: float | None = None, each: Each = map) -> BestRidge:
    """The λ of least error, searched downhill from `begin` on; `each` may look at several."""
    at = cache(partial(solve, samples, system))
    error: Callable[[float], float] = lambda lam: loss(at(lam).e, samples.total)  # noqa: E731
    lam = search_lam(error, begin, each)
    return BestRidge(lam, error(lam), at(lam))


def mapped_in_threads(system: System, walk: Walk) -> Each:
    """`map` over several λ, in threads of `walk`; not of small systems, nor of large ones, shared by BLAS."""
    if not THREADS_FROM <= system.K.shape[0] < LARGE_SYSTEM:
        return map
    return lambda function, values: walk(lambda value: (function(value), ()), values)[0]


# --- what left-out scores are worth as probabilities -------------------------------------------------


def best_temperature(scores: np.ndarray, numbers: np.ndarray, weight: np.ndarray | None = None) -> float:
    """The temperature of least log loss on scores (n, C) of images that the model has not seen.

    `numbers` are their classes. Scores are measured in units of their own spread, so that any scale will do.
    """
    return least_log_loss(scores, numbers, weight)[0]


def least_log_loss(
    scores: np.ndarray, numbers: np.ndarray, weight: np.ndarray | None = None
) -> tuple[float, float]:
    """That temperature, and the log loss at it: how well scores tell classes apart, whatever their scale.

    That none of n images is named wrongly does not mean that none will be: by a share of 1/(n + 2) each one
    counts as one of its second best class (Laplace's rule of succession).
    """
    columns = np.array(scores.T, np.float64, order="C")  # (C, n): sums over few classes run along memory
    columns -= columns.max(axis=0)
    spread = float(np.sqrt(np.mean((columns - columns.mean(axis=0)) ** 2))) or 1.0
    columns /= spread
    others, places = columns.copy(), (numbers, np.arange(len(numbers)))
    others[places] = -np.inf
    doubt = 1 / ((len(numbers) if weight is None else float(weight.sum())) + 2)
    label = (1 - doubt) * columns[places] + doubt * others.max(axis=0)
    average, room = float(np.average(label, weights=weight)), np.empty_like(columns)

    def sums(beta: float) -> np.ndarray:
        """Σ exp(β·score) of each image; the terms are in `room`."""
        np.maximum(np.multiply(columns, beta, out=room), LEAST_EXPONENT, out=room)  # 0 at most
        return np.exp(room, out=room).sum(axis=0)

    def derivative(log_temperature: float) -> float:
        """dL/dβ, which rises with β, so falls with the temperature."""
        total = sums(np.exp(-log_temperature))
        return float(np.average(np.einsum("ij,ij->j", room, columns) / total, weights=weight)) - average

    ends = [derivative(end) for end in LOG_RANGE]
    inside = ends[0] > 0 > ends[1]
    log_temperature = brentq(derivative, *LOG_RANGE, xtol=LOG_STEP) if inside else LOG_RANGE[ends[0] > 0]
    beta = float(np.exp(-log_temperature))
    return spread / beta, float(np.average(np.log(sums(beta)), weights=weight)) - beta * average


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
