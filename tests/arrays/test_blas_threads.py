"""Who has BLAS's threads: our own while they work, BLAS itself for what is large enough."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from dcadl.arrays import beside_others, blas_threads, blas_threads_for, one_blas_thread


@pytest.fixture(autouse=True)
def two_threads():
    """As a user may have set them."""
    np.eye(2) @ np.eye(2)  # BLAS is loaded
    with threadpool_limits(2, user_api="blas"):
        yield


def threads_of_blas():
    """Of NumPy's and SciPy's own: what another library brought, a test before may have loaded or not."""
    ours = [pool for pool in threadpool_info() if pool["user_api"] == "blas" and is_ours(pool["filepath"])]
    return {pool["num_threads"] for pool in ours}


def is_ours(library):
    return any(name in library for name in ("numpy", "scipy"))


def test_blas_has_one_thread_while_ours_work_and_its_own_again_after():
    with one_blas_thread():
        assert threads_of_blas() == {1}
    assert threads_of_blas() == {2}


def test_our_threads_are_as_many_as_blas_had():
    assert blas_threads() == 2
    with one_blas_thread():
        assert blas_threads() == 2


def test_only_large_products_get_the_threads_back():
    with one_blas_thread():
        with blas_threads_for(4000):
            assert threads_of_blas() == {2}
        with blas_threads_for(100):
            assert threads_of_blas() == {1}
        assert threads_of_blas() == {1}


def test_another_thread_does_not_get_them_back():
    """It is one of ours, beside which others work."""

    def within():
        with blas_threads_for(4000):
            return threads_of_blas()

    with one_blas_thread(), ThreadPoolExecutor(1) as pool:
        assert pool.submit(within).result() == {1}


def test_a_fit_inside_a_fit_leaves_them_to_the_outer_one():
    with one_blas_thread():
        with one_blas_thread():
            assert threads_of_blas() == {1}
        assert threads_of_blas() == {1}
    assert threads_of_blas() == {2}


def test_what_runs_beside_others_of_ours_does_not_get_them_back_either():
    with one_blas_thread():
        with beside_others(), blas_threads_for(4000):
            assert threads_of_blas() == {1}
        with blas_threads_for(4000):
            assert threads_of_blas() == {2}
