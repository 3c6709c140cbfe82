"""Ridge regression without an intercept in float64, and its errors on samples that are left out of it.

With rows of F (n, D) and Y (n, C) times the roots of their weights s_i, and λ in units of τ = ‖F‖²/Σs,

    dual   (n × n)  A = FFᵀ/τ + λI,  a = A⁻¹Y,  W = Fᵀa/τ:    e_i = a_i / (A⁻¹)_ii
    primal (D × D)  A = FᵀF/τ + λI,  W = A⁻¹FᵀY/τ:            e_i = (y_i − Wᵀf_i) / (1 − f_iᵀA⁻¹f_i/τ)

`ops.ridge` has both forms with an intercept, and with what gradients need of them; here is what errors need
and no more, and F stays in its own precision: side by side in float64 codes would take twice the room.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, partial
from itertools import combinations_with_replacement
from typing import Any, NamedTuple

import numpy as np

from dcadl.arrays import LARGE_SYSTEM, Array, array_namespace, batch_rows, device_of, zeros
from dcadl.arrays.inverses import SpdFactor
from dcadl.ops.ridge import LEAST, MOST, Each, add_to_diagonal, loss, mean_square, search_lam

BLOCK = 1024  # samples whose rows are looked at in float64 at once
TILE, INNER = 256, 4096  # rows and columns of a product that a thread makes at once, and terms of its sums
ALL = slice(None)
PART = 4  # one in so many samples says where to look for λ
PART_FROM = 300  # samples and features from which it does
GOLDEN = 0.6180339887498949  # multiples of it, modulo 1, fall in step with no order of the classes

Walk = Callable[..., tuple[Any, tuple[Any, ...]]]  # a function, columns of arguments -> all kept, the sums


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
        F, Y = _taken(self.F, places), _taken(self.Y, places)
        if self.root is None:
            return Samples(F, Y, None, float(len(places)))
        root = _taken(self.root, places)
        return Samples(F, Y, root, float(array_namespace(root).sum(root * root)))


def _taken(x: Array, places: np.ndarray, axis: int = 0) -> Array:
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


# --- λ by the error -----------------------------------------------------------------------------------


class Best(NamedTuple):
    """The regression at the λ of least error."""

    lam: float  # in units of τ
    error: float  # Σ‖e_i‖²/Σs
    found: Solution


def best_lam(samples: Samples, system: System, begin: float | None = None, each: Each = map) -> Best:
    """The λ of least error: searched downhill, from `begin` on where it is given; `each` may look at several.

    Of many samples one in four says first where to look, which takes a 64th of the time.
    """
    at = cache(partial(solve, samples, system))
    error: Callable[[float], float] = lambda lam: loss(at(lam).e, samples.total)  # noqa: E731
    if begin is None and min(samples.F.shape) >= PART_FROM:
        valleys = _valleys(*_part_of(samples, system), each)
        begin = min(zip(each(error, valleys), valleys))[1]
    lam = search_lam(error, begin, each)
    return Best(lam, error(lam), at(lam))


def _valleys(samples: Samples, system: System, each: Each) -> list[float]:
    """Every λ whose error is lower than that of its neighbours, half a decade away.

    In units of τ they hardly depend on how many samples there are: on faces, digits and MNIST those of a
    quarter are mostly those of all, or half a decade off. Codes that are all but linear can have two.
    """
    error = cache(lambda lam: loss(solve(samples, system, lam).e, samples.total))
    decades = [10.0**x for x in np.arange(LEAST, MOST + 1)]
    found = [math.inf, *each(error, decades), math.inf]
    low = [lam for lam, *near in zip(decades, found, found[1:], found[2:]) if near[1] <= min(near)]
    return sorted({search_lam(error, lam) for lam in low}) or decades[:1]


def mapped_in_threads(system: System, walk: Walk) -> Each:
    """`map` over several λ, in threads of `walk`; not of small systems, nor of large ones, shared by BLAS."""
    if not PART_FROM <= system.K.shape[0] < LARGE_SYSTEM:
        return map
    return lambda function, values: walk(lambda value: (function(value), ()), values)[0]


def _part_of(samples: Samples, system: System) -> tuple[Samples, System]:
    """One in four samples, and what `system` would be of them in the same units."""
    n = int(samples.F.shape[0])
    places = np.flatnonzero(np.arange(n) * GOLDEN % 1 < 1 / PART)
    some = samples.some(places)
    if system.FY is None:
        return some, system._replace(K=_taken(_taken(system.K, places), places, axis=1))
    F = some.block(ALL)
    return some, System(F.T @ F / system.tau, system.tau, F.T @ some.Y / system.tau)
