"""What LOO-ADL takes where nothing is given."""

import pytest

from dcadl.estimators.loo_adl.structures import MOST_FEATURES, usual_atoms


@pytest.mark.parametrize("cells", [1, 21, 84, 500])
def test_very_many_images_have_more_atoms_as_far_as_their_features_can_be_solved(cells):
    few, some, many = (usual_atoms(n, cells) for n in (500, 5_000, 60_000))

    assert few > some
    assert many >= some
    assert many == some or 2 * many * cells <= MOST_FEATURES
