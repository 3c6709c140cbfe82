"""Requests that wait at the same time are answered together: one call of the model for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from dcadl.deploy.server.limits import Limits, Refusal


class Waiting(NamedTuple):
    """Samples of one request, and where their scores are awaited."""

    X: np.ndarray
    scores: asyncio.Future[np.ndarray]


class Batcher:
    """A queue before one model. While a batch is computed, the next one gathers; nobody waits for company."""

    def __init__(self, score: Callable[[np.ndarray], np.ndarray], limits: Limits) -> None:
        self._score = score
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

    async def scores(self, X: np.ndarray) -> np.ndarray:
        """Scores (n, C) of samples (n, …), computed together with those of other requests."""
        if self.waiting + len(X) > self._limits.queue:
            raise Refusal(429, f"More than {self._limits.queue} pictures are waiting; try again later.")
        future: asyncio.Future[np.ndarray] = asyncio.get_running_loop().create_future()
        self.waiting += len(X)
        self._queue.put_nowait(Waiting(X, future))
        try:
            return await asyncio.wait_for(future, self._limits.seconds)
        except TimeoutError:
            raise Refusal(408, f"No answer within {self._limits.seconds:g} s; try again later.") from None

    async def _work(self) -> None:
        while True:
            batch = await self._next_batch()
            self.on_batch(sum(len(entry.X) for entry in batch))
            await self._answer(batch)

    async def _next_batch(self) -> list[Waiting]:
        """All that wait now, up to the limit of a batch; at least one request."""
        batch = [await self._queue.get()]
        while not self._queue.empty() and sum(len(entry.X) for entry in batch) < self._limits.batch:
            batch.append(self._queue.get_nowait())
        self.waiting -= sum(len(entry.X) for entry in batch)
        return [entry for entry in batch if not entry.scores.done()] or await self._next_batch()

    async def _answer(self, batch: list[Waiting]) -> None:
        loop = asyncio.get_running_loop()
        try:
            scores = await loop.run_in_executor(
                self._thread, self._score, np.concatenate([entry.X for entry in batch])
            )
            parts = np.split(scores, np.cumsum([len(entry.X) for entry in batch])[:-1])
        except Exception as error:  # one request's fault must not end the others' queue
            for entry in batch:
                if not entry.scores.done():
                    entry.scores.set_exception(error)
            return
        for entry, part in zip(batch, parts):
            if not entry.scores.done():
                entry.scores.set_result(part)
