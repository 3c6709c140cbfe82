"""
Every method on a busy machine, against itself with one BLAS thread.

    python benchmarks/threads.py [--images 608] [--busy N] [--limit 2]

Keeps N cores (by default all) busy with other processes, then fits and predicts with each method in turn,
and makes a spatial pyramid, under a limit of one BLAS thread (the pyramid in one thread), and without any.
Prints both times and their ratio, and ends with status 1 where a ratio exceeds the limit. The images are
generated; nothing is read or written.
"""

import argparse
import multiprocessing
import os
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

import numpy as np
from threadpoolctl import threadpool_limits

import dcadl
from dcadl.features import SpatialPyramid

SIDE, CLASSES, ROUNDS = 32, 38, 3
LEAST_S = 0.3  # what takes less is done again: one prediction says more of its neighbours than of itself
METHODS = {
    "LOOADL": {"n_atoms": 32, "patch_shape": 7, "normalize": "whitened", "max_iter": 3, "tol": 0},
    "DCADL": {"n_atoms": 50, "patch_shape": 12, "stride": 4, "max_iter": 5, "tol": 0},
    "PatchRidge": {"patch_shape": 12, "stride": 4},
    "RandomAtoms": {"n_atoms": 50, "patch_shape": 12, "stride": 4},
    "DPL": {"n_atoms": 16, "max_iter": 5},
    "SADL": {"max_iter": 3, "tol": 0},
    "ADLSVM": {"n_atoms": 300, "max_iter": 3, "tol": 0},
    "DADL": {"max_iter": 1},
    "LCKSVD": {"n_atoms": 190, "max_iter": 2, "init_iter": 2, "sparsity": 10},
    "PCANet": {"max_iter": 20},
}


def main() -> None:
    """Time each piece of work and print one line for it."""
    options = parse()
    X, y = faces(options.images)
    slow = []
    print(f"{options.busy} cores kept busy")
    print(f"{'work':20} {'single-threaded':>16} {'as it comes':>12} {'ratio':>6}")
    with busy(options.busy):
        for name, work in pieces(X, y):
            one, free = times(work)
            print(f"{name:20} {one:14.4f} s {free:10.4f} s {free / one:6.2f}", flush=True)
            slow += [name] if free > options.limit * one else []
    if slow:
        sys.exit(f"over {options.limit:g} times the single-threaded time: {', '.join(slow)}")


def pieces(X: np.ndarray, y: np.ndarray) -> Iterator[tuple[str, Callable[[bool], object]]]:
    """Name of each piece of work, and a call that does it, single-threaded or not."""
    for name, settings in METHODS.items():
        model = getattr(dcadl, name)(**settings)
        yield f"{name} fit", lambda single, model=model: model.fit(X, y)
        yield f"{name} predict", lambda single, model=model: model.predict(X)
    pyramid = SpatialPyramid(n_words=128, step=4, random_state=0)
    yield (
        "SpatialPyramid",
        lambda single: pyramid.set_params(n_jobs=1 if single else -1).fit_transform(X / X.max()),
    )


def times(work: Callable[[bool], object]) -> tuple[float, float]:
    """Median seconds single-threaded, and as it comes."""
    found: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(ROUNDS):
        for single in (True, False):  # in turn: what else the machine does falls on both
            with threadpool_limits(1, user_api="blas") if single else nullcontext():
                found[single].append(seconds(lambda single=single: work(single)))
    return statistics.median(found[True]), statistics.median(found[False])


def seconds(call: Callable[[], object]) -> float:
    """Of one call, from as many as take long enough."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so few passes do not converge
        start, calls = time.perf_counter(), 0
        while (spent := time.perf_counter() - start) < LEAST_S:
            call()
            calls += 1
        return spent / calls


def faces(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Noisy copies of one random image for each class."""
    rng = np.random.default_rng(0)
    y = np.arange(n) % CLASSES
    X = rng.random((CLASSES, SIDE, SIDE))[y] + 0.5 * rng.random((n, SIDE, SIDE))
    return X.astype(np.float32), y


@contextmanager
def busy(cores: int) -> Iterator[None]:
    """So many processes that do nothing but count."""
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=spin, daemon=True) for _ in range(cores)]
    for process in processes:
        process.start()
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.join()


def spin() -> None:
    """Keep one core busy until killed."""
    while True:
        sum(range(1_000_000))


def parse() -> argparse.Namespace:
    """What was typed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--images", type=int, default=608)
    parser.add_argument("--busy", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--limit", type=float, default=2.0)
    return parser.parse_args()


if __name__ == "__main__":
    main()
