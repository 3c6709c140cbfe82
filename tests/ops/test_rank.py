"""Rank, and atoms mended until it is full."""

from __future__ import annotations

import numpy as np
import pytest

from dcadl.arrays import fetch
from dcadl.ops.patches import unit_rows
from dcadl.ops.rank import rank, with_full_rank


@pytest.mark.parametrize("shape", [(4, 9), (9, 4)], ids=["wide", "tall"])
@pytest.mark.parametrize("true", [1, 3, 4])
def test_rank_counts_the_directions(xp, rng, shape, true):
    A = rng.standard_normal((shape[0], true)) @ rng.standard_normal((true, shape[1]))

    assert rank(xp.asarray(A)) == np.linalg.matrix_rank(A) == true


@pytest.mark.parametrize("m", [5, 12], ids=["fewer atoms than values", "more"])
def test_redundant_atoms_make_way_until_the_rank_is_full(xp, rng, m):
    atoms = unit_rows(rng.standard_normal((m, 2)) @ rng.standard_normal((2, 8)))
    samples = rng.standard_normal((20, 8))

    mended = fetch(with_full_rank(xp.asarray(atoms), xp.asarray(samples), min(m, 8)))

    assert np.linalg.matrix_rank(mended) == min(m, 8)
    np.testing.assert_allclose(np.linalg.norm(mended, axis=1), 1.0)
    assert (mended == atoms).all(axis=1).sum() == m - (min(m, 8) - 2)


def test_a_new_atom_is_orthogonal_to_the_atoms_that_stay(xp, rng):
    atoms = unit_rows(rng.standard_normal((3, 8)))
    atoms = np.concatenate([atoms, atoms[:1]])

    mended = fetch(with_full_rank(xp.asarray(atoms), xp.asarray(rng.standard_normal((9, 8))), 4))

    np.testing.assert_allclose(mended[:3], atoms[:3])
    np.testing.assert_allclose(mended[:3] @ mended[3], 0.0, atol=1e-12)


def test_atoms_of_full_rank_stay_as_they_are(xp, rng):
    atoms = rng.standard_normal((4, 6))

    mended = with_full_rank(xp.asarray(atoms), xp.asarray(rng.standard_normal((9, 6))), 4)

    np.testing.assert_array_equal(fetch(mended), atoms)


def test_a_row_a_ten_thousandth_outside_the_span_counts(xp, rng):
    A = unit_rows(rng.standard_normal((3, 6)))
    A = np.concatenate([A, A[:1] + 1e-4 * unit_rows(rng.standard_normal((1, 6)))])

    assert rank(xp.asarray(A)) == 4
