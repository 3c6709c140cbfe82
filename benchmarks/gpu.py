"""DCADL and LOO-ADL on a GPU: times of fits and predictions, with their share of the device's product rate.

    DCADL_DATA=… python benchmarks/gpu.py [--backend torch:cuda] [--cpu]

All figures come from one run: the device's float32 product rate, the times on the device (warm, the
median of several), and with --cpu the same work on the processor of the same machine.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from dcadl import DCADL, LOOADL
from dcadl.arrays import fetch, send, sync
from dcadl.data import load, split
from machine import describe, timed

YALEB = {"n_atoms": 50, "patch_shape": 12, "stride": 6, "tol": 0, "random_state": 0}
MNIST = {"n_atoms": 50, "patch_shape": 7, "stride": 3, "tol": 0, "random_state": 0}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", default="torch:cuda")
    parser.add_argument("--cpu", action="store_true", help="time the same work with NumPy too")
    arguments = parser.parse_args()
    console = Console(width=120)
    console.print(describe())
    console.print(f"{arguments.backend}: {device_name(arguments.backend)}")
    rate = product_rate(arguments.backend)
    table = Table(title=f"float32 product rate of the device: {rate / 1e12:.1f} TFLOP/s")
    for column in ("work", "device", "share of rate", "processor", "agreement"):
        table.add_column(column)
    for row in (yaleb_rows, mnist_rows, loo_adl_rows):
        for cells in row(arguments.backend, arguments.cpu, rate):
            table.add_row(*cells)
    console.print(table)


def yaleb_rows(backend: str, cpu: bool, rate: float) -> list[tuple[str, ...]]:
    """Fit with 23 passes, and prediction of many images that lie on the device."""
    bunch = load("extended_yaleb")
    X, y = bunch.data.reshape(-1, 48, 42).astype(np.float32), bunch.target
    train, _ = split(y, per_class=32, seed=0)
    n, p, d, m, C = len(train), 42, 144, 50, 38
    fit_cells = fit_row("Extended YaleB, fit, 23 passes", backend, cpu, rate, (X[train], y[train]),
                        YALEB | {"max_iter": 23}, 23 * pass_operations(n, p, d, m, C))  # fmt: skip

    model = DCADL(**YALEB, max_iter=3, backend=backend).fit(X[train], y[train])
    many = np.concatenate([X] * 83)[:200_000]
    resident = send(many, backend)
    seconds = median_time(lambda: model.predict(resident), resident, 5)
    work = len(many) * (2 * m * d * p + 2 * C * m * p)
    home = "—"
    if cpu:
        host = DCADL(**YALEB, max_iter=3).fit(X[train], y[train])
        host_seconds = median_time(lambda: host.predict(many[:20_000]), many, 3)
        home = f"{20_000 / host_seconds / 1e6:.3f} M images/s"
    same = np.mean(
        model.predict(resident[:20_000]) == model.set_params(backend="numpy").predict(many[:20_000])
    )
    cells = ("Extended YaleB, predict", f"{len(many) / seconds / 1e6:.2f} M images/s",
             f"{work / seconds / rate:.1%}", home, f"{same:.2%} same labels")  # fmt: skip
    return [fit_cells, cells]


def mnist_rows(backend: str, cpu: bool, rate: float) -> list[tuple[str, ...]]:
    """Fit on 60 000 images, 20 passes."""
    bunch = load("mnist")
    X, y = bunch.data.reshape(-1, 28, 28)[:60_000].astype(np.float32) / 255, bunch.target[:60_000]
    work = 20 * pass_operations(60_000, 64, 49, 50, 10)
    return [
        fit_row("MNIST 60 000, fit, 20 passes", backend, cpu, rate, (X, y), MNIST | {"max_iter": 20}, work)
    ]


def loo_adl_rows(backend: str, cpu: bool, rate: float) -> list[tuple[str, ...]]:
    """LOO-ADL without a setting on MNIST: 60 000 images, from the first fit in the process on."""
    bunch = load("mnist")
    X, y = bunch.data.reshape(-1, 28, 28).astype(np.float32) / 255, bunch.target
    train, test = (X[:60_000], y[:60_000]), (X[60_000:], y[60_000:])
    probe = send(np.zeros(1, np.float32), backend)
    model = LOOADL(random_state=0, backend=backend)
    cold, _ = timed(lambda: model.fit(*train))
    warm = median_time(lambda: model.fit(*train), probe, 5)
    right = f"{model.score(*test):.2%} right"
    predict = median_time(lambda: model.predict(test[0]), probe, 5)
    home, same = "—", "—"
    if cpu:
        host = LOOADL(random_state=0)
        seconds, _ = timed(lambda: host.fit(*train))
        home, same = f"{seconds:.1f} s", f"{np.mean(host.predict(test[0]) == model.predict(test[0])):.2%}"
    return [
        ("MNIST 60 000, LOO-ADL, first fit", f"{cold:.2f} s", "—", home, right),
        ("MNIST 60 000, LOO-ADL, fit", f"{warm:.2f} s", "—", home, f"{same} same labels as NumPy"),
        ("MNIST, LOO-ADL, predict 10 000 from the host", f"{1e3 * predict:.0f} ms", "—", "—", right),
    ]


def fit_row(
    name: str,
    backend: str,
    cpu: bool,
    rate: float,
    data: tuple[Any, Any],
    setting: dict[str, Any],
    work: float,
) -> tuple[str, ...]:
    """One fit on the device, against the same fit with NumPy."""
    probe = send(np.zeros(1, np.float32), backend)
    seconds = median_time(lambda: DCADL(**setting, backend=backend).fit(*data), probe, 15)
    home, agreement = "—", "—"
    if cpu:
        start = time.perf_counter()
        host = DCADL(**setting).fit(*data)
        home = f"{time.perf_counter() - start:.2f} s"
        away = DCADL(**setting, backend=backend).fit(*data)
        agreement = f"atoms {gap(away.atoms_, host.atoms_):.0e}, classifier {gap(away.coef_, host.coef_):.0e}"
    return name, f"{1e3 * seconds:.1f} ms", f"{work / seconds / rate:.1%}", home, agreement


def pass_operations(n: int, p: int, d: int, m: int, C: int) -> float:
    """What a pass does, as docs/scale.md counts it: responses and their pull on the atoms; codes in closed
    form, errors before and after, the classifier's slope and one step of it, over C − 1 contrasts."""
    return 4 * p * d * m * n + (8 + 2 + 4) * p * m * (C - 1) * n


def gap(a: np.ndarray, b: np.ndarray) -> float:
    """Relative difference."""
    return float(np.linalg.norm(a - b) / np.linalg.norm(b))


def product_rate(backend: str, size: int = 8192) -> float:
    """Floating-point operations a second of a large float32 product on the device."""
    A = send(np.random.default_rng(0).standard_normal((size, size)).astype(np.float32), backend)
    return 2 * size**3 / median_time(lambda: A @ A, A, 10)


def median_time(work: Callable[[], Any], probe: Any, repeats: int) -> float:
    """Median seconds after a warm-up, the device waited for."""
    work()
    found = []
    for _ in range(repeats):
        sync(probe)
        start = time.perf_counter()
        work()
        sync(probe)
        found.append(time.perf_counter() - start)
    return statistics.median(found)


def device_name(backend: str) -> str:
    """What the device calls itself."""
    library, _, where = backend.partition(":")
    if library == "torch":
        import torch

        name = torch.cuda.get_device_name(where) if where.startswith("cuda") else "processor"
        return f"{name}, torch {torch.__version__}, TF32 {torch.backends.cuda.matmul.allow_tf32}"
    return str(fetch(send(np.zeros(1), backend)).dtype)


if __name__ == "__main__":
    main()
