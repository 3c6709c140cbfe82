"""CUDA graphs: a pass that was recorded once is replayed by one launch instead of hundreds.

A pass over little data is hundreds of kernels that take less time to run than to launch. `GraphRunner` runs
pure functions of arrays; what runs them eagerly is `operator.call`, which takes the same arguments.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from dcadl.arrays import Array, import_torch

Arrays = tuple[Array, ...]
Pure = Callable[..., Arrays]  # (key, number, *arrays) -> arrays, with no other effect

MOST_BYTES = 1 << 27  # of arguments; beyond, the time of a launch no longer counts, but their copies do


class GraphRunner:
    """Runs `function(key, number, *arrays)`: eagerly the first time, then from a graph.

    A graph is kept for each `key`, which must stand for one function and the same kernels; `number` and the
    contents of the arrays may change from call to call. Whatever else the function reads must keep its
    address: a graph knows arrays by nothing else.
    """

    def __init__(self) -> None:
        self._graphs: dict[Any, Pure] = {}

    def __call__(self, function: Pure, key: Any, number: float, *arrays: Array) -> Arrays:
        if not all(_on_cuda(a) for a in arrays) or sum(a.nbytes for a in arrays) > MOST_BYTES:
            return function(key, number, *arrays)
        kind = (key, *((a.device, a.dtype, a.shape) for a in arrays))
        if kind not in _CAPTURE.warmed_up:  # libraries load code on first use, which a capture forbids
            _CAPTURE.warmed_up.add(kind)
            return function(key, number, *arrays)
        if kind not in self._graphs:
            self._graphs[kind] = _record(function, key, number, arrays)
        return self._graphs[kind](number, *arrays)


@contextmanager
def on_side_stream() -> Iterator[Callable[[], None]]:
    """What is launched inside runs beside what comes after it, until the function it gives is called.

    That is noted in a graph; without one, kernels run one after the other.
    """
    if not _CAPTURE.active:
        yield lambda: None
        return
    torch, side = import_torch(), _CAPTURE.side_stream
    here = torch.cuda.current_stream()
    side.wait_stream(here)
    with torch.cuda.stream(side):
        yield partial(here.wait_stream, side)


def _on_cuda(x: Any) -> bool:
    return bool(getattr(x, "is_cuda", False))


class _Capture(threading.local):
    """Where a thread captures graphs: its streams and memory, used again by its next graph."""

    def __init__(self) -> None:
        self.warmed_up: set[Any] = set()
        self.active = False
        self.main_stream: Any = None
        self.side_stream: Any = None
        self.pool_owner: Any = None

    def prepare(self, torch: Any) -> None:
        if self.pool_owner is None:
            self.main_stream, self.side_stream = torch.cuda.Stream(), torch.cuda.Stream()
            self.pool_owner = torch.cuda.CUDAGraph()  # a memory pool lives as long as one graph that uses it
            with torch.cuda.stream(self.main_stream):
                self.pool_owner.capture_begin(capture_error_mode="thread_local")
                torch.zeros(1, device="cuda")
                self.pool_owner.capture_end()


_CAPTURE = _Capture()


@contextmanager
def _capturing(torch: Any, graph: Any) -> Iterator[None]:
    """Kernels launched inside go to `graph`.

    Not `torch.cuda.graph`: it collects garbage and empties the cache, which takes longer than a fit.
    """
    _CAPTURE.prepare(torch)
    here, collecting = torch.cuda.current_stream(), gc.isenabled()
    _CAPTURE.main_stream.wait_stream(here)
    gc.disable()  # another graph must not be freed during a capture
    _CAPTURE.active = True
    try:
        with torch.cuda.stream(_CAPTURE.main_stream):
            graph.capture_begin(pool=_CAPTURE.pool_owner.pool(), capture_error_mode="thread_local")
            try:
                yield
            finally:
                graph.capture_end()
    finally:
        _CAPTURE.active = False
        if collecting:
            gc.enable()
    here.wait_stream(_CAPTURE.main_stream)


def _record(function: Pure, key: Any, number: float, arrays: Arrays) -> Pure:
    torch = import_torch()
    inputs = [torch.clone(a) for a in arrays]
    scalar = torch.full((), number, dtype=inputs[0].dtype, device=inputs[0].device)
    graph = torch.cuda.CUDAGraph()
    with _capturing(torch, graph):
        outputs = function(key, scalar, *inputs)

    def replay(number: float, *arrays: Array) -> Arrays:
        scalar.fill_(number)
        for mine, theirs in zip(inputs, arrays):
            mine.copy_(theirs)
        graph.replay()
        return tuple(torch.clone(a) for a in outputs)

    replay.reads = function  # type: ignore[attr-defined]  # kept alive: the graph holds addresses in it
    return replay
