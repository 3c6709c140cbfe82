"""The ridge classifier behind features, its λ by exact leave-one-out; of features in memory, or of sums."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from threading import Lock
from typing import Any, NamedTuple

from dcadl.arrays import LARGE_SYSTEM, Array, array_namespace, as_float64, blas_threads_for
from dcadl.ops.leave_one_out import (
    TILE,
    Dual,
    Gram,
    Primal,
    Rows,
    coefficients,
    gram,
    left_out,
    solution,
    weigh_alike,
    weighed,
)
from dcadl.ops.ridge import Each, loss, mean_square, search_lam, slices_of
from dcadl.ops.standardise import Groups, Standard, standard_from, standardise, standardised
from dcadl.solvers.walk import walker

DEAR = 500  # side of the smaller matrix from which a look at one λ takes long
USUAL_LAM = 10**-1.5  # where λ is looked for then, step by step


class RidgeFit(NamedTuple):
    """A linear classifier on raw features."""

    W: Array  # (C, D)
    b: Array  # (C,)
    lam: float


class Judged(NamedTuple):
    """What leave-one-out says of a ridge classifier."""

    lam: float  # of least error
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


def judge_rows(F: Array, Y: Array, root: Array, groups: Groups) -> Judged:
    """What leave-one-out says of features F (n, D) for labels Y (n, C), samples weighing root²."""
    return judge_crossed([F], Y, root, groups, [as_float64(root) * 0 + 1])


def judge_crossed(
    features: Sequence[Array], Y: Array, root: Array, groups: Groups, judges: Sequence[Array]
) -> Judged:
    """The same of samples of which each is judged under one of several features, for one λ.

    `judges` (n,), one for each of the features, is 1 for samples judged under them and 0 for others, whose
    labels they may have seen.
    """
    judges = [as_float64(one) for one in judges]
    shared_by_blas = min(features[0].shape) if len(features) == 1 else 0  # several keep our own threads busy
    with walker(root, [slice(0)] * len(features)) as walk:
        posed, _ = walk(lambda F: (_posed(F, Y, root, groups), ()), features)
        with blas_threads_for(shared_by_blas):
            lam, value, forms = _best_forms(posed, judges)
            scores = [_left_out(*one) * judge[:, None] for *one, judge in zip(posed, forms, judges)]
            return Judged(lam, value, reduce(operator.add, scores))


def fit_rows(
    F: Array, Y: Array, root: Array, groups: Groups, judges: Array | None = None
) -> tuple[RidgeFit, Judged]:
    """The classifier at the λ of least error, and what leave-one-out says of it.

    `judges` (n,) is 1 for samples by whose error λ is chosen and 0 for others: features may have seen the
    labels of some.
    """
    posed = _posed(F, Y, root, groups)
    with blas_threads_for(min(F.shape)):
        return _fit(posed, judges)


def solve_rows(F: Array, Y: Array, root: Array, groups: Groups, lam: float) -> RidgeFit:
    """The classifier at a λ that is known."""
    posed = _posed(F, Y, root, groups)
    with blas_threads_for(min(F.shape)):
        return _classifier(posed, solution(posed.rows, posed.shared, lam), lam)


def fit_sums(sums: Sums, F: Array, Y: Array, root: Array, groups: Groups) -> tuple[RidgeFit, Judged]:
    """As `fit_rows`, of sums over all samples, judged by the few whose features F are at hand."""
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
    with blas_threads_for(len(gain)):
        return _fit(_Posed(rows, Gram(A / tau, FY, tau), standard, mean_Y, root), None)


class _Posed(NamedTuple):
    """Samples as the formulas want them, what all λ share, and the way back."""

    rows: Rows
    shared: Gram
    standard: Standard
    mean_Y: Array
    root: Array


def _posed(F: Array, Y: Array, root: Array, groups: Groups) -> _Posed:
    xp = array_namespace(F)
    total = float(xp.sum(as_float64(root) ** 2))
    share = root * root / total
    (A, standard), mean_Y = standardised(F, share, groups), share @ Y
    rows = _rows(A, Y, root, total, mean_Y)
    with walker(F, slices_of(min(F.shape), TILE)) as walk:
        return _Posed(rows, gram(rows, walk), standard, mean_Y, root)


def _rows(A: Array, Y: Array, root: Array, total: float, mean_Y: Array) -> Rows:
    """Standardised features A, which are overwritten, and labels, rows times the root of their weight."""
    if not weigh_alike(root):
        A *= root[:, None]
    return Rows(A, weighed(Y - mean_Y, root), root / math.sqrt(total), total)


def _fit(posed: _Posed, judges: Array | None) -> tuple[RidgeFit, Judged]:
    judges = posed.root * 0 + 1 if judges is None else judges
    lam, value, (form,) = _best_forms([posed], [as_float64(judges)])
    found = _classifier(posed, coefficients(posed.rows, posed.shared, form), lam)
    return found, Judged(lam, value, _left_out(posed, form))


def _classifier(posed: _Posed, W: Array, lam: float) -> RidgeFit:
    """On raw features, of coefficients W (D, C) on standardised ones."""
    W = W * as_float64(posed.standard.gain)[:, None]
    b = as_float64(posed.mean_Y) - as_float64(posed.standard.mean) @ W
    return RidgeFit(W.T, b, lam)


def _left_out(posed: _Posed, form: Dual | Primal) -> Array:
    """Scores of each sample when it is left out."""
    return (as_float64(posed.rows.Y) - form.e) / as_float64(posed.root)[:, None] + as_float64(posed.mean_Y)


def _best_forms(
    posed: Sequence[_Posed], judges: Sequence[Array]
) -> tuple[float, float, Sequence[Dual | Primal]]:
    """The λ of least error of the judges, that error, and the forms at it, which are not computed again."""
    best: tuple[float, float, Sequence[Dual | Primal]] | None = None
    lock = Lock()  # looks may be taken side by side
    K, weight = posed[0].shared.K, as_float64(posed[0].root) ** 2
    judged = sum(float(array_namespace(one).sum(one * weight)) for one in judges)

    def error(lam: float) -> float:
        nonlocal best
        with walker(K, [slice(0)] * len(posed)) as walk:
            forms, _ = walk(lambda one: (left_out(one.rows, one.shared, lam), ()), posed)
        value = sum(loss(form.e * one[:, None], judged) for form, one in zip(forms, judges))
        with lock:
            best = (value, lam, forms) if best is None or (value, lam) < best[:2] else best
        return value

    search_lam(error, USUAL_LAM if K.shape[0] >= DEAR else None, _each_in_a_thread(K))
    assert best is not None
    value, lam, forms = best
    return lam, value, forms


def _each_in_a_thread(K: Array) -> Each:
    """`map` in threads for systems like K, but for large ones: those BLAS itself shares among its threads."""
    if K.shape[0] >= LARGE_SYSTEM:
        return map

    def each(function: Callable[[float], float], values: Sequence[float]) -> Iterable[float]:
        with walker(K, [slice(0)] * len(values)) as walk:
            return walk(lambda value: (function(value), ()), values)[0]

    return each
