"""Requests that wait together: answered together, each for itself at fault, none for ever."""

from __future__ import annotations

import asyncio
import time

import numpy as np
import pytest

from dcadl.deploy.server.batching import ROUNDS, Batcher
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


async def ask_again(batch, clients, rounds=0):
    """Sizes of batches where each client asks twice, the second time so many rounds of the loop later."""
    sizes = []

    def score(X):
        sizes.append(len(X))
        time.sleep(0.05)
        return X

    async def ask():
        await batcher.ask(np.ones((1, 1)))
        for _ in range(rounds):
            await asyncio.sleep(0)
        await batcher.ask(np.ones((1, 1)))

    batcher = Batcher(score, Limits(batch=batch))
    batcher.start()
    first = asyncio.create_task(ask())
    await asyncio.sleep(0.02)  # it is being computed when the others ask
    await asyncio.gather(first, *(ask() for _ in range(clients - 1)))
    await batcher.stop()
    return sizes


@pytest.mark.parametrize("rounds", [0, ROUNDS - 2])  # an answer may need a round to reach its client
def test_who_is_answered_and_asks_again_at_once_joins_those_who_wait(rounds):
    assert asyncio.run(ask_again(8, 4, rounds)) == [1, 4, 3]


def test_no_batch_waits_for_more_than_it_may_hold():
    assert asyncio.run(ask_again(3, 4)) == [1, 3, 3, 1]
    assert asyncio.run(ask_again(1, 2)) == [1] * 4


def test_a_lone_client_waits_for_nobody(monkeypatch):
    monkeypatch.setattr(Batcher, "_arrivals", None)  # not to be called

    assert asyncio.run(ask_again(8, 1)) == [1, 1]


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
