"""The walk over chunks: order, sums, errors, and BLAS left as it was found."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from dcadl.arrays import blas_threads_for
from dcadl.ops.patches import patch_grid
from dcadl.solvers.walk import SerialWalk, ThreadWalk, host_slices, threads


@pytest.fixture(params=["serial", "threads"])
def walk(request):
    with ThreadPoolExecutor(3) as pool:
        yield {"serial": SerialWalk(), "threads": ThreadWalk(pool, 3)}[request.param]


def test_what_is_kept_stays_in_order_and_the_rest_is_summed(walk):
    kept, sums = walk(lambda a, b: (a * b, (a, np.array([b, 1]))), range(20), range(20))
    assert kept == [a * a for a in range(20)]
    assert sums[0] == sum(range(20))
    np.testing.assert_array_equal(sums[1], [sum(range(20)), 20])


def test_an_error_in_a_chunk_comes_out(walk):
    def visit(a):
        raise ValueError(f"chunk {a}")

    with pytest.raises(ValueError, match="chunk 0"):
        walk(visit, range(9))


def blas_threads():
    return [info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"]


def test_blas_has_its_threads_back_afterwards():
    before = blas_threads()
    with threads(4), threads(4):
        pass
    assert blas_threads() == before


def test_blas_has_its_threads_back_when_the_first_to_come_leaves_first():
    before, entered, leave = blas_threads(), threading.Barrier(2), threading.Event()

    def stay_longer():
        with threads(4):
            entered.wait()
            leave.wait()

    with ThreadPoolExecutor(1) as pool:
        with threads(4):
            late = pool.submit(stay_longer)
            entered.wait()
        leave.set()
        late.result()

    assert blas_threads() == before


def test_a_users_limit_is_honoured():
    with threadpool_limits(1, user_api="blas"), threads(4) as walk:
        assert isinstance(walk, SerialWalk)


def test_blas_rests_under_a_users_limit_too():
    """A limit that the user set belongs to the user's thread: no other could change it.

    In a process of its own: here a thread of another test may keep BLAS for itself.
    """
    code = """
import numpy
from threadpoolctl import threadpool_info, threadpool_limits
from dcadl.solvers.walk import threads
with threadpool_limits(2, user_api="blas"), threads(4):
    print({info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"})
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "{1}"


@pytest.mark.parametrize("n", [1, 15, 300, 5_000, 60_000])
@pytest.mark.parametrize(
    ("image", "patch", "stride"), [((28, 28), 7, 3), ((48, 42), 12, 6), ((300, 200), 9, 2)]
)
def test_chunks_hold_every_image_once_and_fit_a_cache(n, image, patch, stride):
    grid = patch_grid(image, patch, stride)
    slices = host_slices(n, grid, 4)
    assert [i for part in slices for i in range(part.start, part.stop)] == list(range(n))
    sizes = [part.stop - part.start for part in slices]
    assert max(sizes) <= max(16, 8_000_000 // (grid.p * grid.d * 4))
    assert max(sizes) >= min(n, max(2, 1_000_000 // (grid.p * grid.d * 4)))
    assert len(sizes) == 1 or len(sizes) % 2 == 0 or max(sizes) - min(sizes) <= len(sizes)


def test_visits_of_several_threads_run_beside_others():
    def visit(i):
        with blas_threads_for(4000):
            pools = [pool for pool in threadpool_info() if "numpy" in pool["filepath"]]
            return {pool["num_threads"] for pool in pools}, ()

    with threadpool_limits(2, user_api="blas"), threads(4) as walk:
        found, _ = walk(visit, range(4))

    assert found == [{1}] * 4
