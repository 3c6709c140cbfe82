"""
Constants of LOO-ADL by training images alone: how many atoms and passes, what atoms start from, on how many
places structures are compared, whether the best of them are compared again on more images, what names an
image, and how many images say so.

    DCADL_DATA=… python benchmarks/loo_adl_constants.py [SET:IMAGES …] [--vary atoms] [--values 32,64]

Takes the first training split of `dcadl bench` (MNIST: its training part), learns from so many of its images
and asks for the classes of others of them, up to 4000. Test images are not asked. `--vary again --values
400,1400` compares structures on 400 images alone and then again on 1400; `--vary passes` and `--vary places`
say how long atoms are learned and on how many places of all images together structures are compared,
`--vary learned` from how many places atoms are learned;
`--vary first` says what atoms start from, `--vary named` whether the largest score of the ridge regression
names an image, or discriminants of the scores, `--vary judges` by how many images these are chosen.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import AbstractContextManager, nullcontext
from time import process_time
from typing import Any
from unittest import mock

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.model_selection import train_test_split

from dcadl import LOOADL
from dcadl.bench.datasets import fold, load_dataset
from dcadl.estimators.loo_adl import choice, learn
from dcadl.ops import discriminant
from dcadl.solvers import structure
from loo_adl_variants import by_largest_score, leading_directions, random_directions
from machine import describe

USUAL = ("digits:450", "extended_yaleb:608", "mnist:1000", "mnist:2000", "mnist:5000")
MOST_ASKED = 4_000
USUAL_VALUES = {
    "atoms": "32,64",
    "passes": "8,12",
    "places": "300000,1000000",
    "learned": "200000,300000",
    "again": "400,1400",
    "first": "kmeans,pca,random",
    "named": "largest,discriminant",
    "judges": "500,2000",
}
FIRST = {"kmeans": structure.signless_kmeans, "pca": leading_directions, "random": random_directions}
NAMED = {"largest": by_largest_score, "discriminant": nullcontext}
WORDS: dict[str, dict[str, Any]] = {"first": FIRST, "named": NAMED}  # values that are no numbers


def main() -> None:
    """A row for each set, a column for each setting."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "sets", nargs="*", default=USUAL, help="name and number of images, such as mnist:2000"
    )
    parser.add_argument("--vary", choices=USUAL_VALUES, default="atoms", help="what is varied")
    parser.add_argument("--values", help="its values, such as 32,64")
    parser.add_argument("--seeds", type=int, default=2, help="draws from the training split")
    options = parser.parse_args()
    console = Console(width=120)
    console.print(describe())
    given = (options.values or USUAL_VALUES[options.vary]).split(",")
    try:
        values = [WORDS[options.vary][value] if options.vary in WORDS else int(value) for value in given]
    except (KeyError, ValueError):
        parser.error(f"--values must be like {USUAL_VALUES[options.vary]}; got {options.values}")
    table = Table(title=f"Right of other training images, {options.seeds} draws; seconds of processor time")
    for column in ("", *(f"{options.vary} {value}" for value in given)):
        table.add_column(column, justify="right")
    try:
        for one in options.sets:
            name, _, n = one.partition(":")
            table.add_row(one, *_row(name, int(n), options.vary, values, options.seeds))
    except (ValueError, FileNotFoundError) as error:
        sys.exit(f"benchmarks/loo_adl_constants.py: {error}")
    console.print(table)


def _row(name: str, n: int, kind: str, values: list[Any], seeds: int) -> list[str]:
    one = fold(load_dataset(name), 0)
    X, y = one.X_train, one.y_train
    found = np.zeros((len(values), seeds, 2))
    for seed in range(seeds):
        learn, rest = train_test_split(np.arange(len(y)), train_size=n, stratify=y, random_state=seed)
        ask = rest[:MOST_ASKED]
        for i, value in enumerate(values):
            found[i, seed] = _fitted(X[learn], y[learn], X[ask], y[ask], kind, value)
            what = getattr(value, "__name__", value)
            print(f"  {name}:{n} draw {seed}, {kind} {what}: {found[i, seed, 0]:.2%}", file=sys.stderr)
    return [_cell(own[:, 0], found[0, :, 0], own[:, 1].mean()) for own in found]


def _cell(right: np.ndarray, first: np.ndarray, seconds: float) -> str:
    """Mean share right, its difference to the first column with the standard error of that, and seconds."""
    away = 100 * (right - first)
    error = away.std(ddof=1) / len(away) ** 0.5 if len(away) > 1 else np.nan
    difference = f" ({away.mean():+.2f} ± {error:.2f})" if away.any() else ""
    return f"{100 * right.mean():.2f} %{difference} {seconds:.1f} s"


def _fitted(
    X: np.ndarray, y: np.ndarray, X_ask: np.ndarray, y_ask: np.ndarray, kind: str, value: Any
) -> tuple[float, float]:
    """Share right, and seconds of the fit."""
    begin = process_time()
    given = {"atoms": "n_atoms", "passes": "max_iter"}
    model = LOOADL(random_state=0, **({given[kind]: value} if kind in given else {}))
    with _constants(kind, value, len(y)):
        model.fit(X, y)
    return model.score(X_ask, y_ask), process_time() - begin


def _constants(kind: str, value: Any, n: int) -> AbstractContextManager[Any]:
    """What is not a parameter, set for a while."""
    if kind == "places":
        return mock.patch.object(choice, "CHOICE_PLACES", value)
    if kind == "learned":
        return mock.patch.object(learn, "LEARNING_PLACES", value)
    if kind == "first":
        return mock.patch.object(structure, "signless_kmeans", value)
    if kind == "judges":
        return mock.patch.object(discriminant, "ENOUGH", value)
    if kind == "named":
        return value()
    if kind == "again":
        never = value <= choice.CHOICE_IMAGES
        return mock.patch.object(choice, "FINAL_IMAGES", n + 1 if never else value)
    return nullcontext()


if __name__ == "__main__":
    main()
