"""The last classifier: its accuracy beside PatchRidge, which solves the same regression on the patches.

    DCADL_DATA=… python benchmarks/refit.py yaleb     # ten splits, the paper's setting
    DCADL_DATA=… python benchmarks/refit.py mnist     # 500 images of each digit, 50 atoms of 7×7, stride 3

Test accuracy in per cent, for each split and on average; nothing is chosen by it.
"""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any

import numpy as np

from dcadl import DCADL, PatchRidge
from dcadl.data import load, split
from machine import describe, timed

SETS: dict[str, dict[str, Any]] = {
    "yaleb": {
        "name": "extended_yaleb", "shape": (48, 42), "per_class": 32, "splits": 10,
        "patches": {"patch_shape": 12, "stride": 6, "normalize": "patch"},
        "fit": {"n_atoms": 50},
    },
    "mnist": {
        "name": "mnist", "shape": (28, 28), "per_class": 500, "splits": 1,
        "patches": {"patch_shape": 7, "stride": 3, "normalize": "patch"},
        "fit": {"n_atoms": 50},
    },
}  # fmt: skip


def main() -> None:
    """Print a line for each split, then the means."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=SETS)
    parser.add_argument("--splits", type=int)
    arguments = parser.parse_args()
    known = SETS[arguments.what]
    bunch = load(known["name"])
    X, y = bunch.data.reshape(-1, *known["shape"]).astype(np.float32), bunch.target
    print(describe())
    found = []
    for seed in range(arguments.splits or known["splits"]):
        train, test = split(y, per_class=known["per_class"], seed=seed)
        models = (
            DCADL(**known["patches"], **known["fit"], random_state=seed),
            PatchRidge(**known["patches"]),
        )
        line = []
        for model in models:
            seconds, _ = timed(partial(model.fit, X[train], y[train]))
            line.append(100 * model.score(X[test], y[test]))
            print(f"split {seed}  {type(model).__name__:10}  {line[-1]:.2f} %  {seconds:5.1f} s", flush=True)
        found.append(line)
    means = np.mean(found, axis=0)
    print(f"mean of {len(found)}: DCADL {means[0]:.2f} %, PatchRidge {means[1]:.2f} %")


if __name__ == "__main__":
    main()
