"""When passes of DCADL are looked at, and when they end."""

from types import SimpleNamespace

import numpy as np
import pytest

from dcadl.solvers import code_ridge, descent


class LookedError(Exception):
    """Raised in place of a look at the left-out error."""


def after(passes, best=None):
    return descent.State(np.eye(2), np.eye(2), None, (), None, 0.0, (0.0,) * 3 * passes, None, None, best)


def looked_at(passes, tol, monkeypatch):
    def look(*given):
        raise LookedError

    monkeypatch.setattr(code_ridge, "leave_one_out_error", look)
    problem = SimpleNamespace(chunks=(), walk=None, lam1=0.1, split=False)
    return code_ridge.judge_pass(problem, tol, after(passes))


@pytest.mark.parametrize("passes", [3, 6, 9, 30])
def test_every_third_pass_is_looked_at(passes, monkeypatch):
    with pytest.raises(LookedError):
        looked_at(passes, 0.01, monkeypatch)


@pytest.mark.parametrize(("passes", "tol"), [(1, 0.01), (2, 0.01), (4, 0.01), (29, 0.01), (3, 0), (30, 0)])
def test_no_other_is_nor_any_where_the_tolerance_is_zero(passes, tol, monkeypatch):
    assert looked_at(passes, tol, monkeypatch).best is None


def test_nine_passes_after_the_best_one_are_enough_and_eight_are_not():
    best = descent.Best(np.eye(2), np.eye(2), 6, 0.5)
    assert not code_ridge.settled(after(14, best))
    assert code_ridge.settled(after(15, best))
