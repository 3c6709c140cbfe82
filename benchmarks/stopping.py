"""When DCADL's passes should end, by three folds of training parts; no test half is looked at.

    DCADL_DATA=… python benchmarks/stopping.py [--seeds 1] [--curves] [DATA …]

Two folds of the training part of a split are fitted, pass by pass, and the third is judged on. After each
pass: the leave-one-out error that may end the fit, and the accuracy of the classifier that predictions would
use. From these curves every rule (a look every so many passes, patience, tol) says which pass it keeps. The
table has how many points its accuracy lies below that of the best number of passes for all folds of the data
set (the best pass of each fold by itself would be lucky, where folds are small), and the passes it makes.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.model_selection import StratifiedKFold

from dcadl import DCADL
from dcadl.arrays import one_blas_thread
from dcadl.bench.datasets import fold, load_dataset
from dcadl.bench.settings import settings
from dcadl.ops.codes import encode
from dcadl.solvers import code_ridge, descent
from machine import describe

PASSES, FOLDS = 30, 3
SETS = ("digits", "extended_yaleb", "mnist-50", "scene15", "caltech101")
CLASSES = 15  # of a set that has more: the first ones
OWN = (code_ridge.EVERY, code_ridge.PATIENCE, DCADL().tol)


class Rule(NamedTuple):
    """When to look, and when to end."""

    every: int
    patience: int
    tol: float


class Curve(NamedTuple):
    """One fit, pass by pass."""

    errors: list[float]
    accuracies: list[float]  # per cent


def main() -> None:
    """Print a row for each rule."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("data", nargs="*", default=SETS)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--curves", action="store_true", help="print every third pass, too")
    arguments = parser.parse_args()
    curves = {name: [*curves_of(name, arguments.seeds)] for name in arguments.data}
    console = Console(width=140)
    if arguments.curves:
        for name, found in curves.items():
            errors, rights = np.mean(found, axis=0)
            console.print(f"{name}:", *(f"{e:.4f} {a:.2f}%," for e, a in zip(errors[2::3], rights[2::3])))
    table = Table(title=f"Points below the best pass / passes made. {describe()}")
    for head in ("every", "patience", "tol", *curves, "mean points", "mean passes"):
        table.add_column(head, justify="right")
    rules = sorted(
        {Rule(*OWN), *(Rule(*one) for one in product((1, 3, 5), (6, 9, 15), (0.0, 1e-3, 1e-2, 3e-2)))}
    )
    for rule in rules:
        lost = [judged(rule, found) for found in curves.values()]
        mean = np.mean(lost, axis=0)
        cells = (f"{points:.2f} / {passes:.0f}" for points, passes in lost)
        mark = " (default)" if rule == OWN else ""
        table.add_row(
            str(rule.every),
            str(rule.patience),
            f"{rule.tol:g}{mark}",
            *cells,
            f"{mean[0]:.2f}",
            f"{mean[1]:.0f}",
        )
    console.print(table)


def judged(rule: Rule, curves: list[Curve]) -> tuple[float, float]:
    """Points that the kept passes lie below the best fixed number of passes, and the passes made; means."""
    best = np.mean([curve.accuracies for curve in curves], axis=0).max()
    found = [kept_by(rule, curve) for curve in curves]
    right = [curve.accuracies[kept - 1] for curve, (kept, _) in zip(curves, found)]
    return best - np.mean(right), np.mean([made for _, made in found])


def kept_by(rule: Rule, curve: Curve) -> tuple[int, int]:
    """The pass that is kept, and the number of passes made."""
    kept, least = 0, np.inf
    for t in range(rule.every, PASSES + 1, rule.every):
        if curve.errors[t - 1] < (1 - rule.tol) * least:
            kept, least = t, curve.errors[t - 1]
        if t - kept >= rule.patience:
            break
    return kept, t


def curves_of(name: str, seeds: int) -> Iterator[Curve]:
    """Fits with the row's setting in the tables."""
    for seed in range(seeds):
        part = fold(load_dataset(name), seed)
        X, y = (values[part.y_train < CLASSES] for values in (part.X_train, part.y_train))
        for train, judge in StratifiedKFold(FOLDS, shuffle=True, random_state=seed).split(X, y):
            model = DCADL(**settings(name, ["DCADL"])[0].params).set_params(random_state=seed)
            yield curve_of(model, X[train], y[train], X[judge], y[judge])


def curve_of(model: DCADL, X: np.ndarray, y: np.ndarray, X_judged: np.ndarray, y_judged: np.ndarray) -> Curve:
    """A fit, pass by pass."""
    curve = Curve([], [])
    with one_blas_thread():
        data = model._door(X)(model, X, y, None)
        with data.open() as (chunks, walk):
            problem = descent.pose(chunks, walk, model._lams())
            state = descent.start(problem, model._first_atoms(data, problem.G).astype(data.dtype))
            for _ in range(PASSES):
                state = descent.step(problem, state)
                code = partial(encode, state.Omega, problem.lam1, problem.split)
                found = code_ridge.leave_one_out_error(
                    chunks, walk, code, state.W.shape[1], code_ridge.LOOK_JUDGES
                )
                curve.errors.append(found)
                model._keep(data, state, model._refitted(problem, state, data.largest))
                curve.accuracies.append(100 * model.score(X_judged, y_judged))
    return curve


if __name__ == "__main__":
    main()
