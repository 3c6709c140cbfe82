"""A share of the attack that is small enough for every run of the tests."""

from __future__ import annotations

import mutate
import numpy as np
import pytest
from attack import OUTSIDE, SHARES, attack
from targets import TARGETS

CASES = 1500  # of 100 000 in `make attack`


@pytest.mark.parametrize("name", TARGETS)
def test_no_case_is_outside_the_promises(name):
    counts, outside, _ = attack(name, round(CASES * SHARES[name]), seed=1)

    assert outside == []
    assert counts[OUTSIDE] == 0


@pytest.mark.parametrize("name", ["model files", "records", "archives", "arrays", "parameters", "data files"])
def test_some_cases_are_refused_and_some_work(name):
    """Damage that everything survives, or nothing, would show nothing."""
    counts, _, _ = attack(name, 60, seed=2)

    assert min(counts["refused"], counts["worked"]) > 0


def test_the_same_seed_gives_the_same_damage():
    one, other = (mutate.damaged_bytes(np.random.default_rng(5), b"some bytes" * 50) for _ in range(2))
    assert one == other


def test_a_target_that_breaks_its_promise_is_outside(monkeypatch):
    class Broken:
        def __init__(self, folder):
            pass

        def case(self, rng):
            raise ZeroDivisionError("division by zero")

    monkeypatch.setitem(TARGETS, "records", Broken)
    counts, outside, _ = attack("records", 3)

    assert counts[OUTSIDE] == 3
    assert "ZeroDivisionError" in outside[0]
