"""Dense SIFT against its definition written out, against OpenCV, and under the symmetries of the square."""

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter

from dcadl.features.sift import (
    BINS,
    ORIENTATIONS,
    dense_sift,
    histograms,
    orientation_maps,
    root_sift,
    shares,
    unit,
)

SIDE = 16 + 5 * 6  # a grid that leaves no margin, so that it is its own mirror image


@pytest.fixture
def texture(rng):
    """Random values with detail at the scale of a bin."""
    image = gaussian_filter(rng.standard_normal((SIDE + 18, SIDE)), 1.5)
    return (255 * (image - image.min()) / np.ptp(image)).astype(np.float32)


def as_grid(descriptors, grid):
    """(rows, columns, 4, 4, 8): patch, then bin, then orientation."""
    return descriptors.reshape(len(grid.rows), len(grid.columns), BINS, BINS, ORIENTATIONS)


def test_histograms_equal_their_definition_written_out(rng):
    image = rng.integers(0, 256, (16, 16)).astype(np.float32)
    dy, dx = np.gradient(image / 255)
    expected = np.zeros((BINS, BINS, ORIENTATIONS))
    for y in range(16):
        for x in range(16):
            length, turn = np.hypot(dx[y, x], dy[y, x]), np.arctan2(dy[y, x], dx[y, x]) * 8 / (2 * np.pi)
            window = np.exp(-((x - 7.5) ** 2 + (y - 7.5) ** 2) / (2 * 8**2))
            for row in range(BINS):
                for column in range(BINS):
                    near = max(0, 1 - abs(y - (1.5 + 4 * row)) / 4) * max(
                        0, 1 - abs(x - (1.5 + 4 * column)) / 4
                    )
                    for k in range(ORIENTATIONS):
                        apart = abs((turn - k + 4) % 8 - 4)
                        expected[row, column, k] += length * window * near * max(0, 1 - apart)
    K = shares([7.5], 16, 16)
    np.testing.assert_allclose(histograms(image, K, K)[0], expected.ravel(), rtol=1e-4, atol=1e-6)


def test_descriptors_agree_with_opencv(rng):
    cv2 = pytest.importorskip("cv2", reason="OpenCV, the independent implementation, is not installed")
    image = gaussian_filter(rng.standard_normal((120, 150)), 2)
    image = (255 * (image - image.min()) / np.ptp(image)).astype(np.uint8)
    rows, columns = np.arange(24, 96, 6), np.arange(24, 126, 6)  # OpenCV centres patches on pixels
    ours = unit(histograms(image, shares(rows, 120, 16), shares(columns, 150, 16)))
    # a keypoint of size 8/3 has bins of 4 pixels; sigma=0.5 counts as the camera's own blur, so none is added
    points = [cv2.KeyPoint(float(x), float(y), 8 / 3, 0, 1, 0) for y in rows for x in columns]
    kept, theirs = cv2.SIFT_create(sigma=0.5).compute(image, points)
    assert len(kept) == len(points)
    # their angles run counter-clockwise, ours clockwise
    theirs = theirs.reshape(-1, BINS, BINS, ORIENTATIONS)[..., -np.arange(ORIENTATIONS)].reshape(
        len(points), -1
    )
    correlations = [np.corrcoef(a, b)[0, 1] for a, b in zip(ours, theirs)]
    assert min(correlations) >= 0.95


def test_a_mirrored_image_has_mirrored_descriptors(texture):
    straight = as_grid(*dense_sift(texture))
    mirrored = as_grid(*dense_sift(texture[:, ::-1]))
    turned_over = (4 - np.arange(ORIENTATIONS)) % ORIENTATIONS  # an angle θ becomes π - θ
    np.testing.assert_allclose(mirrored, straight[:, ::-1, :, ::-1][..., turned_over], atol=2e-5)


def test_an_image_turned_by_90_degrees_has_turned_descriptors(texture):
    straight = as_grid(*dense_sift(texture))
    turned = as_grid(*dense_sift(np.rot90(texture)))
    expected = np.rot90(np.rot90(straight, axes=(0, 1)), axes=(2, 3))
    expected = np.roll(expected, -2, axis=4)  # counter-clockwise, while angles run clockwise
    np.testing.assert_allclose(turned, expected, atol=2e-5)


def test_brightness_does_not_matter_and_contrast_only_below_the_floor(texture):
    plain, _ = dense_sift(texture)
    np.testing.assert_allclose(dense_sift(texture * 0.5 + 40)[0], plain, atol=1e-4)
    faint, _ = dense_sift(texture * 1e-4, floor=1.0)
    assert np.linalg.norm(faint, axis=1).max() < 0.1


def test_orientations_share_the_whole_gradient(texture):
    dy, dx = np.gradient(texture / 255)
    np.testing.assert_allclose(orientation_maps(texture).sum(axis=0), np.hypot(dx, dy), rtol=1e-4, atol=1e-6)


def test_descriptors_have_length_one(texture):
    descriptors, _ = dense_sift(texture)
    np.testing.assert_allclose(np.linalg.norm(descriptors, axis=1), 1, rtol=1e-5)
    assert descriptors.dtype == np.float32


def test_a_flat_image_has_zero_descriptors():
    descriptors, _ = dense_sift(np.full((40, 40), 128, dtype=np.uint8))
    np.testing.assert_array_equal(descriptors, 0)


def test_root_sift_has_length_one_and_keeps_zero(texture):
    descriptors, _ = dense_sift(texture)
    np.testing.assert_allclose(np.linalg.norm(root_sift(descriptors), axis=1), 1, rtol=1e-5)
    np.testing.assert_array_equal(root_sift(np.zeros((2, 128), dtype=np.float32)), 0)


@pytest.mark.parametrize(
    ("length", "step", "count"), [(16, 6, 1), (21, 6, 1), (22, 6, 2), (300, 6, 48), (40, 3, 9)]
)
def test_the_grid_is_centred_and_full(length, step, count):
    _, grid = dense_sift(np.zeros((length, 16)), step=step)
    assert len(grid.rows) == count
    assert abs((grid.rows[0] - 7.5) - (length - 8.5 - grid.rows[-1])) <= 1


@pytest.mark.parametrize("shape", [(15, 40), (40, 15), (40, 40, 3)])
def test_images_without_room_for_a_patch_are_refused(shape):
    with pytest.raises(ValueError, match="16×16"):
        dense_sift(np.zeros(shape))
