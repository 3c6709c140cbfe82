"""Target codes: the published sizes, and classes equally far from each other."""

from __future__ import annotations

import numpy as np
import pytest

from dcadl.ops.targets import hybrid_codes

PAPER = {
    "extended_yaleb": (38, 48 * 42, 2031, 295),
    "ar": (100, 55 * 40, 2211, 272),
    "caltech101": (102, 3000, 3061, 280),
    "scene15": (15, 3000, 3001, 421),
}


@pytest.mark.parametrize(("n_classes", "d", "atoms", "sparsity"), PAPER.values(), ids=PAPER)
def test_the_papers_inputs_give_the_papers_numbers_of_atoms(n_classes, d, atoms, sparsity):
    targets = hybrid_codes(n_classes, d)

    assert targets.codes.shape == (n_classes, atoms)
    assert targets.sparsity == sparsity


@pytest.mark.parametrize(("n_classes", "d"), [(38, 2016), (7, 40), (2, 1), (10, 3), (3, 2)])
def test_every_code_has_the_stated_number_of_entries(n_classes, d):
    codes, sparsity = hybrid_codes(n_classes, d)

    np.testing.assert_array_equal(codes.sum(axis=1), sparsity)
    assert set(np.unique(codes)) <= {0.0, 1.0}


@pytest.mark.parametrize(("n_classes", "d"), [(38, 2016), (7, 40), (2, 1), (10, 3), (3, 2)])
def test_all_codes_are_equally_far_from_each_other(n_classes, d):
    codes, _ = hybrid_codes(n_classes, d)

    apart = (codes[:, None, :] != codes[None, :, :]).sum(axis=2)
    assert len(set(apart[np.triu_indices(n_classes, 1)])) == 1
    assert apart[0, 1] > 0


def test_walsh_codes_are_ordered_by_their_sign_changes():
    codes, _ = hybrid_codes(7, 23)  # 2³ is the size of the Walsh matrix

    shared = np.concatenate([np.ones((7, 1)), codes[:, -7:]], axis=1)
    np.testing.assert_array_equal(np.count_nonzero(np.diff(shared, axis=1), axis=1), np.arange(1, 8))
