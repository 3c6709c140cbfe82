"""The shared loop: when it stops."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from dcadl.estimators.fitting import Progress, iterate


class State(NamedTuple):
    """A number, and the objective after each pass."""

    x: float
    trace: tuple[float, ...] = ()


def run(step, begin, value, **how):
    """`iterate` with steps on numbers, whose objective is `value`."""

    def on_states(state):
        x = step(state.x)
        return State(x, (*state.trace, value(x)))

    result = iterate(on_states, begin if isinstance(begin, Progress) else State(begin), **how)
    return result._replace(state=result.state.x)


def halve(x):
    return x / 2


def test_it_stops_when_a_pass_gains_less_than_the_tolerance():
    result = run(lambda x: x / 2, 1024.0, lambda x: x + 1000.0, max_iter=100, tol=1e-3)
    assert result.converged
    assert result.last_change < 1e-3
    assert result.n_iter < 100


def test_the_tolerance_is_a_share_of_small_objectives_too():
    """Each pass halves it, however small it is."""
    assert not run(halve, 1e-3, float, max_iter=30, tol=0.1).converged


def test_it_says_when_it_ran_out_of_passes():
    assert not run(halve, 1.0, float, max_iter=3, tol=1e-9).converged


def test_tolerance_zero_asks_for_all_passes_and_is_content_with_them():
    result = run(halve, 1.0, float, max_iter=7, tol=0)
    assert result.n_iter == 7
    assert result.converged


def test_a_watcher_may_stop_it():
    assert run(halve, 1.0, float, max_iter=50, tol=0, watch=lambda t, x: t == 4).n_iter == 4


def test_divergence_names_the_pass():
    with pytest.raises(ValueError, match="pass 2"):
        run(lambda x: x * 1e100, 1.0, lambda x: x * x, max_iter=9, tol=0)


def test_tolerance_zero_goes_on_where_rounding_raises_the_objective():
    values = iter([1.0, 1.0 + 1e-16, 1.0 + 1e-15, 0.5])
    assert run(lambda x: next(values), 2.0, float, max_iter=4, tol=0).n_iter == 4


def test_an_objective_that_rises_has_not_settled():
    values = iter([1.0, 3.0, 2.0, 2.0, 0.0])
    assert run(lambda x: next(values), 2.0, float, max_iter=5, tol=1e-3).n_iter == 4


def values_of(x, passes):
    found = []
    for _ in range(passes):
        x /= 2
        found.append(x + 1000.0)
    return State(x, tuple(found)), found


@pytest.mark.parametrize("done", [1, 2, 5])
def test_an_interrupted_loop_ends_as_if_there_had_been_no_interruption(done):
    how = {"max_iter": 100, "tol": 1e-3}
    whole = run(halve, 1024.0, lambda x: x + 1000.0, **how)
    assert run(halve, Progress.after(*values_of(1024.0, done)), lambda x: x + 1000.0, **how) == whole


def test_an_interrupted_loop_counts_the_passes_that_were_done():
    seen = []
    begin = Progress.after(*values_of(1024.0, 3))
    result = run(halve, begin, float, max_iter=5, tol=0, watch=lambda t, x: seen.append(t))
    assert (seen, result.n_iter) == ([4, 5], 5)


def test_a_loop_that_was_done_makes_no_pass_more():
    how = {"max_iter": 100, "tol": 1e-3}
    done = run(halve, 1024.0, lambda x: x + 1000.0, **how).n_iter
    again = run(None, Progress.after(*values_of(1024.0, done)), float, **how)
    assert (again.n_iter, again.converged) == (done, True)


def test_the_value_comes_from_the_state():
    result = iterate(lambda state: State(0.0, (*state.trace, 7.0)), State(0.0), max_iter=20, tol=1e-3)
    assert result.n_iter == 2
