"""When passes of DCADL are looked at, and when they end: as its docstring says."""

import re
from types import SimpleNamespace

import numpy as np
import pytest

from dcadl import DCADL
from dcadl.solvers import code_ridge, descent

WORDS = {"second": 2, "third": 3, "fourth": 4, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10}
EVERY = WORDS[re.search(r"every\s+(\w+)\s+pass", DCADL.__doc__)[1]]
PATIENCE = WORDS[re.search(r"fallen by this share in\s+(\w+)\s+passes", DCADL.__doc__)[1]]


class LookedError(Exception):
    """Raised in place of a look at the left-out error."""


def after(passes, best=None):
    return descent.State(np.eye(2), np.eye(2), None, (), None, 0.0, (0.0,) * 3 * passes, None, None, best)


@pytest.fixture
def judged(monkeypatch):
    def look(*given):
        raise LookedError

    monkeypatch.setattr(code_ridge, "leave_one_out_error", look)
    problem = SimpleNamespace(chunks=(), walk=None, lam1=0.1, split=False)
    return lambda passes, tol=0.01: code_ridge.judge_pass(problem, tol, after(passes))


@pytest.mark.parametrize("passes", [EVERY, 2 * EVERY, 10 * EVERY])
def test_a_pass_is_looked_at_when_its_turn_has_come(judged, passes):
    with pytest.raises(LookedError):
        judged(passes)


@pytest.mark.parametrize("passes", [1, EVERY + 1, 10 * EVERY - 1])
def test_no_other_pass_is(judged, passes):
    assert judged(passes).best is None


def test_none_is_where_the_tolerance_is_zero(judged):
    assert judged(EVERY, tol=0).best is None


def test_passes_end_so_many_after_the_best_one_and_not_before():
    best = descent.Best(np.eye(2), np.eye(2), 6, 0.5)
    assert not code_ridge.settled(after(6 + PATIENCE - 1, best))
    assert code_ridge.settled(after(6 + PATIENCE, best))
