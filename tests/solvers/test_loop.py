"""The shared loop: when it stops."""

from __future__ import annotations

import pytest

from dcadl.solvers.loop import iterate


def halve(x):
    return x / 2


def test_it_stops_when_a_pass_gains_less_than_the_tolerance():
    result = iterate(lambda x: x / 2, 1024.0, lambda x: x + 1000.0, max_iter=100, tol=1e-3)
    assert result.converged
    assert result.last_change < 1e-3
    assert result.n_iter < 100


def test_the_tolerance_is_a_share_of_small_objectives_too():
    """Each pass halves it, however small it is."""
    assert not iterate(halve, 1e-3, float, max_iter=30, tol=0.1).converged


def test_it_says_when_it_ran_out_of_passes():
    assert not iterate(halve, 1.0, float, max_iter=3, tol=1e-9).converged


def test_tolerance_zero_asks_for_all_passes_and_is_content_with_them():
    result = iterate(halve, 1.0, float, max_iter=7, tol=0)
    assert result.n_iter == 7
    assert result.converged


def test_a_watcher_may_stop_it():
    assert iterate(halve, 1.0, float, max_iter=50, tol=0, watch=lambda t, x: t == 4).n_iter == 4


def test_divergence_names_the_pass():
    with pytest.raises(FloatingPointError, match="pass 2"):
        iterate(lambda x: x * 1e100, 1.0, lambda x: x * x, max_iter=9, tol=0)
