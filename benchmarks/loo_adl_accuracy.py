"""
What LOO-ADL gets right: whether it reaches the accuracy it expects, and what each part of it is worth.

    DCADL_DATA=… python benchmarks/loo_adl_accuracy.py honesty [SET …] [--seeds 10]
    DCADL_DATA=… python benchmarks/loo_adl_accuracy.py ablations [SET …] [--seeds 3]
    DCADL_DATA=… python benchmarks/loo_adl_accuracy.py learning [SET …] [--seeds 10]
    python benchmarks/loo_adl_accuracy.py generated [SET …] [--seeds 3]
    DCADL_DATA=… python benchmarks/loo_adl_accuracy.py filters docs/images/loo-adl-filters.png

`honesty` compares `expected_accuracy_` with the accuracy on the test images of each split, in standard
errors of their difference, and says how far probabilities are off. `ablations` changes one thing at a time,
over paired splits. `learning` says whether eight learned atoms are better than eight unlearned ones, over
paired splits: p of the paired t-test, and of the one corrected for training sets that overlap. Sets and
splits are those of `dcadl bench`. `generated` does what `honesty` does on sets made for the purpose
(generated.py). `filters` draws learned atoms beside those they started from.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy import stats

from dcadl import LOOADL
from dcadl.bench.datasets import Fold, fold, load_dataset
from dcadl.bench.report.summary import paired_difference
from dcadl.deploy.calibration import expected_calibration_error
from generated import SETS, draw_fold
from loo_adl_variants import VARIANTS
from machine import describe

HONESTY = ("digits", "extended_yaleb-5", "extended_yaleb", "mnist-50", "mnist-500", "scene15-80x80")
ABLATED = ("digits", "extended_yaleb-5", "mnist-50")
LEARNED = ("digits", "extended_yaleb-5", "mnist-50", "mnist-500", "scene15-80x80")
MOST_TESTED = 5_000  # images, in ablations


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=["honesty", "ablations", "learning", "generated", "filters"])
    parser.add_argument("names", nargs="*", help="data sets; for filters, the file to draw to")
    parser.add_argument("--seeds", type=int, help="splits; 10 for honesty and learning, else 3")
    options = parser.parse_args()
    console = Console(width=150)
    seeds = range(options.seeds or (10 if options.what in ("honesty", "learning") else 3))
    try:
        if options.what == "filters":
            return draw_filters(*options.names)
        console.print(describe())
        tables = {"honesty": honesty, "ablations": ablations, "learning": learning, "generated": generated}
        console.print(tables[options.what](options.names, seeds))
    except (ValueError, FileNotFoundError) as error:
        sys.exit(f"benchmarks/loo_adl_accuracy.py: {error}")


# --- honesty -----------------------------------------------------------------------------------------------


def honesty(names: list[str], seeds: range) -> Table:
    """Expected against test accuracy, and calibration error, of `LOOADL()`."""
    table = _table(f"LOOADL(), {len(seeds)} splits", *JUDGED_COLUMNS)
    for name in names or HONESTY:
        found = load_dataset(name)
        table.add_row(name, *_judged(fold(found, seed) for seed in seeds))
    return table


JUDGED_COLUMNS = (
    "to train",
    "accuracy %",
    "expected %",
    "difference",
    "within 2 s.e.",
    "calibration error %",
)


def _judged(folds: Iterable[Fold]) -> list[str]:
    """Cells of one data set; a line on stderr for each fit."""
    rows = np.array([_judge(seed, one) for seed, one in enumerate(folds)])
    n, accuracy, expected, errors, calibration = rows.T
    difference = 100 * (expected - accuracy)
    spread = difference.std(ddof=1) / np.sqrt(len(rows)) if len(rows) > 1 else np.nan
    return [
        f"{n[0]:.0f}",
        f"{100 * accuracy.mean():.2f}",
        f"{100 * expected.mean():.2f}",
        f"{difference.mean():+.2f} ± {spread:.2f}",
        f"{np.sum(np.abs(expected - accuracy) <= 2 * errors)} of {len(rows)}",
        f"{100 * calibration.mean():.1f} (most {100 * calibration.max():.1f})",
    ]


def _judge(seed: int, one: Fold) -> tuple[float, ...]:
    """Images, test and expected accuracy, the standard error of their difference, calibration error."""
    model = _fitted(one, seed)
    P = model.predict_proba(one.X_test)
    right = model.classes_[P.argmax(axis=1)] == one.y_test
    accuracy, expected = float(right.mean()), model.expected_accuracy_
    error = np.sqrt(_variance(expected, model.n_judged_) + _variance(accuracy, len(right)))
    calibration = expected_calibration_error(P.max(axis=1), right)
    structure = f"{model.patch_shape_} {model.normalize_} {model.pool_}"
    atoms = f"{model.n_atoms_} atoms {'learned' if model.learned_ else 'not learned'}"
    print(f"  seed {seed}: {accuracy:.2%}, expected {expected:.2%} ± {error:.2%}; calibration error "
          f"{calibration:.1%}; {structure}, {atoms}", file=sys.stderr, flush=True)  # fmt: skip
    return len(one.y_train), accuracy, expected, error, calibration


def _variance(accuracy: float, n: int) -> float:
    """Of a share seen on n images; two right and two wrong are added, lest none wrong look certain."""
    p = (accuracy * n + 2) / (n + 4)
    return p * (1 - p) / (n + 4)


def _fitted(one: Fold, seed: int, **params: Any) -> LOOADL:
    if one.X_train.ndim == 2:
        params["image_shape"] = one.X_train.shape[1:]
    return LOOADL(random_state=seed, **params).fit(one.X_train, one.y_train)


# --- generated ---------------------------------------------------------------------------------------------


def generated(names: list[str], seeds: range) -> Table:
    """The same on sets that are drawn anew, and what atoms that nobody learned reach."""
    table = _table(f"LOOADL(), {len(seeds)} draws", *JUDGED_COLUMNS, "not learned %")
    for name in names or SETS:
        folds = [draw_fold(SETS[name], seed) for seed in seeds]
        plain = [
            _fitted(one, seed, learn=False).score(one.X_test, one.y_test) for seed, one in zip(seeds, folds)
        ]
        table.add_row(name, *_judged(folds), f"{100 * np.mean(plain):.2f}")
    return table


# --- ablations ---------------------------------------------------------------------------------------------


def ablations(names: list[str], seeds: range) -> Table:
    """Accuracy of LOO-ADL with one thing changed at a time."""
    names = names or list(ABLATED)
    table = _table(f"Accuracy in %, mean over {len(seeds)} splits", *names)
    columns = [_accuracies(name, seeds) for name in names]
    for variant in VARIANTS:
        table.add_row(variant, *(f"{100 * column[variant]:.2f}" for column in columns))
    return table


def _accuracies(name: str, seeds: range) -> dict[str, float]:
    found, sums = load_dataset(name), dict.fromkeys(VARIANTS, 0.0)
    for seed in seeds:
        one = fold(found, seed)
        for variant, (context, params) in VARIANTS.items():
            with context():
                model = _fitted(one, seed, **params)
            sums[variant] += model.score(one.X_test[:MOST_TESTED], one.y_test[:MOST_TESTED]) / len(seeds)
        print(f"  {name}, seed {seed} done", file=sys.stderr, flush=True)
    return sums


# --- learning ----------------------------------------------------------------------------------------------


def learning(names: list[str], seeds: range) -> Table:
    """Eight atoms, learned and not, over the same splits."""
    columns = ("learned %", "not learned %", "difference", "won, lost", "p", "p, corrected")
    table = _table(f"LOOADL(n_atoms=8), {len(seeds)} splits", *columns)
    for name in names or LEARNED:
        found, rows = load_dataset(name), []
        for seed in seeds:
            one = fold(found, seed)
            fits = (_fitted(one, seed, n_atoms=8, learn=learn) for learn in (True, False))
            pair = [100 * model.score(one.X_test, one.y_test) for model in fits]
            print(f"  {name}, seed {seed}: {pair[0]:.2f} % learned, {pair[1]:.2f} % not", file=sys.stderr)
            rows.append({"seed": seed, "pair": pair, "n_test": len(one.y_test), "n_train": len(one.y_train)})
        table.add_row(name, *_compared_cells(rows))
    return table


def _compared_cells(rows: list[dict[str, Any]]) -> list[str]:
    first, second = ([{**row, "accuracy": row["pair"][i] / 100} for row in rows] for i in (0, 1))
    found = paired_difference(first, second)
    assert found is not None, "two splits at least"
    learned, plain = np.array([row["pair"] for row in rows]).T
    return [
        f"{learned.mean():.2f}",
        f"{plain.mean():.2f}",
        f"{found.mean:+.2f} ± {found.error:.2f}",
        f"{found.wins}, {found.losses}",
        f"{stats.ttest_rel(learned, plain).pvalue:.2g}",
        f"{found.p:.2g}",
    ]


# --- filters -----------------------------------------------------------------------------------------------


def draw_filters(path: str) -> None:
    """Learned atoms beside those they started from, on handwritten digits and faces."""
    from matplotlib.figure import Figure

    sets = {"digits": "digits", "extended_yaleb-5": "Extended YaleB"}
    figure = Figure(figsize=(8, 2.6), layout="constrained")
    parts = figure.subfigures(1, len(sets))
    for part, (name, title) in zip(parts, sets.items()):
        one = fold(load_dataset(name), 0)
        chosen = _fitted(one, 0, n_atoms=16)
        fixed = {"patch_shape": chosen.patch_shape_, "normalize": chosen.normalize_, "pool": chosen.pool_}
        before = _fitted(one, 0, n_atoms=16, learn=False, **fixed)
        after = _fitted(one, 0, n_atoms=16, **fixed)
        part.suptitle(f"{title}: {chosen.patch_shape_[0]}×{chosen.patch_shape_[1]} pixels", fontsize=11)
        for axes, model, word in zip(part.subplots(1, 2), (before, after), ("before", "after learning")):
            axes.imshow(_tiles(model.atoms_), cmap="gray")
            axes.set_title(f"{word}: {model.score(one.X_test, one.y_test):.1%} right", fontsize=10)
            axes.set_axis_off()
    figure.savefig(path, dpi=110)


def _tiles(atoms: np.ndarray, columns: int = 4) -> np.ndarray:
    """Atoms in rows, each stretched to its own range, with gaps between."""
    atoms = atoms / np.abs(atoms).max(axis=(1, 2), keepdims=True)
    framed = np.pad(atoms, ((0, 0), (0, 1), (0, 1)), constant_values=np.nan)
    rows = framed.reshape(-1, columns, *framed.shape[1:])
    return np.concatenate([np.concatenate(list(row), axis=1) for row in rows], axis=0)


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title)
    table.add_column("")
    for column in columns:
        table.add_column(column, justify="right")
    return table


if __name__ == "__main__":
    main()
