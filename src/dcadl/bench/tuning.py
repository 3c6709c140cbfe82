"""Parameters chosen by cross-validation inside each seed's own training split: test rows never enter."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import stats
from sklearn.base import clone
from sklearn.experimental import enable_halving_search_cv  # noqa: F401 (opens the next import)
from sklearn.model_selection import HalvingGridSearchCV, ParameterSampler, StratifiedKFold
from threadpoolctl import threadpool_limits

from dcadl.bench.measure import seconds
from dcadl.bench.problems import fold, problem
from dcadl.bench.settings import Setting, find_class, paper, read_tuned, settings
from dcadl.estimators.files import write_atomically

FACTOR = 3  # of the halving: the best third goes on with three times the samples
MOST_CANDIDATES = 81


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


def tune_all(
    datasets: list[str],
    methods: list[str] | None,
    repeats: int,
    path: Path,
    *,
    budget_s: float,
    folds: int,
    threads: int | None,
) -> Iterator[str]:
    """Search for every method, data set and seed that `path` lacks; a line on each. Kept after each search."""
    tuned = read_tuned(path) if path.exists() else {}
    budget = Budget(budget_s / repeats, folds)
    for name in datasets:
        rows = [row for row in settings(name, methods) if row.method in paper()["spaces"]]
        for row in rows:
            for seed in range(repeats):
                mine = tuned.setdefault(name, {}).setdefault(row.label, {})
                if f"seed{seed}" in mine:
                    continue
                with threadpool_limits(limits=threads):
                    choice = tune_one(name, row, seed, budget)
                mine[f"seed{seed}"] = choice.params
                write_atomically(path, _toml(tuned, budget_s, repeats, folds).encode())
                yield _line(name, row.label, seed, choice)


def tune_one(name: str, row: Setting, seed: int, budget: Budget) -> Choice:
    """The parameters that do best in cross-validation on the training rows of one split."""
    train = fold(problem(name), seed)
    return choose(row, train.X_train, train.y_train, seed, budget)


def choose(row: Setting, X: np.ndarray, y: np.ndarray, seed: int, budget: Budget) -> Choice:
    """A halving search among the paper's own setting and random ones, as many as the budget has time for."""
    start = time.perf_counter()
    cls = find_class(row.method)
    model = cls(**row.params)
    if "random_state" in model.get_params():
        model.set_params(random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # short fits of the search need not converge
        count = _affordable(seconds(lambda: clone(model).fit(X, y)), budget)
        if count < 2:
            return Choice({}, 1, None, time.perf_counter() - start)
        points = candidates(row, seed, count)
        search = HalvingGridSearchCV(
            model,
            [{key: [value] for key, value in point.items()} for point in points],
            factor=FACTOR,
            cv=StratifiedKFold(budget.folds, shuffle=True, random_state=seed),
            min_resources="exhaust",
            random_state=seed,
            refit=False,
            error_score=0.0,  # parameters under which a method fails are bad ones
        ).fit(X, y)
    return Choice(search.best_params_, count, float(search.best_score_), time.perf_counter() - start)


def candidates(row: Setting, seed: int, count: int) -> list[dict[str, Any]]:
    """The setting as it stands, then random points of the method's space."""
    space = paper()["spaces"][row.method]
    defaults = find_class(row.method)().get_params()
    here = {key: row.params.get(key, defaults[key]) for key in space}
    drawn = ParameterSampler(
        {key: _distribution(spec) for key, spec in space.items()}, count - 1, random_state=seed
    )
    return [here, *({key: _rounded(value) for key, value in point.items()} for point in drawn)]


def _affordable(fit_s: float, budget: Budget) -> int:
    """Candidates whose halving takes about the budget: each rung costs as much as the one before."""
    rungs = 2
    whole = budget.seconds / max(fit_s * budget.folds * rungs, 1e-9)
    return int(min(MOST_CANDIDATES, whole * FACTOR / (FACTOR - 1)))


def _distribution(spec: Any) -> Any:
    return spec["any"] if isinstance(spec, dict) else stats.loguniform(*spec)


def _rounded(value: Any) -> Any:
    """Three digits say all that a random draw knows."""
    return float(f"{value:.3g}") if isinstance(value, float) else value


def _toml(tuned: dict[str, Any], budget_s: float, repeats: int, folds: int) -> str:
    """The choices as TOML: every value is a number or a word, which JSON writes alike."""
    lines = [
        f"# Chosen by `dcadl tune`: {folds}-fold cross-validation inside each seed's training split,",
        f"# {budget_s:g} s of wall clock for each method and data set, shared by {repeats} seeds.",
    ]
    for name, rows in tuned.items():
        for label, seeds in rows.items():
            lines += ["", f"[tuned.{name}.{json.dumps(label)}]"]
            for seed, params in seeds.items():
                pairs = ", ".join(f"{key} = {json.dumps(value)}" for key, value in params.items())
                lines.append(f"{seed} = {{ {pairs} }}" if pairs else f"{seed} = {{}}")
    return "\n".join(lines) + "\n"


def _line(name: str, label: str, seed: int, choice: Choice) -> str:
    if choice.score is None:
        return f"{name} {label} seed {seed}: no time to search, settings kept ({choice.spent_s:.0f} s)"
    return (
        f"{name} {label} seed {seed}: {100 * choice.score:.2f} % in cross-validation, best of "
        f"{choice.candidates} ({choice.spent_s:.0f} s): {choice.params}"
    )
