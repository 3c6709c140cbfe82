"""BLAS's own threads, put aside while ours run: the one place that sets their number."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from threadpoolctl import ThreadpoolController


class _BlasThreads:
    """How many threads BLAS has, and who has set that.

    threadpoolctl lets only the thread that set a limit change it. So of fits side by side the first sets
    one, and takes it with it; one that takes longer then shares the processor with BLAS's threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held = False
        self._full = 1

    def width(self) -> int:
        """Threads that BLAS may use: a user's own limit is honoured."""
        with self._lock:
            return self._full if self._held else _blas_width()

    @contextmanager
    def single(self) -> Iterator[None]:
        """One BLAS thread, unless another fit sees to that."""
        with self._lock:
            free, self._held = not self._held, True
            if free:
                self._full = _blas_width()
        if not free:
            yield
            return
        try:
            with _controller().limit(limits=1, user_api="blas"):
                yield
        finally:
            with self._lock:
                self._held = False


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()  # a look at every loaded library: not to be repeated for each prediction


def _blas_width() -> int:
    return max((info["num_threads"] for info in _controller().select(user_api="blas").info()), default=1)


_BLAS = _BlasThreads()
blas_threads = _BLAS.width
one_blas_thread = _BLAS.single
