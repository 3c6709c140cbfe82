"""What this machine can do just now: the rate of a large matrix product, and clocks that repeat."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from dcadl.bench.environment import environment


def describe() -> str:
    """Processor, cores and versions: what a table of times must say."""
    found = environment()
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    return f"{found['processor']}, {found['cores']} cores; Python {found['python']}, {versions}"


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
