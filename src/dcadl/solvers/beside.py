"""Work that another thread does while this one goes on with its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from dcadl.arrays import LARGE_SYSTEM, Array
from dcadl.solvers.open_visits import family_here, of_one_family
from dcadl.solvers.walk import ThreadWalk, walker

T = TypeVar("T")


@contextmanager
def beside(X: Array, call: Callable[[], T]) -> Iterator[Callable[[], T]]:
    """What gives the result of `call`, a piece of work on all samples X that began when the block did.

    What the block itself does at once comes first: the call fills the gaps between. Small products of the
    block do not keep two threads busy; systems of many samples do, by BLAS's own threads, which need the
    processor for themselves: then, and on a device, the call is made when it is asked for.
    """
    alone = X.shape[0] >= LARGE_SYSTEM
    with walker(X, [slice(0)] * (1 if alone else 2)) as walk:
        if not isinstance(walk, ThreadWalk):
            yield call
            return
        with of_one_family():
            visit = walk.submit(call, family_here(), background=True)
            try:
                yield lambda: walk.result(visit)
            finally:
                walk.withdraw(visit)  # after an error
