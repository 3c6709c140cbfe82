"""Requests that wait together: answered together, each for itself at fault, none for ever."""

from __future__ import annotations

import asyncio
import time

import numpy as np

from dcadl.deploy.server.batching import Batcher
from dcadl.deploy.server.limits import Limits, Refusal


def test_samples_for_the_old_model_and_for_the_new_one_may_wait_together():
    async def two():
        batcher = Batcher(lambda X: X.reshape(len(X), -1).sum(axis=1), Limits())
        batcher.start()
        found = await asyncio.gather(batcher.ask(np.ones((2, 3))), batcher.ask(np.ones((1, 2, 2))))
        await batcher.stop()
        return [each.tolist() for each in found]

    assert asyncio.run(two()) == [[3, 3], [4]]


def test_what_waits_together_is_answered_together():
    sizes = []

    def score(X):
        sizes.append(len(X))
        time.sleep(0.05)
        return X * 2

    async def many():
        batcher = Batcher(score, Limits(batch=8))
        batcher.start()
        found = await asyncio.gather(*(batcher.ask(np.full((1, 3), i)) for i in range(13)))
        await batcher.stop()
        return found

    found = asyncio.run(many())

    np.testing.assert_array_equal(np.concatenate(found)[:, 0], 2 * np.arange(13))
    assert sizes == [8, 5]


async def ask_in_rounds(batch, rounds):
    """Sizes of batches where a request of one sample comes in each of these rounds of the event loop."""
    sizes = []

    def score(X):
        sizes.append(len(X))
        return X

    async def ask(after):
        for _ in range(after):
            await asyncio.sleep(0)
        await batcher.ask(np.ones((1, 1)))

    batcher = Batcher(score, Limits(batch=batch))
    batcher.start()
    await asyncio.gather(*(ask(after) for after in rounds))
    await batcher.stop()
    return sizes


def test_requests_that_are_being_read_join_the_batch():
    assert asyncio.run(ask_in_rounds(8, range(6))) == [6]


def test_no_batch_waits_for_more_than_it_may_hold():
    assert asyncio.run(ask_in_rounds(3, range(6))) == [3, 3]
    assert asyncio.run(ask_in_rounds(1, range(4))) == [1] * 4


def test_a_lone_request_waits_for_one_round_of_the_event_loop_at_most(monkeypatch):
    rounds = []
    sleep = asyncio.sleep
    monkeypatch.setattr(asyncio, "sleep", lambda seconds: rounds.append(seconds) or sleep(seconds))

    assert asyncio.run(ask_in_rounds(8, [0])) == [1]
    assert rounds == [0]


def test_a_full_queue_and_a_late_answer_are_refused():
    async def crowd():
        batcher = Batcher(lambda X: time.sleep(0.3) or X, Limits(batch=1, queue=2, seconds=0.1))
        batcher.start()
        calls = [batcher.ask(np.zeros((1, 1))) for _ in range(4)]
        found = await asyncio.gather(*calls, return_exceptions=True)
        await batcher.stop()
        return [error.status for error in found if isinstance(error, Refusal)]

    assert sorted(asyncio.run(crowd())) == [408, 408, 429, 429]


def test_a_fault_in_one_batch_does_not_end_the_queue():
    def score(X):
        if X.max() > 1:
            raise RuntimeError("no")
        return X

    async def two():
        batcher = Batcher(score, Limits())
        batcher.start()
        first = await asyncio.gather(batcher.ask(np.full((1, 1), 2)), return_exceptions=True)
        second = await batcher.ask(np.ones((1, 1)))
        await batcher.stop()
        return first[0], second

    first, second = asyncio.run(two())
    assert isinstance(first, RuntimeError)
    assert second == 1


def test_of_requests_answered_together_only_the_faulty_one_fails():
    def score(X):
        time.sleep(0.05)  # while the first is computed, the others gather
        if X.max() > 1:
            raise RuntimeError("no")
        return X

    async def crowd():
        batcher = Batcher(score, Limits())
        batcher.start()
        asked = [batcher.ask(np.full((1, 1), value)) for value in (0, 1, 2, 1)]
        found = await asyncio.gather(*asked, return_exceptions=True)
        await batcher.stop()
        return [type(one).__name__ for one in found]

    assert asyncio.run(crowd()) == ["ndarray", "ndarray", "RuntimeError", "ndarray"]
