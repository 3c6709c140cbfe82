"""Parameters chosen by cross-validation inside each seed's own training split: test rows never enter."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Iterator
from functools import partial
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
    """Search for every method, data set and seed that `path` lacks; keep each choice; a line on each."""
    done = _Done(path, budget_s, repeats, folds)
    for name in datasets:
        for row in settings(name, methods):
            for seed in range(repeats if row.method in paper()["spaces"] else 0):
                if done.has(name, row.label, seed):
                    continue
                with threadpool_limits(limits=threads):
                    choice = tune_one(name, row, seed, Budget(budget_s / repeats, folds))
                done.keep(name, row.label, seed, choice)
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
        fit = partial(clone(model).fit, X, y)
        first = seconds(fit)
        usual = min(first, seconds(fit)) if first < 1 else first  # the first may be cold
        count = _affordable(usual * _relative_length(row), budget)
        if count < 2:
            return Choice({}, 1, None, time.perf_counter() - start)
        points = candidates(row, seed, count)
        search = HalvingGridSearchCV(
            model,
            [{key: [value] for key, value in point.items()} for point in points],
            factor=FACTOR,
            cv=StratifiedKFold(budget.folds, shuffle=True, random_state=seed),
            min_resources=max(len(y) // FACTOR, 1),  # on fewer samples other ridges are best
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
    """Candidates whose halving takes about the budget: two rungs, each as long as a third of them in full."""
    per_candidate = fit_s * budget.folds * 2 / FACTOR
    return int(min(MOST_CANDIDATES, budget.seconds / max(per_candidate, 1e-9)))


def _relative_length(row: Setting) -> float:
    """How long a candidate takes, against the setting as it stands: by its number of passes."""
    passes = paper()["spaces"][row.method].get("max_iter")
    own = row.params.get("max_iter")
    return 1.0 if passes is None or own is None else float(np.mean(passes["any"])) / own


def _distribution(spec: Any) -> Any:
    return spec["any"] if isinstance(spec, dict) else stats.loguniform(*spec)


def _rounded(value: Any) -> Any:
    """Three digits say all that a random draw knows."""
    return float(f"{value:.3g}") if isinstance(value, float) else value


class _Done:
    """The TOML file: choices under `tuned`, how each was found under `searches`."""

    def __init__(self, path: Path, budget_s: float, repeats: int, folds: int) -> None:
        self._path = path
        self._tables = (
            {"tuned": read_tuned(path), "searches": read_tuned(path, "searches")} if path.exists() else {}
        )
        self._facts = {"budget_s": round(budget_s / repeats, 3), "folds": folds}

    def has(self, name: str, label: str, seed: int) -> bool:
        return f"seed{seed}" in self._tables.get("tuned", {}).get(name, {}).get(label, {})

    def keep(self, name: str, label: str, seed: int, choice: Choice) -> None:
        """On disk, whole, before the next search."""
        how = {"candidates": choice.candidates, "spent_s": round(choice.spent_s, 1), **self._facts}
        if choice.score is not None:
            how["cross_validated"] = round(choice.score, 5)
        for table, values in (("tuned", choice.params), ("searches", how)):
            self._tables.setdefault(table, {}).setdefault(name, {}).setdefault(label, {})[f"seed{seed}"] = (
                values
            )
        write_atomically(self._path, self._text().encode())

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


def _line(name: str, label: str, seed: int, choice: Choice) -> str:
    if choice.score is None:
        return f"{name} {label} seed {seed}: no time to search, settings kept ({choice.spent_s:.0f} s)"
    return (
        f"{name} {label} seed {seed}: {100 * choice.score:.2f} % in cross-validation, best of "
        f"{choice.candidates} ({choice.spent_s:.0f} s): {choice.params}"
    )
