"""DCADL's defaults by evidence: cross-validation inside training halves; no test half is looked at.

    DCADL_DATA=… python benchmarks/defaults.py [--passes 5] [DATA …]

Accuracy in per cent, three folds of the training half of split 0, for patches of several shares of the
shorter side (a step is half a patch), ways to normalise them and numbers of atoms.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold, cross_val_score

from dcadl import DCADL
from dcadl.data import load, split

SETS = {  # name, shape, training images of a class
    "digits": ("digits", (8, 8), 45),
    "mnist": ("mnist", (28, 28), 40),
    "yaleb": ("extended_yaleb", (48, 42), 12),
}
SHARES = (1 / 6, 1 / 4, 1 / 3, 1 / 2, 1)
ATOMS = (25, 50, 100)


def main() -> None:
    """Print one line for each candidate."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="*", default=list(SETS))
    parser.add_argument("--passes", type=int, default=5)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    for name in arguments.data:
        source, shape, per_class = SETS[name]
        bunch = load(source)
        train, _ = split(bunch.target, per_class=per_class, seed=0)
        X, y = bunch.data[train].reshape(-1, *shape).astype(np.float32), bunch.target[train]
        for share in SHARES:
            for how in ("patch", "centred"):
                print(line(name, X, y, arguments.passes, share, how, 50), flush=True)
        for m in ATOMS:
            print(line(name, X, y, arguments.passes, 1 / 4, "patch", m), flush=True)


def line(name: str, X: np.ndarray, y: np.ndarray, passes: int, share: float, how: str, m: int) -> str:
    """One candidate's accuracy and size."""
    side = max(1, round(min(X.shape[1:]) * share))
    model = DCADL(n_atoms=m, patch_shape=side, normalize=how, max_iter=passes, tol=0, random_state=0)
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    found = cross_val_score(model, X, y, cv=folds)
    return f"{name:7} patch {side:2} of {min(X.shape[1:])}  {how:7}  {m:3} atoms  {100 * found.mean():.2f} %"


if __name__ == "__main__":
    main()
