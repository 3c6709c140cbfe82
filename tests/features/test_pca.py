"""Principal directions against scikit-learn's, for wide and tall data."""

import numpy as np
import pytest
from sklearn.decomposition import PCA

from dcadl.features.pca import principal_directions, project


@pytest.mark.parametrize("shape", [(20, 50), (50, 20)], ids=["wide", "tall"])
def test_projections_equal_those_of_scikit_learn_up_to_sign(rng, shape):
    X = rng.standard_normal(shape)
    ours = project(X, principal_directions(X, 6))
    theirs = PCA(6, svd_solver="full").fit_transform(X)
    np.testing.assert_allclose(np.abs(ours), np.abs(theirs), atol=1e-8)


@pytest.mark.parametrize("shape", [(20, 50), (50, 20)], ids=["wide", "tall"])
def test_directions_are_orthonormal(rng, shape):
    components = principal_directions(rng.standard_normal(shape), 10).components
    np.testing.assert_allclose(components @ components.T, np.eye(10), atol=1e-10)


def test_repeated_rows_give_no_direction_of_their_own(rng):
    X = np.repeat(rng.standard_normal((5, 40)), 3, axis=0)
    assert len(principal_directions(X, 100).components) == 4


def test_all_directions_keep_distances(rng):
    X = rng.standard_normal((12, 30))
    Z = project(X, principal_directions(X, 100))
    np.testing.assert_allclose(np.linalg.norm(Z[0] - Z[5]), np.linalg.norm(X[0] - X[5]))


@pytest.mark.parametrize("shape", [(20, 50), (50, 20)], ids=["wide", "tall"])
def test_a_direction_of_a_ten_thousandth_of_the_variance_is_kept(rng, shape):
    X = (
        rng.standard_normal((shape[0], 3))
        * [1, 1, 1e-2]
        @ np.linalg.qr(rng.standard_normal((shape[1], 3)))[0].T
    )
    assert len(principal_directions(X, 10).components) == 3
