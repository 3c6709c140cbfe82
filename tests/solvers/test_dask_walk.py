"""The walk over a cluster: what travels, and what a dying worker says."""

from __future__ import annotations

import pickle
from types import SimpleNamespace

import pytest

from dcadl.solvers.walk import SerialWalk, add_sums

distributed = pytest.importorskip("distributed", reason="distributed is not installed")

from dcadl.solvers.dask_walk import DaskWalk, Remote, _result  # noqa: E402


def test_futures_and_client_stay_at_home():
    chunks, walk = pickle.loads(pickle.dumps((Remote([1, 2, 3]), DaskWalk(object()))))
    assert len(chunks) == 0
    assert isinstance(walk, SerialWalk)


def test_a_chunk_that_kills_every_worker_is_explained():
    class Doomed:
        def result(self):
            raise distributed.KilledWorker("chunk", SimpleNamespace(address="tcp://there"), 3)

    with pytest.raises(MemoryError, match=r"smaller chunks \(X\.rechunk\)"):
        _result(Doomed())


def test_sums_are_added_place_by_place():
    assert add_sums([(1, 2.0), (3, 4.0), (5, 6.0)]) == (9, 12.0)
    assert add_sums([(), ()]) == ()
