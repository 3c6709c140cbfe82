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
from dcadl.estimators.loo_adl import choice
from dcadl.estimators.loo_adl import learn as learning
from dcadl.estimators.loo_adl.estimator import LOOADL as Estimator
from dcadl.estimators.loo_adl.structures import Candidates, thinned
from dcadl.ops.patches import Grid
from dcadl.ops.pool import Pyramid
from dcadl.solvers.structure import LAMS, SAMPLED_WINDOWS
from machine import best_time, describe, gemm_rate

REPEATS = 3
NEAR = 3  # looks that a search for λ takes at least


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
    """Operations of the fit that made `model` of n images: 1000 to 1400, atoms learned and kept.

    Searches for λ count with the fewest looks that they can end with, line searches with one look a pass.
    What is compared or added without a product counts too: three operations a response and side.
    """
    wanted, C = model._candidates(_Shape(model)), len(model.classes_)
    chosen = sum(_choice(grid, wanted, min(n, choice.CHOICE_IMAGES), C) for grid in wanted.grids)
    m, grid, pyramid = len(model.atoms_), model.grid_, Pyramid(model.grid_.counts, model.pool_)
    D = 2 * m * pyramid.n_cells
    looks = NEAR + 2 * NEAR  # under the first atoms and those of either half; the last ridge is only solved
    ridges = 4 * (n * _features(model, grid, pyramid) + _gram(n, D)) + looks * _look(n, D, C)
    ridges += _solve(n, D, C)
    halves = 2 * _learning(model, n // 2, n, model.max_iter // 2 + 1, searches=NEAR)
    whole = _learning(model, n, n, model.n_iter_ + 1, searches=0)  # with the λ of the halves
    return chosen + _first_atoms(grid.d, m) + ridges + halves + whole


class _Shape:
    """What `LOOADL` asks of its images when it lists candidates."""

    def __init__(self, model: Estimator) -> None:
        self.shape = self.working_shape = model.image_shape_


def predict_operations(model: Estimator) -> float:
    """Operations of one prediction."""
    pyramid = Pyramid(model.grid_.counts, model.pool_)
    return _features(model, model.grid_, pyramid) + 2 * model.coef_.size


def _features(model: Estimator, grid: Grid, pyramid: Pyramid) -> float:
    """One image to its features."""
    m = len(model.atoms_)
    lengths = 2 * grid.p * grid.d**2 if model._usual else 0  # ‖ZCx‖ of every window
    return lengths + _response(grid, m) + _pooling(pyramid, m)


def _response(grid: Grid, m: int) -> float:
    return 2 * grid.p * grid.d * m


def _pooling(pyramid: Pyramid, m: int) -> float:
    """Both halves of the split codes: rows added to bands; columns to bands, bands to cells by products."""
    rows, columns = pyramid.counts
    down, across = (len(pyramid.bands(axis)) - 1 for axis in (0, 1))
    return 2 * m * (3 * rows * columns + 2 * down * across * (columns + pyramid.n_cells))


def _gram(n: int, D: int) -> float:
    """The smaller Gram matrix, of which half is computed."""
    return n * D * min(n, D)


def _look(n: int, D: int, C: int) -> float:
    """Left-out errors at one λ, in float64: factor and inverse diagonal of n × n, or the inverse of D × D."""
    if n <= D:
        return 2 * (2 / 3 * n**3 + 2 * n**2 * C)
    return 2 * (D**3 + 2 * D**2 * C) + 2 * n * D * (D + C)


def _solve(n: int, D: int, C: int) -> float:
    """The regression at a λ that is known: a factor of the smaller matrix, in float64, and coefficients."""
    side = min(n, D)
    return 2 * (1 / 3 * side**3 + 2 * side**2 * C) + 2 * n * D * C


def _first_atoms(d: int, m: int) -> float:
    """Twelve passes of k-means over sampled windows, and their second moment, in float64."""
    return 2 * SAMPLED_WINDOWS * (12 * 4 * m * d + d**2)


def _choice(grid: Grid, wanted: Candidates, n: int, C: int) -> float:
    """One window size with all normalisations and pyramids."""
    thin = thinned(grid, n, choice.CHOICE_PLACES)
    m, hows, pools = choice.CHOICE_ATOMS, wanted.normalisations_of(grid), wanted.pools
    union = Pyramid(thin.counts, tuple(sorted({g for pool in pools for g in pool})))
    lengths = 2 * thin.p * thin.d**2 if "whitened" in hows else 0
    per_image = lengths + len(hows) * (_response(thin, m) + _pooling(union, m))
    D = 2 * m * union.n_cells
    looks = len(hows) * len(pools) + len(LAMS) - 1  # one each, the others for the best alone
    kinds = len({"whitened" if how == "whitened-once" else how for how in hows})  # these share their atoms
    shared = kinds * _first_atoms(thin.d, m) + len(hows) * n**2 * D
    return n * per_image + shared + looks * _look(n, max(n, D), C)  # always by the n × n form


def _learning(model: Estimator, n: int, whole: int, looks: int, searches: int) -> float:
    """Looks at the error and its gradient of n images, at the places of the whole, after a search for λ."""
    grid, m, C = model.grid_, len(model.atoms_), len(model.classes_)
    thin = thinned(grid, whole, min(learning.LEARNING_PLACES, learning.LEARNING_VALUES // grid.d))
    pyramid = Pyramid(thin.counts, model.pool_ if n <= learning.FEW_IMAGES else learning.LEARNING_POOL)
    D = 2 * m * pyramid.n_cells
    search = (n * _features(model, thin, pyramid) + _gram(n, D) if searches else 0) + searches * _look(
        n, D, C
    )
    back = 2 * n**2 * D + 4 * n**3 if n <= D else 3 * n * D**2 + 2 * D**3 + 6 * n * D * C
    maps = 2 * n * (_response(thin, m) + _pooling(pyramid, m))  # there and back
    return search + looks * (maps + _gram(n, D) + _look(n, D, C) + back)


if __name__ == "__main__":
    main()
