"""Small pictures as text that a record or a page can hold."""

from __future__ import annotations

import base64
import io
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

MOST_ATOMS = 100
LARGEST_SIDE = 64
TILE_WIDTH = 40


def packed_atoms(model: BaseEstimator) -> dict[str, Any] | None:
    """Learned filters in eight bits, each stretched to its own range; None where they are no pictures."""
    atoms = getattr(model, "atoms_", getattr(model, "filters_", None))
    if (
        atoms is None
        or np.ndim(atoms) != 3
        or max(atoms.shape[1:]) > LARGEST_SIDE
        or min(atoms.shape[1:]) < 2
    ):
        return None
    atoms = atoms[:MOST_ATOMS]
    reach = np.abs(atoms).max(axis=(1, 2), keepdims=True)
    grey = np.rint(127.5 + 127.5 * atoms / np.where(reach > 0, reach, 1)).astype(np.uint8)
    return {"shape": list(grey.shape), "grey": base64.b64encode(grey.tobytes()).decode()}


def unpacked_atoms(packed: dict[str, Any]) -> np.ndarray:
    """(m, h, w) grey levels, 128 is zero."""
    return np.frombuffer(base64.b64decode(packed["grey"]), np.uint8).reshape(packed["shape"])


def sheet(tiles: np.ndarray, columns: int = 10, gap: int = 1) -> np.ndarray:
    """Grey tiles (m, h, w) side by side in one picture (H, W, 2), each some forty pixels wide.

    The second channel makes the gaps transparent: they look right on light and on dark pages.
    """
    m, h, w = tiles.shape
    columns = min(columns, m)
    zoom = max(1, TILE_WIDTH // w)
    rows = -(-m // columns)
    canvas = np.zeros((rows * (h + gap) + gap, columns * (w + gap) + gap, 2), np.uint8)
    for i, tile in enumerate(tiles):
        y, x = gap + (i // columns) * (h + gap), gap + (i % columns) * (w + gap)
        canvas[y : y + h, x : x + w, 0] = tile
        canvas[y : y + h, x : x + w, 1] = 255
    return canvas.repeat(zoom, axis=0).repeat(zoom, axis=1)


def data_uri(grey: np.ndarray) -> str:
    """A grey picture (H, W), or (H, W, 2) with transparency, as the address of a PNG inside the page."""
    stream = io.BytesIO()
    Image.fromarray(grey).save(stream, format="PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(stream.getvalue()).decode()
