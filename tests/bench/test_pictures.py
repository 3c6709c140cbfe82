"""Pictures as text and back."""

import base64
import io
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from dcadl.bench.pictures import data_uri, packed_atoms, sheet, unpacked_atoms


def test_atoms_come_back_as_grey_levels_around_their_zero(rng):
    atoms = rng.standard_normal((5, 4, 3))

    grey = unpacked_atoms(packed_atoms(SimpleNamespace(atoms_=atoms)))

    reach = np.abs(atoms).max(axis=(1, 2), keepdims=True)
    np.testing.assert_allclose((grey - 127.5) / 127.5, atoms / reach, atol=0.005)


@pytest.mark.parametrize("shape", [(5, 1500), (5, 1, 4), (5, 4, 4, 3), (5, 99, 99)], ids=str)
def test_what_is_no_small_grey_picture_is_not_kept(shape):
    assert packed_atoms(SimpleNamespace(atoms_=np.ones(shape))) is None


def test_a_model_without_atoms_has_none():
    assert packed_atoms(SimpleNamespace()) is None


def test_every_tile_is_on_the_sheet():
    tiles = np.arange(1, 13, dtype=np.uint8)[:, None, None] * np.ones((1, 3, 2), np.uint8)

    grey, alpha = np.moveaxis(sheet(tiles, columns=5), -1, 0)
    assert set(np.unique(grey[alpha == 255])) == set(range(1, 13))
    assert set(np.unique(alpha)) == {0, 255}  # gaps show the page


def test_few_tiles_leave_no_empty_places():
    picture = sheet(np.zeros((3, 4, 4), np.uint8), columns=10)

    assert picture.shape[1] == pytest.approx(3 * picture.shape[0], rel=0.2)


def test_a_picture_survives_the_page(rng):
    grey = rng.integers(0, 256, (6, 7), dtype=np.uint8)

    _, _, text = data_uri(grey).partition("base64,")

    np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(base64.b64decode(text)))), grey)
