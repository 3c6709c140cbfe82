"""What this machine can do just now: the rate of a large matrix product, and clocks that repeat."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np


def describe() -> str:
    """Processor, cores and versions: what a table of times must say."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.is_file():
        names = [
            line.partition(":")[2].strip() for line in info.read_text().splitlines() if "model name" in line
        ]
        model = names[0] if names else model
    return f"{model}, {os.cpu_count()} cores; Python {platform.python_version()}, NumPy {np.__version__}"


def gemm_rate(dtype: Any = np.float32, size: int = 2000, repeats: int = 5) -> float:
    """Floating-point operations a second of a size³ product, the best of some."""
    A = np.random.default_rng(0).standard_normal((size, size)).astype(dtype)
    return 2 * size**3 / best_time(lambda: A @ A, repeats)


def best_time(work: Callable[[], Any], repeats: int) -> float:
    """The shortest of `repeats` runs after one to warm up: what is left when nothing else disturbs."""
    work()
    return min(timed(work)[0] for _ in range(repeats))


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds, and what came out."""
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result
