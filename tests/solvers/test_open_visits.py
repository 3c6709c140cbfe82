"""Visits that nobody has begun: who makes them, and who does not."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from weakref import ref

import pytest

from dcadl.solvers.open_visits import OpenVisits, family_here
from dcadl.solvers.walk import ThreadWalk

WAIT = 20  # seconds until a test gives up


@pytest.fixture
def pool():
    with ThreadPoolExecutor(1) as pool:
        yield pool


@pytest.fixture
def busy(pool):
    """The pool's only thread waits until it is let go."""
    let_go = threading.Event()
    pool.submit(let_go.wait, WAIT)
    yield let_go
    let_go.set()


def test_who_waits_makes_what_nobody_has_begun(pool, busy):
    visits = OpenVisits()
    visit = visits.put(threading.current_thread, object(), pool)

    visits.work_until_made(visit)

    assert visit.result() is threading.current_thread()


def test_a_visit_is_made_once(pool):
    visits, made = OpenVisits(), []
    visit = visits.put(lambda: made.append(1), object(), pool)

    visits.work_until_made(visit)
    pool.submit(int).result(WAIT)  # the pool has looked at it, too

    assert made == [1]


def test_a_thread_that_has_no_visit_of_its_own_left_works_on_those_of_another(pool):
    """One half needs both threads at once: its chunks meet at a barrier."""
    meet = threading.Barrier(2, timeout=WAIT)

    def half(long):
        chunks, _ = ThreadWalk(pool, 2)(lambda _: (meet.wait() if long else 0, ()), range(2))
        return chunks, ()

    kept, _ = ThreadWalk(pool, 2)(half, (False, True))

    assert [len(chunks) for chunks in kept] == [2, 2]
    assert sorted(kept[1]) == [0, 1]


def test_nobody_works_for_another_family_or_for_a_walk_further_out(pool, busy):
    visits, family = OpenVisits(), object()
    other = visits.put(lambda: pytest.fail("of another family"), object(), pool)
    outer = visits.put(lambda: pytest.fail("further out"), family, pool)
    inner = visits.put(lambda: 3, family, pool)
    inner.depth += 1
    assert visits.begin(inner)
    threading.Timer(0.2, lambda: visits._make(inner)).start()

    visits.work_until_made(inner)

    assert inner.result() == 3
    assert visits.begin(other)
    assert visits.begin(outer)


def test_the_background_gives_way_to_all_else(pool, busy):
    visits, family, made = OpenVisits(), object(), []
    behind = visits.put(lambda: made.append("behind"), family, pool, background=True)
    first = visits.put(lambda: made.append("first"), family, pool)

    visits.work_until_made(behind)

    assert made == ["first", "behind"]
    assert first.done()


def test_nobody_works_in_the_background_while_something_else_is_awaited(pool, busy):
    visits, family = OpenVisits(), object()
    behind = visits.put(lambda: pytest.fail("in the background"), family, pool, background=True)
    awaited = visits.put(lambda: 3, family, pool)
    assert visits.begin(awaited)
    threading.Timer(0.2, lambda: visits._make(awaited)).start()

    visits.work_until_made(awaited)

    assert awaited.result() == 3
    assert visits.begin(behind)


def test_visits_within_a_background_visit_are_in_the_background(pool, busy):
    visits, inner = OpenVisits(), []
    visit = visits.put(
        lambda: inner.append(visits.put(int, family_here(), pool)), object(), pool, background=True
    )

    visits.work_until_made(visit)

    assert inner[0].background
    assert inner[0].family is visit.family


def test_visits_within_a_visit_are_of_its_family(pool, busy):
    visits, family = OpenVisits(), object()
    visit = visits.put(family_here, family, pool)

    visits.work_until_made(visit)

    assert visit.result() is family
    assert family_here() is not family


def failing(error):
    def fail():
        raise error

    return fail


def test_an_error_comes_out_where_the_result_is_asked_for(pool, busy):
    visits = OpenVisits()
    visit = visits.put(failing(ValueError("chunk 7")), object(), pool)

    visits.work_until_made(visit)

    with pytest.raises(ValueError, match="chunk 7"):
        visit.result()


def test_ctrl_c_does_not_wait_for_what_others_make(pool, busy):
    visits, family = OpenVisits(), object()
    elsewhere = visits.put(int, family, pool)
    assert visits.begin(elsewhere)  # and does not end
    visits.put(failing(KeyboardInterrupt()), family, pool)

    with pytest.raises(KeyboardInterrupt):
        visits.work_until_made(elsewhere)


def test_results_are_let_go_while_the_pool_is_busy(pool, busy):
    """Its queue still holds what this thread has made: sums of all chunks of a fit would pile up there."""

    class Sums:
        pass

    known = []

    def visit(_):
        sums = Sums()
        known.append(ref(sums))
        return sums, ()

    ThreadWalk(pool, 2)(visit, range(5))

    assert [one() for one in known] == [None] * 5
