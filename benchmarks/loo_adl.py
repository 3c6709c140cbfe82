"""
LOO-ADL on raw pictures: its speed against the floor and against PCANet. Its accuracy: loo_adl_accuracy.py.

    DCADL_DATA=… python benchmarks/loo_adl.py speed

`speed` fits Extended YaleB, 32 images of each person, and predicts the rest, all in one run: read the ratios.
The floor is the number of floating-point operations that this fit, choosing included, and a prediction need
(counted below; those in float64 count twice) over the rate of a large float32 matrix product measured in the
same run.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np
from rich.console import Console
from rich.table import Table

from dcadl import LOOADL, PCANet
from dcadl.bench.settings import settings
from dcadl.data import load, split
from dcadl.estimators.loo_adl import learn as learning
from dcadl.estimators.loo_adl.estimator import LOOADL as Estimator
from dcadl.estimators.loo_adl.structures import thinned
from dcadl.ops.patches import Grid
from dcadl.ops.pool import Pyramid
from machine import best_time, describe, gemm_rate

REPEATS = 3


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=["speed"])
    parser.parse_args()
    console = Console(width=110)
    console.print(describe())
    try:
        console.print(speed())
    except (ValueError, FileNotFoundError) as error:
        sys.exit(f"benchmarks/loo_adl.py: {error}")


# --- speed -------------------------------------------------------------------------------------------------


def speed() -> Table:
    """Times on Extended YaleB and their ratios."""
    bunch = load("extended_yaleb")
    X, y = bunch.data.reshape(-1, 48, 42).astype(np.float32), bunch.target
    train, test = split(y, per_class=32, seed=0)
    rival = PCANet(**next(row.params for row in settings("extended_yaleb") if row.label == "PCANet"))
    ours = LOOADL(random_state=0)
    rate = gemm_rate()
    fit, rival_fit = (best_time(lambda m=m: m.fit(X[train], y[train]), REPEATS) for m in (ours, rival))
    predict, rival_predict = (best_time(lambda m=m: m.predict(X[test]), 7) / len(test) for m in (ours, rival))
    rate = max(rate, gemm_rate())
    floor, predict_floor = fit_operations(ours, len(train)) / rate, predict_operations(ours) / rate
    table = Table(title=f"Extended YaleB, {len(train)} to train; product rate {rate / 1e9:.0f} GFLOP/s")
    for name in ("", "LOO-ADL", "floor", "ratio", "PCANet", "ratio"):
        table.add_column(name, justify="right")
    table.add_row("fit", f"{fit:.2f} s", f"{floor:.2f} s", f"{fit / floor:.2f}", f"{rival_fit:.2f} s",
                  f"{fit / rival_fit:.2f}")  # fmt: skip
    table.add_row("predict one", f"{1e6 * predict:.0f} µs", f"{1e6 * predict_floor:.0f} µs",
                  f"{predict / predict_floor:.2f}", f"{1e6 * rival_predict:.0f} µs",
                  f"{predict / rival_predict:.2f}")  # fmt: skip
    right = [f"{m.score(X[test], y[test]):.2%}" for m in (ours, rival)]
    table.add_row("accuracy", right[0], "", "", right[1], "")
    return table


def fit_operations(model: Estimator, n: int) -> float:
    """Operations of the fit that made `model`, n images of 48 × 42 pixels, up to 1600 of them."""
    wanted = model._candidates(_Shape(model))
    chosen = sum(_choice(grid, wanted, min(n, learning.CHOICE_IMAGES)) for grid in wanted.grids)
    m, grid, pyramid = len(model.atoms_), model.grid_, Pyramid(model.grid_.counts, model.pool_)
    D = 2 * m * pyramid.n_cells
    ridges = 4 * (n * (_response(grid, m) + _pooling(pyramid, m)) + _ridge(n, D, looks=6))
    halves = 2 * _learning(grid, m, n // 2, model.max_iter // 2 + 1)
    return chosen + ridges + halves + _learning(grid, m, n, model.n_iter_ + 1)


class _Shape:
    """What `LOOADL` asks of its images when it lists candidates."""

    def __init__(self, model: Estimator) -> None:
        self.shape = self.working_shape = model.image_shape_


def predict_operations(model: Estimator) -> float:
    """Operations of one prediction."""
    pyramid, m = Pyramid(model.grid_.counts, model.pool_), len(model.atoms_)
    lengths = 2 * model.grid_.p * model.grid_.d**2 if model._usual else 0
    return lengths + _response(model.grid_, m) + _pooling(pyramid, m) + 2 * model.coef_.size


def _response(grid: Grid, m: int) -> float:
    return 2 * grid.p * grid.d * m


def _pooling(pyramid: Pyramid, m: int) -> float:
    """Both halves of the split codes: rows to bands, columns to bands, bands to cells."""
    rows, columns = pyramid.counts
    down, across = (len(pyramid.bands(axis)) - 1 for axis in (0, 1))
    return 2 * m * 2 * down * (rows * columns + columns * across + across * pyramid.n_cells)


def _ridge(n: int, D: int, looks: int) -> float:
    """One Gram matrix, and an inverse for each λ that is looked at, in float64."""
    k = min(n, D)
    return n * D * k + looks * 2 * k**3


def _choice(grid: Grid, wanted: object, n: int) -> float:
    """One window size with all normalisations and pyramids."""
    thin = thinned(grid, n, learning.CHOICE_PLACES)
    m, hows = learning.CHOICE_ATOMS, len(wanted.normalisations_of(grid))  # type: ignore[attr-defined]
    pools = wanted.pools  # type: ignore[attr-defined]
    union = Pyramid(thin.counts, tuple(sorted({g for pool in pools for g in pool})))
    per_image = 2 * thin.p * thin.d**2 + hows * (_response(thin, m) + _pooling(union, m))
    grams = hows * n**2 * 2 * m * union.n_cells
    return n * per_image + grams + hows * len(pools) * 4 * 2 * n**3


def _learning(grid: Grid, m: int, n: int, looks: int) -> float:
    """Responses and their way back, pooling both ways, and the leave-one-out error with its gradient."""
    most = min(learning.LEARNING_PLACES, learning.LEARNING_VALUES // grid.d)
    thin = thinned(grid, n, most)
    pyramid = Pyramid(thin.counts, learning.LEARNING_POOL)
    D = 2 * m * pyramid.n_cells
    k = min(n, D)
    products = 3 * 2 * n * D * k if n > D else 2 * n**2 * D + 2 * n**3
    return looks * (n * 2 * (_response(thin, m) + _pooling(pyramid, m)) + _ridge(n, D, 1) + products)


if __name__ == "__main__":
    main()
