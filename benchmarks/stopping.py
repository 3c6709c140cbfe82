"""When DCADL's passes should end, by three folds of training parts; no test half is looked at.

    DCADL_DATA=… python benchmarks/stopping.py [--repeats 3] [--curves] [DATA …]

Two folds of the training part of the first split are fitted, pass by pass, and the third is judged on; each
repeat deals the folds anew. After each pass: the leave-one-out error that may end the fit, the atoms that
have died, and the accuracy of the classifier that predictions would use. From these curves every rule (a
look every so many passes, patience, tol, whether dying atoms end the passes) says which pass it keeps. The
table has how many points its accuracy lies below that of the best number of passes for all folds of the data
set, and the passes it makes. That best is lucky, too: the last row but one has how far below it the best
number for all other folds lies in each fold, the last one how far above it the best pass of each fold by
itself.
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
OWN = (code_ridge.EVERY, code_ridge.PATIENCE, DCADL().tol, True)


class Rule(NamedTuple):
    """When to look, and when to end."""

    every: int
    patience: int
    tol: float
    guard: bool  # whether a pass with more dead atoms than the best one has ends them


class Curve(NamedTuple):
    """One fit, pass by pass."""

    errors: list[float]
    dead: list[int]
    accuracies: list[float]  # per cent


def main() -> None:
    """Print a row for each rule."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("data", nargs="*", default=SETS)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--curves", action="store_true", help="print every third pass, too")
    arguments = parser.parse_args()
    curves = {name: [*curves_of(name, arguments.repeats)] for name in arguments.data}
    console = Console(width=160)
    if arguments.curves:
        for name, found in curves.items():
            means = zip(*(row[2::3] for row in np.mean(found, axis=0)))
            console.print(f"{name}:", *(f"{e:.4f} {dead:.0f} dead {a:.2f}%," for e, dead, a in means))
    console.print(table_of(curves))


def table_of(curves: dict[str, list[Curve]]) -> Table:
    """Rules by data sets."""
    table = Table(title=f"Points below the best pass / passes made. {describe()}")
    for head in ("every", "patience", "tol", "guard", *curves, "mean points", "mean passes"):
        table.add_column(head, justify="right")
    grid = product((1, 2, 3, 5), (6, 8, 15), (1e-3, 1e-2, 3e-2), (False, True))
    for rule in sorted({Rule(*OWN), *(Rule(*one) for one in grid)}):
        lost = [judged(rule, found) for found in curves.values()]
        points, passes = np.mean(lost, axis=0)
        mark = " (default)" if rule == OWN else ""
        how = (str(rule.every), str(rule.patience), f"{rule.tol:g}", f"{rule.guard}{mark}")
        table.add_row(*how, *(f"{p:.2f} / {n:.0f}" for p, n in lost), f"{points:.2f}", f"{passes:.0f}")
    for words, luck in (("best of the others", of_others), ("own best", of_itself)):
        found = [luck(np.array([curve.accuracies for curve in one])) for one in curves.values()]
        table.add_row(words, "", "", "", *(f"{points:.2f}" for points in found), f"{np.mean(found):.2f}", "")
    return table


def of_others(accuracies: np.ndarray) -> float:
    """Points that the best number of passes of all other folds lies below that of all, (folds, passes)."""
    own = [row[np.delete(accuracies, i, axis=0).mean(axis=0).argmax()] for i, row in enumerate(accuracies)]
    return float(accuracies.mean(axis=0).max() - np.mean(own))


def of_itself(accuracies: np.ndarray) -> float:
    """The same of the best pass of each fold by itself: above, so negative."""
    return float(accuracies.mean(axis=0).max() - accuracies.max(axis=1).mean())


def judged(rule: Rule, curves: list[Curve]) -> tuple[float, float]:
    """Points that the kept passes lie below the best fixed number of passes, and the passes made; means."""
    best = np.mean([curve.accuracies for curve in curves], axis=0).max()
    found = [kept_by(rule, curve) for curve in curves]
    right = [curve.accuracies[kept - 1] for curve, (kept, _) in zip(curves, found)]
    return best - np.mean(right), np.mean([made for _, made in found])


def kept_by(rule: Rule, curve: Curve) -> tuple[int, int]:
    """The pass that is kept, and the number of passes made."""
    kept, least, most_dead = 0, np.inf, np.inf
    for t in range(rule.every, PASSES + 1, rule.every):
        error, dead = curve.errors[t - 1], curve.dead[t - 1] if rule.guard else 0
        if dead > most_dead:
            break
        if error < (1 - rule.tol) * least:
            kept, least, most_dead = t, error, dead
        if t - kept >= rule.patience:
            break
    return kept, t


def curves_of(name: str, repeats: int) -> Iterator[Curve]:
    """Fits with the row's setting in the tables."""
    part = fold(load_dataset(name), 0)
    X, y = (values[part.y_train < CLASSES] for values in (part.X_train, part.y_train))
    for repeat in range(repeats):
        for train, judge in StratifiedKFold(FOLDS, shuffle=True, random_state=repeat).split(X, y):
            model = DCADL(**settings(name, ["DCADL"])[0].params).set_params(random_state=repeat)
            yield curve_of(model, X[train], y[train], X[judge], y[judge])


def curve_of(model: DCADL, X: np.ndarray, y: np.ndarray, X_judged: np.ndarray, y_judged: np.ndarray) -> Curve:
    """A fit, pass by pass."""
    curve = Curve([], [], [])
    with one_blas_thread():
        data = model._door(X)(model, X, y, None)
        with data.open() as (chunks, walk):
            problem = descent.pose(chunks, walk, model._lams())
            state = descent.start(problem, model._first_atoms(data, problem.G).astype(data.dtype))
            for _ in range(PASSES):
                state = descent.step(problem, state)
                code, D = partial(encode, state.Omega, problem.lam1, problem.split), state.W.shape[1]
                judges = code_ridge.judges_of_passes(D)
                error, F = code_ridge.leave_one_out_error(chunks, walk, code, D, judges)
                curve.errors.append(error)
                curve.dead.append(code_ridge.silent_atoms(F, model.n_atoms))
                model._keep(data, state, model._refitted(problem, state, data.largest))
                curve.accuracies.append(100 * model.score(X_judged, y_judged))
    return curve


if __name__ == "__main__":
    main()
