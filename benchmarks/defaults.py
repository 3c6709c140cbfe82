"""DCADL's defaults by evidence: cross-validation inside training halves; no test half is looked at.

    DCADL_DATA=… python benchmarks/defaults.py [--passes 5] [DATA …]
    DCADL_DATA=… python benchmarks/defaults.py --normalisation [DATA SET OF `dcadl bench` …]

Accuracy in per cent, three folds of the training half of split 0, for patches of several shares of the
shorter side (a step is half a patch), ways to normalise them and numbers of atoms. With --normalisation: the
rows that DCADL has in the tables under each way to normalise; what `normalize="auto"` chose and reached.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold, cross_val_score, cross_validate

from dcadl import DCADL
from dcadl.bench.datasets import fold, load_dataset
from dcadl.bench.settings import settings
from dcadl.data import load, split
from dcadl.solvers.code_ridge import CANDIDATES

SETS = {  # name, shape, training images of a class
    "digits": ("digits", (8, 8), 45),
    "mnist": ("mnist", (28, 28), 40),
    "yaleb": ("extended_yaleb", (48, 42), 12),
}
SHARES = (1 / 6, 1 / 4, 1 / 3, 1 / 2, 1)
ATOMS = (25, 50, 100)
BENCHED = ("digits", "extended_yaleb-5", "extended_yaleb", "mnist-10", "mnist-200", "scene15", "caltech101")
FOLDS = StratifiedKFold(3, shuffle=True, random_state=0)


def main() -> None:
    """Print one line for each candidate."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="*")
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--normalisation", action="store_true")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    if arguments.normalisation:
        print("| training part | patch | centred | image | auto | chose |\n|---|---|---|---|---|---|")
        for name in arguments.data or BENCHED:
            print(normalised_line(name), flush=True)
        return
    for name in arguments.data or SETS:
        source, shape, per_class = SETS[name]
        bunch = load(source)
        train, _ = split(bunch.target, per_class=per_class, seed=0)
        X, y = bunch.data[train].reshape(-1, *shape).astype(np.float32), bunch.target[train]
        for share in SHARES:
            for how in ("patch", "centred"):
                print(line(name, X, y, arguments.passes, share, how, 50), flush=True)
        for m in ATOMS:
            print(line(name, X, y, arguments.passes, 1 / 4, "patch", m), flush=True)


def normalised_line(name: str) -> str:
    """A row of a table: each way to normalise on the training part of the first split."""
    part = fold(load_dataset(name), 0)
    model = DCADL(**settings(name, ["DCADL"])[0].params).set_params(random_state=0)

    def tried(how: str) -> tuple[float, list[str]]:
        found = cross_validate(
            model.set_params(normalize=how), part.X_train, part.y_train, cv=FOLDS, return_estimator=True
        )
        return 100 * found["test_score"].mean(), [one.normalize_ for one in found["estimator"]]

    (auto, chosen), named = tried("auto"), [tried(how)[0] for how in CANDIDATES]
    often = ", ".join(f"{how} {chosen.count(how)}" for how in CANDIDATES if how in chosen)
    return f"| {name} | {' | '.join(f'{right:.2f}' for right in (*named, auto))} | {often} |"


def line(name: str, X: np.ndarray, y: np.ndarray, passes: int, share: float, how: str, m: int) -> str:
    """One candidate's accuracy and size."""
    side = max(1, round(min(X.shape[1:]) * share))
    model = DCADL(n_atoms=m, patch_shape=side, normalize=how, max_iter=passes, tol=0, random_state=0)
    found = cross_val_score(model, X, y, cv=FOLDS)
    return f"{name:7} patch {side:2} of {min(X.shape[1:])}  {how:7}  {m:3} atoms  {100 * found.mean():.2f} %"


if __name__ == "__main__":
    main()
