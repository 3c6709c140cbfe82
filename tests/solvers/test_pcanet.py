"""PCANet's stages against a transcription with loops over images, pixels and blocks."""

import numpy as np
import pytest

from dcadl.arrays import fetch
from dcadl.ops.patches import patch_grid
from dcadl.solvers.pcanet import histograms, learn_stage

SHAPE, FILTER, BLOCK = (7, 8), 3, (3, 4)
GRID, BLOCKS = patch_grid(SHAPE, FILTER, 1), patch_grid(SHAPE, BLOCK, BLOCK)


def _valid_patches(image):
    H, W = image.shape
    patches = [image[r : r + 3, c : c + 3].ravel() for r in range(H - 2) for c in range(W - 2)]
    return [p - p.mean() for p in patches]


def _literal_maps(image, filters):
    padded = np.pad(image, 1)
    maps = np.zeros((len(filters), *image.shape))
    for k, r, c in np.ndindex(maps.shape):
        patch = padded[r : r + 3, c : c + 3].ravel()
        maps[k, r, c] = filters[k] @ (patch - patch.mean())
    return maps


def _literal_features(maps):
    L = len(maps)
    T = sum(2 ** (L - 1 - k) * (maps[k] > 0).astype(int) for k in range(L))
    blocks = [T[r : r + 3, c : c + 4] for r in range(0, 5, 3) for c in range(0, 5, 4)]
    return np.concatenate([np.bincount(b.ravel(), minlength=2**L) * 2**L / 12 for b in blocks])


def _images(rng, n=5):
    return rng.standard_normal((n, *SHAPE))


def _learn(X, stages, centre="patch", count=3):
    return learn_stage(X, stages, GRID, count, centre)


def test_filters_span_the_leading_eigenspace_of_the_centred_patches(xp, rng):
    images = _images(rng)

    stage = _learn(xp.asarray(images.reshape(5, -1)), ())

    patches = np.array([p for image in images for p in _valid_patches(image)])
    leading = np.linalg.eigh(patches.T @ patches)[1][:, -3:]
    filters = fetch(stage.filters)
    np.testing.assert_allclose(filters.T @ filters, leading @ leading.T, atol=1e-10)
    np.testing.assert_allclose(filters.sum(axis=1), 0, atol=1e-12)


def test_centring_by_the_data_set_gives_the_ordinary_principal_components(xp, rng):
    images = _images(rng) + 10.0

    stage = _learn(xp.asarray(images.reshape(5, -1)), (), "dataset")

    patches = np.array(
        [im[r : r + 3, c : c + 3].ravel() for im in images for r in range(5) for c in range(6)]
    )
    leading = np.linalg.eigh(np.cov(patches.T))[1][:, -3:]
    filters = fetch(stage.filters)
    np.testing.assert_allclose(filters.T @ filters, leading @ leading.T, atol=1e-8)
    np.testing.assert_allclose(fetch(stage.offset), filters @ patches.mean(axis=0), atol=1e-10)


def test_one_stage_equals_its_transcription(xp, rng):
    images = _images(rng)
    X = xp.asarray(images.reshape(5, -1))

    stage = _learn(X, ())
    found = np.concatenate([fetch(part) for part in histograms(X, (stage,), BLOCKS)])

    expected = [_literal_features(_literal_maps(image, fetch(stage.filters))) for image in images]
    np.testing.assert_allclose(found, expected)


def test_two_stages_equal_their_transcription(xp, rng):
    images = _images(rng)
    X = xp.asarray(images.reshape(5, -1))

    first = _learn(X, (), count=2)
    second = _learn(X, (first,))
    found = np.concatenate([fetch(part) for part in histograms(X, (first, second), BLOCKS)])

    maps = [_literal_maps(image, fetch(first.filters)) for image in images]
    patches = np.array([p for each in maps for m in each for p in _valid_patches(m)])
    leading = np.linalg.eigh(patches.T @ patches)[1][:, -3:]
    W2 = fetch(second.filters)
    np.testing.assert_allclose(W2.T @ W2, leading @ leading.T, atol=1e-10)
    expected = [np.concatenate([_literal_features(_literal_maps(m, W2)) for m in each]) for each in maps]
    np.testing.assert_allclose(found, expected)


@pytest.mark.parametrize("brightness", [0.1, 0.3, 1000.7])
def test_a_flat_image_has_one_code_but_at_its_border_whatever_its_brightness(xp, rng, brightness):
    stage = _learn(xp.asarray(_images(rng).reshape(5, -1).astype(np.float32)), ())
    flat = xp.asarray(np.full((1, 56), brightness, dtype=np.float32))
    middle = patch_grid(SHAPE, (3, 4), (4, 4))._replace(stride=(1, 1))

    (found,) = histograms(flat, (stage,), middle)

    inner = fetch(found).reshape(*middle.counts, 8)[1:-1, 1:-1]
    np.testing.assert_allclose(inner[..., 0], 8)
