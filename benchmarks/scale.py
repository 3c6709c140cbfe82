"""DCADL beyond one machine's comfort: memory, growth with n, a cluster of processes, kills; LOO-ADL's memory.

    DCADL_DATA=… python benchmarks/scale.py memory|growth|cluster|features|kills|huge|loo [--passes 3]

Each fit runs in a process of its own, which reports its time and its peak memory beyond what it held
when the fit began.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from dcadl import DCADL, LOOADL
from dcadl.data import load, split
from machine import describe, timed

MNIST = {"n_atoms": 50, "patch_shape": 7, "stride": 3, "tol": 0, "random_state": 0}
HUGE = {"n_atoms": 8, "patch_shape": 16, "stride": 16, "tol": 0, "random_state": 0}
SIDE = 64  # of the synthetic images
GROWTH = (1_000, 4_000, 15_000, 60_000)
KILLS = 20


def main() -> None:
    """Print one table, or with `one` the figures of one fit as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = ["memory", "growth", "cluster", "features", "kills", "huge", "loo", "one"]
    parser.add_argument("what", choices=commands)
    parser.add_argument("--method", default="dcadl")
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--gigabytes", type=float, default=20)
    parser.add_argument("--images", type=int, default=60_000)
    parser.add_argument("--max-memory")
    parser.add_argument("--overflow", default="spill")
    parser.add_argument("--workers", type=int)
    parser.add_argument("--map", help="a .npy file of images to fit, with labels by position")
    arguments = parser.parse_args()
    if arguments.what == "one":
        print(json.dumps(one(arguments)))
        return
    print(describe())
    globals()[arguments.what](arguments)


def memory(arguments: argparse.Namespace) -> None:
    """MNIST with and without a limit."""
    rows = {"no limit": {}, "1GB": {"max_memory": "1GB"}}
    rows["500MB, spilled"] = {"max_memory": "500MB"}
    rows["500MB, recomputed"] = {"max_memory": "500MB", "overflow": "recompute"}
    found = {name: in_process(arguments, **changes) for name, changes in rows.items()}
    for name, one_fit in found.items():
        ratio = one_fit["seconds"] / found["no limit"]["seconds"]
        print(
            f"{name:17} {one_fit['seconds']:7.1f} s  {ratio:5.2f}×  peak {one_fit['peak'] / 1e9:.2f} GB  "
            f"F {one_fit['objective']:.8g}"
        )


def loo(arguments: argparse.Namespace) -> None:
    """LOO-ADL on MNIST without settings, with and without a limit."""
    for limit in (None, "1GB"):
        found = in_process(arguments, method="loo-adl", max_memory=limit)
        print(
            f"max_memory={limit}: {found['seconds']:.0f} s, {found['processor_seconds']:.0f} s of cores, "
            f"peak {found['peak'] / 1e9:.2f} GB, {100 * found['accuracy']:.2f} % of the test images right"
        )


def growth(arguments: argparse.Namespace) -> None:
    """Time of a pass and memory as n grows."""
    found = [in_process(arguments, images=n, max_memory="300MB") for n in GROWTH]
    for n, one_fit in zip(GROWTH, found):
        print(f"{n:7} images  {one_fit['pass_seconds']:7.3f} s/pass  peak {one_fit['peak'] / 1e6:5.0f} MB")
    slope = np.polyfit(np.log(GROWTH), np.log([f["pass_seconds"] for f in found]), 1)[0]
    print(f"time of a pass grows as n^{slope:.2f}")


def cluster(arguments: argparse.Namespace) -> None:
    """The same fit with one worker and with two (strong scaling), and half of it with one (weak scaling)."""
    one_worker, two = (in_process(arguments, workers=w) for w in (1, 2))
    half = in_process(arguments, workers=1, images=arguments.images // 2)
    for w, found in ((1, one_worker), (2, two)):
        print(f"{w} workers  {found['pass_seconds']:7.2f} s/pass  F {found['objective']:.10g}")
    print(f"speed of two: {one_worker['pass_seconds'] / two['pass_seconds']:.2f}×")
    print(f"half the images, 1 worker: {half['pass_seconds']:.2f} s/pass; "
          f"weak scaling to two: {half['pass_seconds'] / two['pass_seconds']:.2f}")  # fmt: skip


def features(arguments: argparse.Namespace) -> None:
    """Extended YaleB at stride 1: p·m beyond any Gram matrix."""
    bunch = load("extended_yaleb")
    X, y = bunch.data.reshape(-1, 48, 42).astype(np.float32), bunch.target
    train, test = split(y, per_class=32, seed=0)
    clock = PassClock()
    model = DCADL(n_atoms=50, patch_shape=12, stride=1, max_iter=arguments.passes, tol=0, random_state=0)
    model.set_callbacks(clock)
    with PeakMemory() as memory_used:
        seconds, _ = timed(lambda: model.fit(X[train], y[train]))
    F, patch_bytes = model.objective_, len(train) * model.grid_.p * model.grid_.d * 4
    print(f"{model.coef_.shape[1]} features: {seconds:.1f} s, {np.median(np.diff(clock.times)):.2f} s/pass")
    print(f"peak {memory_used.peak / 1e9:.2f} GB; the patches are {patch_bytes / 1e9:.2f} GB")
    print(f"F {F[0]:.4f} … {F[-1]:.4f}, largest relative change of a block {(np.diff(F) / F[:-1]).max():.1e}")
    print(f"test accuracy {100 * model.score(X[test], y[test]):.2f} %")


def kills(arguments: argparse.Namespace) -> None:
    """`kill -9` during `dcadl fit --checkpoint` at random moments; all models compared by their bytes."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        bunch = load("digits")
        np.savez(root / "data.npz", images=bunch.images, labels=bunch.target)
        whole, _ = timed(lambda: command(root, "whole").wait())
        equal = 0
        for _ in range(KILLS):
            process = command(root, "killed")
            time.sleep(random.uniform(0, whole))
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            command(root, "killed").wait()
            equal += (root / "killed").read_bytes() == (root / "whole").read_bytes()
            (root / "killed").unlink()
        print(f"undisturbed: {whole:.1f} s; {equal} of {KILLS} killed and resumed fits wrote the same bytes")


def huge(arguments: argparse.Namespace) -> None:
    """A memory map larger than the limit by far, made here and deleted."""
    with tempfile.TemporaryDirectory(dir=".") as folder:
        path = Path(folder) / "images.npy"
        n = int(arguments.gigabytes * 1e9) // (SIDE * SIDE * 4)
        rng = np.random.default_rng(0)
        images = np.lib.format.open_memmap(path, "w+", np.float32, (n, SIDE, SIDE))
        block = rng.random((4096, SIDE, SIDE), dtype=np.float32)
        for start in range(0, n, 4096):
            images[start : start + 4096] = np.roll(block, start // 4096, axis=2)[: n - start]
        del images
        found = in_process(arguments, map=str(path), max_memory="1GB")
        print(f"{n} images, {path.stat().st_size / 1e9:.1f} GB: {found['seconds']:.0f} s, "
              f"peak {found['peak'] / 1e9:.2f} GB")  # fmt: skip


def command(root: Path, name: str) -> subprocess.Popen[bytes]:
    """`dcadl fit` on the file in `root`."""
    words = f"fit {root}/data.npz -o {root}/{name} --checkpoint {root}/{name}.checkpoint --patch 4 --stride 2"
    words += " --atoms 16 --param max_iter=150 --param tol=0"
    quiet = subprocess.DEVNULL
    return subprocess.Popen([sys.executable, "-m", "dcadl.cli", *words.split()], stdout=quiet, stderr=quiet)


def in_process(arguments: argparse.Namespace, **changes: Any) -> dict[str, float]:
    """`one` in a fresh interpreter."""
    words = [sys.executable, __file__, "one", "--passes", str(arguments.passes)]
    for name, value in ({"images": arguments.images} | changes).items():
        words += [] if value is None else [f"--{name.replace('_', '-')}", str(value)]
    done = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def one(arguments: argparse.Namespace) -> dict[str, float]:
    """Time and peak memory of one fit."""
    if arguments.method == "loo-adl":
        return one_loo(arguments)
    X, y, parameters = data(arguments)
    clock = PassClock()
    model = DCADL(**parameters, max_iter=arguments.passes)
    model.set_params(max_memory=arguments.max_memory, overflow=arguments.overflow).set_callbacks(clock)
    if arguments.workers:
        seconds, _ = timed(lambda: fit_on_cluster(model, X, y, arguments.workers))
        peak = 0
    else:
        with PeakMemory() as memory_used:
            seconds, _ = timed(lambda: model.fit(X, y))
        peak = memory_used.peak
    return {
        "seconds": seconds,
        "pass_seconds": float(np.median(np.diff(clock.times))),
        "peak": peak,
        "objective": float(model.objective_[-1]),
    }


def one_loo(arguments: argparse.Namespace) -> dict[str, float]:
    """The same of LOO-ADL on MNIST, and its accuracy on the test images."""
    bunch, (X, y, _) = load("mnist"), data(arguments)
    model = LOOADL(max_memory=arguments.max_memory, random_state=0)
    before = time.process_time()
    with PeakMemory() as memory_used:
        seconds, _ = timed(lambda: model.fit(X, y))
    busy = time.process_time() - before
    accuracy = model.score(bunch.images[60_000:], bunch.target[60_000:])
    peak = memory_used.peak
    return {"seconds": seconds, "processor_seconds": busy, "peak": peak, "accuracy": accuracy}


def data(arguments: argparse.Namespace) -> tuple[Any, Any, dict[str, Any]]:
    """MNIST's training images as they are, 8 bits a pixel, or the map."""
    if arguments.map:
        X = np.load(arguments.map, mmap_mode="r")
        return X, np.arange(len(X)) % 10, HUGE
    bunch = load("mnist")
    images = bunch.images[: bunch.get("train_size", 60_000)][: arguments.images]
    return images, bunch.target[: len(images)], MNIST


def fit_on_cluster(model: DCADL, X: Any, y: Any, workers: int) -> None:
    """Fit on so many processes of one thread each."""
    import dask.array as da
    from distributed import Client

    with Client(n_workers=workers, threads_per_worker=1, dashboard_address=":0"):
        size = -(-len(X) // 8)
        model.fit(da.from_array(X, chunks=(size, *X.shape[1:])), da.from_array(y, chunks=size))


class PassClock:
    """A callback that notes when passes end."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def setup(self, estimator: Any, context: Any) -> None:
        """Nothing to prepare."""

    def teardown(self, estimator: Any, context: Any) -> None:
        """Nothing to clear away."""

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        """Nothing to note."""

    def on_fit_task_end(self, estimator: Any, context: Any) -> bool:
        """The time, if this was a pass."""
        if context.parent is not None:
            self.times.append(time.perf_counter())
        return False


class PeakMemory:
    """The most resident memory of this process beyond what it held at the start, looked at every 5 ms."""

    def __enter__(self) -> PeakMemory:
        self._base, self._most, self._stop = resident(), 0, threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(0.005):
            self._most = max(self._most, resident())

    @property
    def peak(self) -> int:
        return self._most - self._base


def resident() -> int:
    """Bytes of memory that this process holds, pages of files included."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS"))


if __name__ == "__main__":
    main()
