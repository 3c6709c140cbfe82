"""A lower objective is not a better classifier: DCADL on digits, pass by pass.

    python benchmarks/convergence.py [--picture docs/images/convergence.png]

Each row is a fit of exactly so many passes (`tol=0`) from the same first atoms; the last line is the fit that
ends by itself. Accuracy is of test images: nothing is chosen by it.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_digits

from dcadl import DCADL
from dcadl.data import split
from machine import describe

PASSES = (1, 2, 3, 4, 5, 7, 9, 12, 15, 20, 30)
SETTING = {"n_atoms": 50, "patch_shape": 4, "stride": 2, "normalize": "patch", "random_state": 0}


def main() -> None:
    """Print the table, and draw it where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--picture", type=Path)
    picture = parser.parse_args().picture
    digits = load_digits()
    train, test = split(digits.target, per_class=90, seed=0)
    X, y = digits.images / 16, digits.target

    def measured(**end: float) -> tuple[DCADL, float]:
        model = DCADL(**SETTING, **end).fit(X[train], y[train])
        return model, 100 * model.score(X[test], y[test])

    fits = [measured(max_iter=passes, tol=0) for passes in PASSES]
    own, accuracy = measured()
    table = Table(title=f"Digits, 90 of each class, seed 0. {describe()}")
    for name in ("passes", "objective", "mean length of atoms", "dead atoms", "accuracy %"):
        table.add_column(name, justify="right")
    for model, right in fits:
        table.add_row(str(model.n_iter_), *_numbers(model, right))
    table.add_row(f"ends by itself: {own.n_iter_}, keeps {own.best_iter_}", *_numbers(own, accuracy))
    Console(width=110).print(table)
    if picture is not None:
        _draw(picture, fits, own)


def _numbers(model: DCADL, accuracy: float) -> tuple[str, ...]:
    lengths = np.linalg.norm(model.atoms_.reshape(len(model.atoms_), -1), axis=1)
    value = model.objective_[-1]
    return f"{value:.1f}", f"{lengths.mean():.3f}", str(model.n_dead_atoms_), f"{accuracy:.1f}"


def _draw(path: Path, fits: list[tuple[DCADL, float]], own: DCADL) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.plot(PASSES, [model.objective_[-1] for model, _ in fits], marker="o", color="tab:blue")
    left.set(xlabel="passes", ylabel="objective F", ylim=(0, None), title="The objective goes on falling")
    right.plot(PASSES, [accuracy for _, accuracy in fits], marker="o", color="tab:orange")
    right.axvline(own.best_iter_, color="0.5", linestyle="--")
    right.annotate(
        "kept by default", (own.best_iter_, right.get_ylim()[0]), (4, 4), textcoords="offset points"
    )
    right.set(xlabel="passes", ylabel="accuracy %", title="The classifier does not go on improving")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main()
