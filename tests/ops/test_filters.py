"""Filters at every pixel against SciPy's correlation; eigenvectors against their definition."""

import numpy as np
import pytest
from scipy.ndimage import correlate

from dcadl.arrays import fetch
from dcadl.ops.filters import leading_filters, same_size_responses
from dcadl.ops.patches import patch_grid


@pytest.mark.parametrize("shape", [(3, 3), (5, 1), (3, 5)], ids=str)
def test_responses_are_a_correlation_with_zeros_beyond_the_border(xp, rng, shape):
    images, filters = rng.standard_normal((2, 6, 7)), rng.standard_normal((4, *shape))
    grid = patch_grid((6, 7), shape, 1)

    found = fetch(
        same_size_responses(xp.asarray(images.reshape(2, -1)), xp.asarray(filters.reshape(4, -1)), grid)
    )

    expected = [[correlate(image, f, mode="constant") for f in filters] for image in images]
    np.testing.assert_allclose(found, np.array(expected).reshape(2, 4, -1).transpose(0, 2, 1), atol=1e-12)


def test_channels_are_summed_over(xp, rng):
    images, filters = rng.standard_normal((2, 5, 6, 3)), rng.standard_normal((1, 3, 3, 3))
    grid = patch_grid((5, 6, 3), 3, 1)

    found = fetch(
        same_size_responses(xp.asarray(images.reshape(2, -1)), xp.asarray(filters.reshape(1, -1)), grid)
    )

    expected = [
        sum(correlate(image[..., c], filters[0, ..., c], mode="constant") for c in range(3))
        for image in images
    ]
    np.testing.assert_allclose(found[..., 0], np.array(expected).reshape(2, -1), atol=1e-12)


def test_leading_filters_are_eigenvectors_of_the_largest_eigenvalues_with_a_fixed_sign(xp, rng):
    A = rng.standard_normal((6, 6))
    covariance = A @ A.T

    filters = fetch(leading_filters(xp.asarray(covariance), 3))

    largest = np.linalg.eigvalsh(covariance)[::-1][:3]
    np.testing.assert_allclose(covariance @ filters.T, filters.T * largest, atol=1e-10)
    peaks = np.take_along_axis(filters, np.abs(filters).argmax(axis=1)[:, None], axis=1)
    assert (peaks > 0).all()
