"""The walk over a cluster: what travels, and what a dying worker says."""

from __future__ import annotations

import pickle
from types import SimpleNamespace

import pytest

from dcadl.solvers.walk import SerialWalk, add_sums

distributed = pytest.importorskip("distributed", reason="distributed is not installed")

from dcadl.solvers import dask_watch  # noqa: E402
from dcadl.solvers.dask_walk import DaskWalk, Remote  # noqa: E402
from dcadl.solvers.dask_watch import in_words  # noqa: E402


def test_futures_and_client_stay_at_home():
    chunks, walk = pickle.loads(pickle.dumps((Remote([1, 2, 3]), DaskWalk(object()))))
    assert len(chunks) == 0
    assert isinstance(walk, SerialWalk)


def test_a_chunk_that_kills_every_worker_is_explained():
    with pytest.raises(MemoryError, match=r"smaller chunks \(X\.rechunk\)"), in_words(None):
        raise distributed.KilledWorker("chunk", SimpleNamespace(address="tcp://there"), 3)


def test_sums_are_added_place_by_place():
    assert add_sums([(1, 2.0), (3, 4.0), (5, 6.0)]) == (9, 12.0)
    assert add_sums([(), ()]) == ()


class Cluster:
    """A client whose scheduler says what it is told to, or does not answer."""

    status = "running"

    def __init__(self, *answers):
        self.answers = iter(answers)
        self.scheduler = SimpleNamespace(identity=None, address="tcp://there")

    def sync(self, function, callback_timeout):
        answer = next(self.answers)
        if answer is None:
            raise TimeoutError
        return {"workers": {f"w{i}": {"last_seen": seen} for i, seen in enumerate(answer)}}


@pytest.mark.parametrize(
    ("answer", "words"),
    [([], "no worker"), ([5.0, 3.0], "None of the 2 workers.*has been heard of"), (None, "has not answered")],
    ids=["none", "hang", "silent"],
)
def test_what_shows_no_sign_of_life_is_said_in_time(monkeypatch, answer, words):
    now = iter(range(0, 1000, 8))
    monkeypatch.setattr(dask_watch, "monotonic", lambda: next(now))
    watch = dask_watch._Watch(Cluster([5.0, 1.0], [5.0, 2.0], *[answer] * 20))
    with pytest.raises(ConnectionError, match=words):
        all(watch.look() is None for _ in range(20))
    assert next(now) <= 60


def test_workers_that_are_heard_of_are_waited_for():
    watch = dask_watch._Watch(Cluster(*([float(i)] for i in range(5))))
    watch._since -= 2 * dask_watch.PATIENCE
    for _ in range(5):
        watch.look()
