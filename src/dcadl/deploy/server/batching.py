"""Requests that wait at the same time are answered together: one call for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from dcadl.deploy.server.limits import Limits, Refusal

# Rounds of the event loop in which an answer is sent, the next request arrives, is read and is queued.
# By benchmarks/serve.py: with 2 or 3 the halves that `_arrivals` speaks of remain, 6 gain nothing over 4.
ROUNDS = 4


class Waiting(NamedTuple):
    """Samples of one request, and where their answers are awaited."""

    X: np.ndarray
    answers: asyncio.Future[Sequence[Any]]


class Batcher:
    """A queue before one model. While a batch is computed, the next one gathers; no clock holds it back.

    `answer` gives one answer for each sample. It runs in one thread: however many ask, the memory that it
    takes is that of one batch.
    """

    def __init__(self, answer: Callable[[np.ndarray], Sequence[Any]], limits: Limits) -> None:
        self._answer = answer
        self._limits = limits
        self._queue: asyncio.Queue[Waiting] = asyncio.Queue()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="dcadl-model")
        self._task: asyncio.Task[None] | None = None
        self.waiting = 0  # samples
        self.on_batch: Callable[[int], None] = lambda size: None

    def start(self) -> None:
        """Begin to work; inside a running event loop."""
        self._task = asyncio.create_task(self._work())

    async def stop(self) -> None:
        """Stop working; who still waits is told so."""
        if self._task is not None:
            self._task.cancel()
        self._thread.shutdown(wait=False)

    async def ask(self, X: np.ndarray) -> Sequence[Any]:
        """Answers to samples (n, …), computed together with those of other requests."""
        if self.waiting + len(X) > self._limits.queue:
            raise Refusal(429, f"More than {self._limits.queue} pictures are waiting; try again later.")
        future: asyncio.Future[Sequence[Any]] = asyncio.get_running_loop().create_future()
        self.waiting += len(X)
        self._queue.put_nowait(Waiting(X, future))
        try:
            return await asyncio.wait_for(future, self._limits.seconds)
        except TimeoutError:
            raise Refusal(408, f"No answer within {self._limits.seconds:g} s; try again later.") from None

    async def _work(self) -> None:
        while True:
            batch = await self._next_batch()
            live = [entry for entry in batch if not entry.answers.done()]  # the others waited too long
            # of one shape, unless the model was replaced by one of another while they waited
            for shape in dict.fromkeys(entry.X.shape[1:] for entry in live):
                await self._answer_all([entry for entry in live if entry.X.shape[1:] == shape])

    async def _next_batch(self) -> list[Waiting]:
        """All that wait now, up to the limit of a batch; at least one request."""
        if not self._queue.empty():  # never so where one client asks alone: it is answered at once
            await self._arrivals()
        batch = [await self._queue.get()]
        while not self._queue.empty() and sum(len(entry.X) for entry in batch) < self._limits.batch:
            batch.append(self._queue.get_nowait())
        self.waiting -= sum(len(entry.X) for entry in batch)
        return batch

    async def _arrivals(self) -> None:
        """Let the event loop send the last answers and read what comes, while that makes the batch larger.

        Else clients that ask again and again fall into two halves, each computed while the other is read.
        """
        before = 0
        while before < self.waiting < self._limits.batch:
            before = self.waiting
            for _ in range(ROUNDS):
                await asyncio.sleep(0)

    async def _answer_all(self, batch: list[Waiting]) -> None:
        loop, X = asyncio.get_running_loop(), np.concatenate([entry.X for entry in batch])
        self.on_batch(len(X))
        try:
            found = await loop.run_in_executor(self._thread, self._answer, X)
        except Exception as error:  # one request's fault must not end the others' queue
            await self._blame(batch, error)
            return
        end = 0
        for entry in batch:
            start, end = end, end + len(entry.X)
            if not entry.answers.done():
                entry.answers.set_result(found[start:end])

    async def _blame(self, batch: list[Waiting], error: Exception) -> None:
        """Tell the one whose fault it is: of several requests each is answered again by itself."""
        if len(batch) > 1:
            for entry in batch:
                await self._answer_all([entry])
        elif not batch[0].answers.done():
            batch[0].answers.set_exception(error)
