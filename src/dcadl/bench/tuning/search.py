"""One search: cross-validation inside the training split of one seed; test rows never enter."""

from __future__ import annotations

import math
import time
import warnings
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import stats
from sklearn.base import clone
from sklearn.experimental import enable_halving_search_cv  # noqa: F401 (opens the next import)
from sklearn.model_selection import HalvingGridSearchCV, ParameterSampler, StratifiedKFold, cross_val_score
from threadpoolctl import threadpool_limits

from dcadl.bench.datasets import fold, load_dataset
from dcadl.bench.measure import seconds, warm_up
from dcadl.bench.settings import Setting, benchmark_config, build

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

FACTOR = 3  # of the halving: all candidates see a third of the samples, the best third of them see all
MOST_CANDIDATES = 27


class Budget(NamedTuple):
    """What one search may cost."""

    seconds: float  # wall clock
    folds: int
    least: int = 0  # candidates, whatever they cost


class Choice(NamedTuple):
    """What one search found."""

    params: dict[str, Any]
    candidates: int
    score: float | None  # mean accuracy over folds; None where there was no time to search
    spent_s: float
    error: str | None = None  # why the method could not be run at all


class Search(NamedTuple):
    """One search to make."""

    dataset: str
    row: Setting
    seed: int


def tune_one(name: str, row: Setting, seed: int, budget: Budget, threads: int | None = None) -> Choice:
    """The parameters that do best in cross-validation on the training rows of one split."""
    train = fold(load_dataset(name), seed)
    warm_up(build(row, seed), train.X_train, train.y_train)
    with threadpool_limits(limits=threads):  # only now: the warm-up may have loaded a library with threads
        return choose(row, train.X_train, train.y_train, seed, budget)


def choose(row: Setting, X: np.ndarray, y: np.ndarray, seed: int, budget: Budget) -> Choice:
    """The setting as it stands, or the best of a halving search where that is better.

    Folds differ by chance: the best must beat the setting by one standard error of the paired differences.
    """
    start = time.perf_counter()
    X, y = X[len(y) % FACTOR :], y[len(y) % FACTOR :]  # all of them are then three thirds: folds are paired
    model = build(row, seed)
    folds = StratifiedKFold(budget.folds, shuffle=True, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # short fits of the search need not converge
        typical, deadline = _typical(row, seed), start + budget.seconds
        count = max(budget.least, _affordable(model, typical, X, y, folds, deadline))
        if count < 2:
            return Choice({}, 1, None, time.perf_counter() - start)
        own = cross_val_score(clone(model), X, y, cv=folds, error_score=0.0)
        points = candidates(row, seed, count - 1)
        best, scores = _best(model, points, X, y, folds)
    if not beats(scores, own):
        best, scores = {key: model.get_params()[key] for key in points[0]}, own
    return Choice(best, count, float(scores.mean()), time.perf_counter() - start)


def _best(
    model: BaseEstimator, points: list[dict[str, Any]], X: np.ndarray, y: np.ndarray, folds: StratifiedKFold
) -> tuple[dict[str, Any], np.ndarray]:
    """The winner of the halving, and its accuracy in each fold: none where every candidate fails."""
    search = HalvingGridSearchCV(
        model,
        [{key: [value] for key, value in point.items()} for point in points],
        factor=FACTOR,
        cv=folds,
        # A third: on fewer samples other ridges are best. All, where there are too few for a second rung.
        min_resources=len(y) // FACTOR if len(points) >= FACTOR else len(y),
        random_state=folds.random_state,
        refit=False,
        error_score=0.0,  # parameters under which a method fails are bad ones
    )
    try:
        search.fit(X, y)
    except ValueError:  # not one of them could be fitted, as the setting could
        return {}, np.zeros(folds.n_splits)
    won = search.best_index_
    each = [search.cv_results_[f"split{k}_test_score"][won] for k in range(folds.n_splits)]
    return search.best_params_, np.asarray(each)


def beats(scores: np.ndarray, own: np.ndarray) -> bool:
    """Whether the mean difference over folds is more than its standard error.

    Where one fold alone differs, both are the same number: no matter how it is rounded, that is not more.
    """
    return bool(np.mean(scores - own) > (1 + 1e-9) * stats.sem(scores - own))


def candidates(row: Setting, seed: int, count: int) -> list[dict[str, Any]]:
    """Random points of the row's space."""
    space = _space(row)
    draws = {key: _distribution(spec) for key, spec in space.items()}
    return [_point(space, draw) for draw in ParameterSampler(draws, count, random_state=seed)]


def _affordable(
    model: BaseEstimator,
    typical: dict[str, Any],
    X: np.ndarray,
    y: np.ndarray,
    folds: StratifiedKFold,
    deadline: float,
) -> int:
    """Candidates that there is time for, by one fold of the setting and of a typical candidate."""
    train, test = next(folds.split(X, y))
    own_s = folds.n_splits * _fit_and_score_seconds(model, X, y, (train, test))
    if own_s >= deadline - time.perf_counter():
        return 1
    other = clone(model).set_params(**typical)
    # Both rungs under the clock: a fit of a third of the samples need not take a third of the time.
    third = train[::FACTOR], test[::FACTOR]
    third_s = folds.n_splits * _fit_and_score_seconds(other, X, y, third, Exception)
    full_s = folds.n_splits * _fit_and_score_seconds(other, X, y, (train, test), Exception)
    return _count(deadline - time.perf_counter() - own_s, third_s, full_s)


def _fit_and_score_seconds(
    model: BaseEstimator,
    X: np.ndarray,
    y: np.ndarray,
    split: tuple[np.ndarray, np.ndarray],
    *forgiven: type[Exception],
) -> float:
    """What one fold takes; with errors that are forgiven, what it took until then."""

    def fit_and_score() -> None:
        with suppress(*forgiven):
            cross_val_score(clone(model), X, y, cv=[split], error_score="raise")

    return seconds(fit_and_score)


def _count(left_s: float, third_s: float, full_s: float) -> int:
    """The setting itself, and as many others as what it leaves is enough for.

    Fewer than three are run on all samples; more on a third of them, and the best third on all.
    """

    def cost(n: int) -> float:
        return n * full_s if n < FACTOR else n * third_s + math.ceil(n / FACTOR) * full_s

    return 1 + max(n for n in range(MOST_CANDIDATES) if cost(n) <= max(left_s, 0.0))


def _space(row: Setting) -> dict[str, Any]:
    """What may be chosen: of the row by itself, or as for all rows of its class."""
    spaces = benchmark_config()["spaces"]
    found: dict[str, Any] = spaces.get(row.label, spaces[row.method])
    return found


def _typical(row: Setting, seed: int) -> dict[str, Any]:
    """A candidate that makes as many passes as the average one."""
    point, space = candidates(row, seed, 1)[0], _space(row)
    return point | ({"max_iter": round(np.mean(space["max_iter"]["any"]))} if "max_iter" in space else {})


def _distribution(spec: Any) -> Any:
    if isinstance(spec, dict) and "any" in spec:
        return spec["any"]
    return stats.loguniform(*(spec["factor"] if isinstance(spec, dict) else spec))


def _point(space: dict[str, Any], draw: dict[str, Any]) -> dict[str, Any]:
    """The parameters that a draw means: some are drawn as multiples of others."""
    base = {key: spec["of"] for key, spec in space.items() if isinstance(spec, dict) and "of" in spec}
    return {key: _rounded(value * draw[base[key]] if key in base else value) for key, value in draw.items()}


def _rounded(value: Any) -> Any:
    """Three digits say all that a random draw knows."""
    return float(f"{value:.3g}") if isinstance(value, float) else value
