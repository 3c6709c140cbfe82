"""Sizes as people write them, and what a budget allows."""

from __future__ import annotations

import pytest

from dcadl.ops.patches import patch_grid
from dcadl.solvers.budget import memory_bytes, memory_plan

GRID = patch_grid((28, 28), 7, 3)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("2GB", 2 * 10**9),
        ("1.5 gb", 15 * 10**8),
        ("500MiB", 500 * 2**20),
        (10**6, 10**6),
        ("12", 12),
        ("7B", 7),
    ],
)
def test_sizes_are_read_as_people_write_them(text, size):
    assert memory_bytes(text) == size


def test_without_a_limit_there_is_none():
    assert memory_bytes(None) is None


@pytest.mark.parametrize("n", [1_000, 60_000, 10**7])
def test_what_is_kept_and_the_work_fit_into_the_limit(n):
    allowed = memory_plan(10**9, n, GRID, 50, 10, 4, 2)
    patches = n * GRID.p * GRID.d * 4 if allowed.keep_patches else 0
    codes = min(allowed.code_room, n * GRID.p * 50 * 4)
    assert patches + codes < 10**9


def test_more_room_keeps_patches_too():
    assert memory_plan(4 * 10**9, 60_000, GRID, 50, 10, 4, 2).keep_patches
    assert not memory_plan(10**9, 60_000, GRID, 50, 10, 4, 2).keep_patches
