"""Codes in place and in a file: what is put is what is found."""

from __future__ import annotations

import numpy as np
import pytest

from dcadl.solvers.spill import CodeStore, KeepingWalk, Spilled, codes_at
from dcadl.solvers.walk import SerialWalk

SHAPES = [(3, 2, 4), (3, 2, 4), (1, 2, 4)]
BYTES = 3 * 2 * 4 * 8


@pytest.mark.bits
@pytest.mark.parametrize(("room", "spilled"), [(0, 3), (BYTES, 2), (BYTES + BYTES // 3, 1), (10 * BYTES, 0)])
def test_what_has_no_room_is_spilled_and_comes_back_to_the_bit(rng, room, spilled):
    expected = [rng.standard_normal(shape) for shape in SHAPES]
    with CodeStore(room) as store:
        places = store.places(SHAPES, np.float64)
        kept, _ = KeepingWalk(SerialWalk(), places)(lambda U: (U, ()), expected)
        assert sum(isinstance(entry, Spilled) for entry in kept) == spilled
        for entry, U in zip(kept, expected):
            np.testing.assert_array_equal(codes_at(entry), U)


def test_new_codes_take_the_place_of_the_old_ones(rng):
    first = [rng.standard_normal(shape) for shape in SHAPES]
    with CodeStore(BYTES) as store:
        walk = KeepingWalk(SerialWalk(), store.places(SHAPES, np.float64))
        kept, _ = walk(lambda U: (U, ()), first)
        again, (total,) = walk(lambda U: (2 * U, (U.sum(),)), kept)
        assert total == pytest.approx(sum(U.sum() for U in first))
        for entry, U in zip(again, first):
            np.testing.assert_array_equal(codes_at(entry), 2 * U)


def test_what_keeps_nothing_leaves_the_codes_alone(rng):
    first = [rng.standard_normal(shape) for shape in SHAPES]
    with CodeStore(0) as store:
        walk = KeepingWalk(SerialWalk(), store.places(SHAPES, np.float64))
        kept, _ = walk(lambda U: (U, ()), first)
        nothing, _ = walk(lambda U: (None, (1,)), kept)
        assert nothing == [None] * 3
        np.testing.assert_array_equal(codes_at(kept[0]), first[0])
