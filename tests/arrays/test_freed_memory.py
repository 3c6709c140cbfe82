"""Memory that was freed comes back without new pages, in threads too."""

from __future__ import annotations

import ctypes
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import dcadl.arrays  # noqa: F401  (which asks for it)

resource = pytest.importorskip("resource")
SIZE = 3_000_000  # bytes: NumPy asks for huge pages from 4 MB on


def new_pages(work):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    work()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def fill_forty():
    """Arrays that take more than one piece of a thread's memory, all at once."""
    arrays = [np.ones(SIZE // 8) for _ in range(40)]
    assert len(arrays) == 40


@pytest.mark.skipif(
    sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "mallopt"), reason="needs glibc"
)
def test_arrays_of_a_thread_take_no_new_pages_the_second_time():
    with ThreadPoolExecutor(1) as pool:
        pool.submit(fill_forty).result()
        pages = new_pages(lambda: pool.submit(fill_forty).result())
    assert pages < 40 * SIZE / 4096 / 10
