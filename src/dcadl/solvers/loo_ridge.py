"""The ridge classifier behind features, its λ by exact leave-one-out; of features in memory, or of sums."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from threading import Lock
from typing import Any, NamedTuple

from dcadl.arrays import LARGE_SYSTEM, Array, array_namespace, as_float64, blas_threads_for
from dcadl.ops.leave_one_out import Dual, Gram, Primal, Rows, coefficients, gram, left_out
from dcadl.ops.ridge import TILE, Each, loss, mean_square, search_lam, slices_of
from dcadl.ops.standardise import Groups, Standard, standard_from, standardise, standardised
from dcadl.solvers.walk import walker

DEAR = 500  # side of the smaller matrix from which a look at one λ takes long
USUAL_LAM = 10**-1.5  # where λ is looked for then, step by step


class RidgeFit(NamedTuple):
    """A linear classifier on raw features, and what leave-one-out says of it."""

    W: Array  # (C, D)
    b: Array  # (C,)
    lam: float
    loss: float  # L
    left_out: Array  # (n, C): scores of each judged sample when it is left out


class Sums(NamedTuple):
    """Sums over all samples, features less `about`: enough for a ridge regression of any number of them."""

    about: Array  # (D,)
    weight: float  # Σs
    F: Array  # (D,) Σ s(f − about)
    FF: Array  # (D, D) Σ s(f − about)(f − about)ᵀ, in float64
    FY: Array  # (D, C)
    Y: Array  # (C,)


def run_sums(F: Array, Y: Array, root: Array) -> tuple[Any, ...]:
    """What `Sums` has behind `about` of a run of samples, whose features F come less that."""
    xp = array_namespace(F)
    weight = root * root
    heavy = F * weight[:, None]
    sums = (weight @ F, heavy.T @ F, heavy.T @ Y, weight @ Y)
    return float(xp.sum(as_float64(weight))), *map(as_float64, sums)


def fit_rows(
    F: Array,
    Y: Array,
    root: Array,
    groups: Groups,
    begin: float | None = None,
    judges: Array | None = None,
    *,
    search: bool = True,
) -> RidgeFit:
    """The classifier of features F (n, D) to labels Y (n, C), samples weighing root².

    The search for λ begins at `begin`, where it is given; without `search` it ends there. `judges` (n,) is 1
    for samples by whose error λ is chosen and 0 for others: features may have seen the labels of some.
    """
    xp = array_namespace(F)
    total = float(xp.sum(as_float64(root) ** 2))
    share = root * root / total
    (A, standard), mean_Y = standardised(F, share, groups), share @ Y
    rows = _rows(A, Y, root, total, mean_Y)
    judges = root * 0 + 1 if judges is None else judges
    side = min(F.shape)
    with walker(F, slices_of(side, TILE)) as walk:
        shared = gram(rows, walk)
    with blas_threads_for(side):
        return _fit(rows, shared, standard, mean_Y, root, begin, judges, search)


def fit_sums(sums: Sums, F: Array, Y: Array, root: Array, groups: Groups) -> RidgeFit:
    """The same of sums over all samples, judged by the few whose features F are at hand."""
    xp = array_namespace(F)
    shift, mean_Y = sums.F / sums.weight, xp.astype(sums.Y / sums.weight, F.dtype)
    C = sums.FF - sums.weight * shift[:, None] * shift
    deviation = xp.sqrt(xp.clip(xp.linalg.diagonal(C), min=0.0) / sums.weight)
    standard = standard_from(
        xp.astype(as_float64(sums.about) + shift, F.dtype), xp.astype(deviation, F.dtype), groups
    )
    gain = as_float64(standard.gain)
    A = C * gain[:, None] * gain
    tau = mean_square(xp.linalg.trace(A), sums.weight)
    FY = gain[:, None] * (sums.FY - shift[:, None] * sums.Y)
    rows = _rows(standardise(F, standard), Y, root, sums.weight, mean_Y)
    judges = root * 0 + 1
    with blas_threads_for(len(gain)):
        return _fit(rows, Gram(A / tau, FY, tau), standard, mean_Y, root, None, judges, search=True)


def _rows(A: Array, Y: Array, root: Array, total: float, mean_Y: Array) -> Rows:
    """Standardised features A, which are overwritten, and labels, rows times the root of their weight."""
    heavy = root[:, None]
    A *= heavy
    return Rows(A, (Y - mean_Y) * heavy, root / math.sqrt(total), total)


def _fit(
    rows: Rows,
    shared: Gram,
    standard: Standard,
    mean_Y: Array,
    root: Array,
    begin: float | None,
    judges: Array,
    search: bool,
) -> RidgeFit:
    value, lam, form = _best_form(rows, shared, root, begin, as_float64(judges), search)
    W = coefficients(rows, shared, form) * as_float64(standard.gain)[:, None]
    b = as_float64(mean_Y) - as_float64(standard.mean) @ W
    guesses = (as_float64(rows.Y) - form.e) / as_float64(root)[:, None] + as_float64(mean_Y)
    return RidgeFit(W.T, b, lam, value, guesses)


def _best_form(
    rows: Rows, shared: Gram, root: Array, begin: float | None, judges: Array, search: bool
) -> tuple[float, float, Dual | Primal]:
    """The least error of the judges, its λ, and the form at it, which is not computed again."""
    best: tuple[float, float, Dual | Primal] | None = None
    lock = Lock()  # looks may be taken side by side
    judged = float(array_namespace(judges).sum(judges * as_float64(root) ** 2))

    def error(lam: float) -> float:
        nonlocal best
        form = left_out(rows, shared, lam)
        value = loss(form.e * judges[:, None], judged)
        with lock:
            best = (value, lam, form) if best is None or (value, lam) < best[:2] else best
        return value

    if search or begin is None:
        search_lam(
            error, begin or (USUAL_LAM if shared.K.shape[0] >= DEAR else None), _each_in_a_thread(shared.K)
        )
    else:
        error(begin)
    assert best is not None
    return best


def _each_in_a_thread(K: Array) -> Each:
    """`map` in threads for systems like K, but for large ones: those BLAS itself shares among its threads."""
    if K.shape[0] >= LARGE_SYSTEM:
        return map

    def each(function: Callable[[float], float], values: Sequence[float]) -> Iterable[float]:
        with walker(K, [slice(0)] * len(values)) as walk:
            return walk(lambda value: (function(value), ()), values)[0]

    return each
