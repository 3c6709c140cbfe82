"""Ordered work on threads."""

import threading
import time

import pytest

from dcadl.data.parallel import parallel_map, with_progress, worker_count


@pytest.mark.parametrize("n_jobs", [None, 1, 3, -1])
def test_results_come_in_order(n_jobs):
    def slow_at_first(i):
        time.sleep(0.002 * (10 - i))
        return i * i

    assert list(parallel_map(slow_at_first, range(10), n_jobs)) == [i * i for i in range(10)]


def test_few_results_wait_in_memory():
    started = []
    results = parallel_map(started.append, range(100), 2)
    next(results)
    time.sleep(0.05)
    assert len(started) <= 6
    results.close()


def test_an_error_reaches_the_caller_and_stops_the_rest():
    seen, threads = [], threading.active_count()  # other tests may have left some

    def fail_at_three(i):
        seen.append(i)
        return 1 // (3 - i)

    with pytest.raises(ZeroDivisionError):
        list(parallel_map(fail_at_three, range(1000), 2))
    assert len(seen) < 50
    assert threading.active_count() <= threads


def test_zero_workers_are_refused():
    with pytest.raises(ValueError, match="n_jobs"):
        worker_count(0)


def test_no_bar_is_drawn_unless_asked_for(capsys):
    assert list(with_progress(range(3), 3, "counting", None)) == [0, 1, 2]
    assert capsys.readouterr().err == ""
