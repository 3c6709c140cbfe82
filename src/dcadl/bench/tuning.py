"""Parameters chosen by cross-validation inside each seed's own training split: test rows never enter."""

from __future__ import annotations

import json
import math
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import stats
from sklearn.base import clone
from sklearn.experimental import enable_halving_search_cv  # noqa: F401 (opens the next import)
from sklearn.model_selection import HalvingGridSearchCV, ParameterSampler, StratifiedKFold, cross_val_score
from threadpoolctl import threadpool_limits

from dcadl.atomic import write_atomically
from dcadl.bench.measure import seconds, warm_up
from dcadl.bench.problems import fold, problem
from dcadl.bench.records import short
from dcadl.bench.settings import Setting, build, paper, read_tuned, rows_of
from dcadl.bench.workers import ProcessEndedError, side_by_side

FACTOR = 3  # of the halving: all candidates see a third of the samples, the best third of them see all
MOST_CANDIDATES = 27


class Budget(NamedTuple):
    """What one search may cost."""

    seconds: float  # wall clock
    folds: int


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


class Told(NamedTuple):
    """A line on a search, and whether its method failed."""

    text: str
    failed: bool


def tune_all(
    datasets: list[str],
    methods: list[str] | None,
    repeats: int,
    path: Path,
    *,
    budget_s: float,
    folds: int,
    threads: int | None,
    jobs: int = 1,
) -> Iterator[Told]:
    """Search for every method, data set and seed that `path` lacks; keep each choice; a line on each.

    Seed by seed: once a method had no time to search in its first seed, no other of its seeds is begun.
    A method that fails is named and left out; the next start tries it again.
    """
    done = _Done(path, budget_s, repeats, folds)
    rows = rows_of(datasets, methods)
    tunable = [(name, row) for name in datasets for row in rows[name] if _is_tunable(row)]
    if not tunable:
        raise ValueError(f"none of these is tuned: {', '.join(methods or ())}, which stay as they were run.")
    every = [Search(*row, seed) for seed in range(repeats) for row in tunable]
    for name in {search.dataset for search in every if not done.has(search)}:
        problem(name)  # missing data is the user's to mend: not a failed method
    budget = Budget(budget_s / repeats, folds)
    # Asked when a search is about to begin, not when it is planned: some first seeds are known by then.
    todo = (s for s in every if not done.has(s) and not done.hopeless(s))
    one = partial(_choice_of, budget=budget, threads=threads)
    found = ((s, _outcome(future)) for s, future in side_by_side(one, todo, jobs, preload=__name__))
    failed: list[Search] = []
    no_time = ((s, Choice({}, 1, None, 0.0)) for s in every if not done.has(s) and s not in failed)
    for search, choice in chain(found, no_time):
        if choice.error is None:
            done.keep(search, choice)
        else:
            failed.append(search)
        count = sum(map(done.has, every)) + len(failed)
        yield Told(f"{count} of {len(every)}: {_line(search, choice)}", choice.error is not None)


def _is_tunable(row: Setting) -> bool:
    return row.method in paper()["spaces"] and row.label not in paper()["untuned"]


def _choice_of(search: Search, budget: Budget, threads: int | None) -> Choice:
    """What the search found; what goes wrong inside the method is part of it."""
    try:
        return tune_one(*search, budget, threads)
    except Exception as error:
        return _failed(error)


def _outcome(future: Future[Choice]) -> Choice:
    try:
        return future.result()
    except ProcessEndedError as error:
        return _failed(error)


def _failed(error: Exception) -> Choice:
    return Choice({}, 1, None, 0.0, short(error))


def tune_one(name: str, row: Setting, seed: int, budget: Budget, threads: int | None = None) -> Choice:
    """The parameters that do best in cross-validation on the training rows of one split."""
    train = fold(problem(name), seed)
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
        count = _affordable(model, _typical(row.method, seed), X, y, folds, start + budget.seconds)
        if count < 2:
            return Choice({}, 1, None, time.perf_counter() - start)
        own = cross_val_score(clone(model), X, y, cv=folds, error_score=0.0)
        points = candidates(row.method, seed, count - 1)
        best, scores = _best(model, points, X, y, folds)
    if not beats(scores, own):
        best, scores = {key: model.get_params()[key] for key in points[0]}, own
    return Choice(best, count, float(scores.mean()), time.perf_counter() - start)


def _best(
    model: Any, points: list[dict[str, Any]], X: np.ndarray, y: np.ndarray, folds: StratifiedKFold
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


def candidates(method: str, seed: int, count: int) -> list[dict[str, Any]]:
    """Random points of the method's space."""
    space = paper()["spaces"][method]
    draws = {key: _distribution(spec) for key, spec in space.items()}
    return [_point(space, draw) for draw in ParameterSampler(draws, count, random_state=seed)]


def _affordable(
    model: Any, typical: dict[str, Any], X: np.ndarray, y: np.ndarray, folds: StratifiedKFold, deadline: float
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
    model: Any, X: np.ndarray, y: np.ndarray, split: tuple[np.ndarray, np.ndarray], *forgiven: type[Exception]
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


def _typical(method: str, seed: int) -> dict[str, Any]:
    """A candidate that makes as many passes as the average one."""
    point, space = candidates(method, seed, 1)[0], paper()["spaces"][method]
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


class _Done:
    """The TOML file: choices under `tuned`, how each was found under `searches`."""

    def __init__(self, path: Path, budget_s: float, repeats: int, folds: int) -> None:
        self._path = path
        self._tables = self._read()
        self._facts = {"budget_s": round(budget_s / repeats, 3), "folds": folds}

    def has(self, search: Search) -> bool:
        """Whether there is a choice that this much time would not change."""
        seed = f"seed{search.seed}"
        how = self._known("searches", search).get(seed, {"cross_validated": None})
        return seed in self._known("tuned", search) and ("cross_validated" in how or self._no_longer(how))

    def hopeless(self, search: Search) -> bool:
        """Whether the first seed had no time to search, in as much time."""
        first = self._known("searches", search).get("seed0")
        return first is not None and "cross_validated" not in first and self._no_longer(first)

    def _no_longer(self, how: dict[str, Any]) -> bool:
        return bool(self._facts["budget_s"] <= how["budget_s"] and self._facts["folds"] >= how["folds"])

    def keep(self, search: Search, choice: Choice) -> None:
        """On disk, whole, before the next search; beside what another command has written in the meantime."""
        self._tables = self._read()
        how = {"candidates": choice.candidates, "spent_s": round(choice.spent_s, 1), **self._facts}
        if choice.score is not None:
            how["cross_validated"] = round(choice.score, 5)
        for table, values in (("tuned", choice.params), ("searches", how)):
            sets = self._tables.setdefault(table, {})
            seeds = sets.setdefault(search.dataset, {}).setdefault(search.row.label, {})
            seeds[f"seed{search.seed}"] = values
        write_atomically(self._path, self._text().encode())

    def _read(self) -> dict[str, Any]:
        if not self._path.exists():
            return {}
        return {table: read_tuned(self._path, table) for table in ("tuned", "searches")}

    def _known(self, table: str, search: Search) -> dict[str, Any]:
        return self._tables.get(table, {}).get(search.dataset, {}).get(search.row.label, {})

    def _text(self) -> str:
        """Every value is a number or a word, which TOML and JSON write alike."""
        lines = ["# Chosen by `dcadl tune`, by cross-validation inside the training split of each seed."]
        for table, sets in self._tables.items():
            for name, rows in sets.items():
                for label, seeds in rows.items():
                    lines += ["", f"[{table}.{name}.{json.dumps(label)}]"]
                    lines += [f"{seed} = {_inline(values)}" for seed, values in seeds.items()]
        return "\n".join(lines) + "\n"


def _inline(values: dict[str, Any]) -> str:
    pairs = ", ".join(f"{key} = {json.dumps(value)}" for key, value in values.items())
    return f"{{ {pairs} }}" if pairs else "{}"


def _line(search: Search, choice: Choice) -> str:
    name, row, seed = search
    if choice.error is not None:
        return f"{name} {row.label} seed {seed}: failed: {choice.error}"
    if choice.score is None:
        return f"{name} {row.label} seed {seed}: no time to search, settings kept ({choice.spent_s:.0f} s)"
    return (
        f"{name} {row.label} seed {seed}: {100 * choice.score:.2f} % in cross-validation, best of "
        f"{choice.candidates} ({choice.spent_s:.0f} s): {choice.params}"
    )
