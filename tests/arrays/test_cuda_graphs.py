"""Graphs where there is no device: functions run eagerly. tests/estimators/test_gpu.py has the rest."""

from __future__ import annotations

import numpy as np

from dcadl.arrays.cuda_graphs import GraphRunner, on_two_streams


def test_without_a_device_a_function_is_run_each_time(xp):
    calls = []

    def function(key, number, a, b):
        calls.append((key, number))
        return a + number * b, b

    run, a, b = GraphRunner(), xp.asarray([1.0, 2.0]), xp.asarray([3.0, 4.0])
    for number in (2.0, 3.0, 4.0):
        total, _ = run(function, "key", number, a, b)
        np.testing.assert_allclose(np.asarray(total), [1 + 3 * number, 2 + 4 * number])
    assert calls == [("key", 2.0), ("key", 3.0), ("key", 4.0)]


def test_two_functions_give_their_results_in_order():
    assert on_two_streams(lambda: (1,), lambda: (2, 3)) == ((1,), (2, 3))
