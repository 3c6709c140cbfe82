"""Work in processes of its own: memory is counted from nothing, and what is killed takes no other with it."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from multiprocessing import forkserver, get_all_start_methods, get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection
from typing import Any


class ProcessEndedError(Exception):
    """A process ended before its result came, after so many seconds."""

    def __init__(self, why: str, seconds: float) -> None:
        super().__init__(why)
        self.seconds = seconds


def in_processes(
    function: Callable[[Any], Any], items: Iterable[Any], jobs: int, preload: str
) -> Iterator[tuple[Any, Future[Any]]]:
    """Each item with what `function` makes of it in a process of its own, in the order in which they end.

    An item is asked for only when there is a place for it: what came before may decide what is next.
    """
    workers, queue = Workers(preload), iter(items)
    flying: dict[Future[Any], Any] = {}
    with ThreadPoolExecutor(jobs) as threads:
        try:
            while True:
                while len(flying) < jobs and (item := next(queue, None)) is not None:
                    flying[threads.submit(workers.call, function, item)] = item
                if not flying:
                    return
                for future in wait(flying, return_when=FIRST_COMPLETED).done:
                    yield flying.pop(future), future
        finally:
            workers.stop()  # interrupted: what they would have found would not be kept


class Workers:
    """Calls functions, each in a new process that ends with it, from as many threads as call."""

    def __init__(self, preload: str) -> None:
        # Forks of a server that has imported all it needs, and computed nothing: quick, and all alike.
        forks = "forkserver" in get_all_start_methods()
        self._context: Any = get_context("forkserver" if forks else "spawn")
        if forks:
            self._context.set_forkserver_preload([preload])
            _start_server()
        self._live: set[Any] = set()
        self._lock = threading.Lock()
        self._stopped = False

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """The function's result; ProcessEndedError where the process died of it."""
        receiver, sender = self._context.Pipe(duplex=False)
        process = self._context.Process(target=_answer, args=(sender, function, arguments), daemon=True)
        begun = time.monotonic()
        with self._lock:  # a process that starts while all are stopped must not be missed
            process.start()
            self._live.add(process)
            if self._stopped:
                process.terminate()
        sender.close()
        try:
            return receiver.recv()
        except EOFError:
            process.join()
            raise ProcessEndedError(_why(process.exitcode), time.monotonic() - begun) from None
        finally:
            process.join()
            self._live.discard(process)
            receiver.close()

    def stop(self) -> None:
        """End the processes that still run, and those that are about to."""
        with self._lock:
            self._stopped = True
            for process in tuple(self._live):
                process.terminate()


def _start_server() -> None:
    """Deaf to Ctrl-C from its first moment, as what is started with the signal blocked stays.

    Blocked, not ignored: a Ctrl-C of this moment reaches us when it is over.
    """
    resource_tracker.ensure_running()  # first: its start ends with the signal unblocked
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _answer(sender: Connection, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group: the parent decides
    threading.Thread(target=_end_with_parent, daemon=True).start()
    sender.send(function(*arguments))


def _end_with_parent() -> None:
    """A parent that was killed cannot end us; without it nobody would read the result."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _why(code: int | None) -> str:
    if code is not None and code < 0:
        return f"its process was ended by {signal.Signals(-code).name}; was memory short?"
    return f"its process ended with code {code}"
