"""Work beside other work: its result, its errors, and who does it."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from dcadl.arrays import LARGE_SYSTEM, one_blas_thread
from dcadl.solvers.beside import beside
from dcadl.solvers.walk import walker

FEW = np.zeros((4, 1))


@pytest.fixture(autouse=True)
def two_threads():
    with threadpool_limits(2, user_api="blas"):
        yield


def test_another_thread_does_it_while_the_block_goes_on():
    begun = threading.Event()

    def work():
        begun.set()
        return threading.get_ident()

    with one_blas_thread(), beside(FEW, work) as result:
        assert begun.wait(10)
        assert result() != threading.get_ident()


def test_what_the_block_does_at_once_comes_first():
    """The other thread's long walk lets chunks of the block pass: they need both threads at once."""
    meet, done = threading.Barrier(2, timeout=10), []

    def work():
        with walker(FEW, [slice(0)] * 2) as walk:
            walk(lambda k: (done.append(k) or time.sleep(0.02), ()), range(50))

    with one_blas_thread(), beside(FEW, work) as result:
        with walker(FEW, [slice(0)] * 2) as walk:
            walk(lambda _: (meet.wait(), ()), range(2))
        assert len(done) < 50
        result()
    assert sorted(done) == list(range(50))


@pytest.mark.parametrize(
    ("X", "width"), [(FEW, 1), (np.zeros((LARGE_SYSTEM, 1)), 2)], ids=["one thread", "a large system"]
)
def test_elsewhere_it_is_done_when_it_is_asked_for(X, width):
    done = []
    with (
        threadpool_limits(width, user_api="blas"),
        beside(X, lambda: done.append(threading.get_ident())) as result,
    ):
        assert done == []
        result()
    assert done == [threading.get_ident()]


def test_its_error_is_raised_where_it_is_asked_for():
    def work():
        raise ValueError("no good")

    with beside(FEW, work) as result, pytest.raises(ValueError, match="no good"):
        result()


def interrupted(block, go_on):
    """The block, which Ctrl-C ends; then what waits for `go_on` may, and has had its time."""
    with pytest.raises(KeyboardInterrupt):
        block()
    go_on.set()
    with beside(FEW, lambda: "later") as result:
        assert result() == "later"


def test_what_nobody_has_begun_when_the_block_fails_is_never_done():
    """The only other thread is held up until the block has failed."""
    go_on, done = threading.Event(), []

    def block():
        with one_blas_thread(), beside(FEW, go_on.wait), beside(FEW, lambda: done.append(1)):
            raise KeyboardInterrupt

    interrupted(block, go_on)
    assert done == []


def test_what_has_begun_when_the_block_fails_ends_at_its_next_walk():
    begun, go_on, done = threading.Event(), threading.Event(), []

    def work():
        begun.set()
        go_on.wait(10)
        with walker(FEW, [slice(0)] * 2) as walk:
            walk(lambda k: (done.append(k), ()), range(2))

    def block():
        with one_blas_thread(), beside(FEW, work):
            assert begun.wait(10)
            raise KeyboardInterrupt

    interrupted(block, go_on)
    assert done == []
