"""Visits of a walk that no thread has begun yet, and who makes them.

A visit may itself be a walk: two halves of the images are learned from side by side, each over chunks. When
one of them ends first, its thread goes on with chunks of the other. What runs in the background gives way to
all else, visit by visit.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from typing import Any, NamedTuple
from weakref import ref


class Place(NamedTuple):
    """Where a thread is: in which outermost walk, how many walks deep, and in what background visit."""

    family: object
    depth: int = 0
    background: OpenVisit | None = None


class _Here(threading.local):
    place = Place(None)


_HERE = _Here()


class OpenVisit:
    """A call to be made, by a thread of the pool or by one that waits."""

    withdrawn = False  # nobody waits for it any more

    def __init__(self, call: Callable[[], Any], family: object, background: bool) -> None:
        self._call, self._future = call, Future[Any]()
        self.family, self.depth = family, _HERE.place.depth
        self.background = self if background else _HERE.place.background  # what it is part of
        self.done, self.result = self._future.done, self._future.result

    def make(self) -> None:
        """Make it here and now; who asks for the result gets an error, and Ctrl-C ends this thread too."""
        try:
            with at_place(Place(self.family, self.depth + 1, self.background)):
                self._future.set_result(self._call())
        except BaseException as error:
            self._future.set_exception(error)
            if not isinstance(error, Exception):
                raise


class OpenVisits:
    """Those that nobody has begun."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._visits: list[OpenVisit] = []

    def put(
        self, call: Callable[[], Any], family: object, pool: ThreadPoolExecutor, background: bool = False
    ) -> OpenVisit:
        """A visit that a thread of the pool will make, unless one that waits comes first."""
        visit = OpenVisit(call, family, background)
        if visit.background is not None and visit.background.withdrawn:
            raise CancelledError
        with self._changed:
            self._visits.append(visit)
            self._changed.notify_all()
        pool.submit(self._make_if_open, ref(visit))  # whose queue must not keep what others have made
        return visit

    def begin(self, visit: OpenVisit) -> bool:
        """Whether nobody had begun it; nobody else will then."""
        with self._changed:
            if visit not in self._visits:
                return False
            self._visits.remove(visit)
            return True

    def withdraw(self, visit: OpenVisit) -> None:
        """Nobody shall begin it any more; one in the background that was begun ends at its next walk."""
        visit.withdrawn = True
        self.begin(visit)

    def work_until_made(self, visit: OpenVisit) -> None:
        """Wait for a visit by making it, or others while it is in another's hands.

        Others of the same family alone: a prediction must not wait for chunks of a fit that runs beside it.
        And none that is less deep: whoever waits for a chunk would come back late from half of the images.
        """
        while (other := self._next(visit)) is not None:
            self._make(other)

    def _next(self, awaited: OpenVisit) -> OpenVisit | None:
        with self._changed:
            while not awaited.done():
                if found := self._to_make(awaited):
                    self._visits.remove(found)
                    return found
                self._changed.wait()
        return None

    def _to_make(self, awaited: OpenVisit) -> OpenVisit | None:
        """What the background gives way to; the awaited one itself; or the first of the deepest."""
        family = [v for v in self._visits if v.family is awaited.family]
        first = [v for v in family if awaited.background is not None and v.background is None]
        if first or awaited in family:
            return first[0] if first else awaited
        alike = [v for v in family if v.background is awaited.background and v.depth >= awaited.depth]
        return max(alike, key=lambda visit: visit.depth, default=None)

    def _make_if_open(self, known: ref[OpenVisit]) -> None:
        visit = known()
        if visit is not None and self.begin(visit):
            self._make(visit)

    def _make(self, visit: OpenVisit) -> None:
        try:
            visit.make()
        finally:
            with self._changed:
                self._changed.notify_all()


def family_here() -> object:
    """What visits of a walk that begins here have in common: the outermost walk that this thread is in."""
    return _HERE.place.family or object()


@contextmanager
def at_place(place: Place) -> Iterator[None]:
    """What begins in this block begins there."""
    before, _HERE.place = _HERE.place, place
    try:
        yield
    finally:
        _HERE.place = before


def of_one_family() -> AbstractContextManager[None]:
    """All walks that begin in this block are of one family."""
    return at_place(_HERE.place._replace(family=family_here()))


def open_visits() -> OpenVisits:
    """Those of this process: a forked one has none of its parent's threads, and begins anew."""
    return _visits_of(os.getpid())


@cache
def _visits_of(process: int) -> OpenVisits:
    return OpenVisits()
