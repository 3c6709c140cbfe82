"""DCADL on vectors longer than their number: the cost is of samples squared, not of values squared.

    python benchmarks/long_vectors.py [--samples 3030] [--values 21504] [--atoms 152]

Random classes with a mean of their own each: the arithmetic is that of real features of this size. The fit
has its default end, and the classifier that predictions use. Ridge regression beside it is scikit-learn's, on
the same vectors.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from rich.console import Console
from sklearn.linear_model import RidgeClassifier

from dcadl import DCADL
from machine import describe, timed

CLASSES = 101


def main() -> None:
    """Print seconds of the clock and of the processor."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    for name, default in (("samples", 3030), ("values", 21504), ("atoms", 152)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    rng = np.random.default_rng(0)
    y = np.arange(given.samples) % CLASSES
    means = rng.standard_normal((CLASSES, given.values), dtype=np.float32)
    X = means[y] + 3 * rng.standard_normal((given.samples, given.values), dtype=np.float32)
    console = Console(width=110)
    console.print(f"{given.samples} vectors of {given.values} values, {given.atoms} atoms. {describe()}")
    for model in (DCADL(n_atoms=given.atoms, random_state=0), RidgeClassifier()):
        used = time.process_time()
        clock, _ = timed(lambda model=model: model.fit(X, y))
        used = time.process_time() - used
        passes = f", {model.n_iter_} passes" if isinstance(model, DCADL) else ""
        console.print(
            f"{type(model).__name__:16} {clock:6.1f} s, {used:6.1f} s of the processor{passes}",
            soft_wrap=True,
        )


if __name__ == "__main__":
    main()
