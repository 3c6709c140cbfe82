"""Graphs where there is no device: functions run eagerly. tests/estimators/test_gpu.py has the rest."""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest

from dcadl.arrays import cuda_graphs
from dcadl.arrays.cuda_graphs import GraphRunner, on_side_stream


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


def test_outside_a_graph_there_is_nothing_to_wait_for(monkeypatch):
    monkeypatch.setattr(cuda_graphs, "import_torch", lambda: pytest.fail("no device was asked for"))
    with on_side_stream() as wait:
        found = 1
    wait()
    assert found == 1


def test_in_a_graph_work_aside_begins_after_what_was_before_and_is_waited_for(monkeypatch):
    launched = []
    streams = {name: Stream(name, launched) for name in ("main", "side")}
    monkeypatch.setattr(cuda_graphs, "import_torch", lambda: SimpleNamespace(cuda=Cuda(streams["main"])))
    monkeypatch.setattr(cuda_graphs._CAPTURE, "active", True)
    monkeypatch.setattr(cuda_graphs._CAPTURE, "side_stream", streams["side"])
    with on_side_stream() as wait:
        launched.append("aside")
    launched.append("beside")
    wait()
    assert launched == ["side waits for main", "to side", "aside", "back", "beside", "main waits for side"]


class Stream:
    """A stream that tells what it waits for."""

    def __init__(self, name, launched):
        self.name, self.launched = name, launched

    def wait_stream(self, other):
        self.launched.append(f"{self.name} waits for {other.name}")


class Cuda:
    """What torch.cuda has of streams."""

    def __init__(self, current):
        self._current = current

    def current_stream(self):
        return self._current

    @contextmanager
    def stream(self, stream):
        stream.launched.append(f"to {stream.name}")
        yield
        stream.launched.append("back")
