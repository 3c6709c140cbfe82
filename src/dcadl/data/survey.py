"""A survey of a folder of pictures: their sizes and whether they have colour, before they are read."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from dcadl.data.folder import Listing, list_folder
from dcadl.data.images import DECODER_ERRORS, decode

LARGE_PIXELS, WORKING_PIXELS = 12_000, 8_000  # larger pictures than the first are reduced to the second
GREY_MODES = ("1", "L", "LA", "I", "F")
ORIENTATION, TURNED = 0x0112, (5, 6, 7, 8)  # the EXIF tag, and its values that swap height and width
TURNING_FORMATS = ("JPEG", "MPO", "TIFF", "WEBP")  # asking a PNG for its EXIF would decode all of it
SAMPLED_PICTURES = 24  # pictures that are decoded to see whether they have colour
SAMPLED_PIXELS = 100_000_000  # that are decoded for it in all, at most
COLOURFUL = 10.0  # mean gap between the strongest and the weakest channel, of 255


class FolderSurvey(NamedTuple):
    """What the headers of the pictures say; those that cannot be read are left out here."""

    listing: Listing
    sizes: Any  # (k, 2) height and width as a viewer shows them
    target: Any  # (k,) class of each
    color: bool  # whether most of them have colour

    @property
    def working_size(self) -> tuple[int, int]:
        """One size for all: the pictures' own where they share a small one, else the medians, reduced."""
        height, width = np.median(self.sizes, axis=0)
        same = bool((self.sizes == self.sizes[0]).all())
        most = LARGE_PIXELS if same else WORKING_PIXELS
        shrink = 1.0 if height * width <= most else float(np.sqrt(WORKING_PIXELS / (height * width)))
        return max(1, round(height * shrink)), max(1, round(width * shrink))


def survey_folder(path: str | Path) -> FolderSurvey:
    """Look at a folder of class folders; only some small copies of pictures are decoded."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of empty classes: whoever reads them says so
        listing = list_folder(path, on_error="skip")
    heads = [_head(file) for file in listing.files]
    readable = [i for i, head in enumerate(heads) if head is not None]
    found = [head for head in heads if head is not None]
    sizes = np.array([size for size, _ in found], dtype=int).reshape(-1, 2)
    modes = [mode for _, mode in found]
    color = _mostly_colourful([listing.files[i] for i in readable], modes, sizes)
    return FolderSurvey(listing, sizes, listing.target[readable], color)


def _head(file: Path) -> tuple[tuple[int, int], str] | None:
    """Height and width, and Pillow's mode; None where the file is no picture."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of large pictures: nothing is decoded here
            with Image.open(file) as opened:
                turned = opened.format in TURNING_FORMATS and opened.getexif().get(ORIENTATION) in TURNED
                width, height = opened.size[::-1] if turned else opened.size
                return (height, width), opened.mode
    except DECODER_ERRORS:
        return None


def _mostly_colourful(files: Sequence[Path], modes: Sequence[str], sizes: Any) -> bool:
    """Whether more than half have colour, by a sample of those that could have."""
    maybe = [i for i, mode in enumerate(modes) if not mode.startswith(GREY_MODES)]
    if 2 * len(maybe) <= len(files):
        return False
    largest = int(sizes[maybe].prod(axis=1).max())
    count = min(SAMPLED_PICTURES, len(maybe), max(1, SAMPLED_PIXELS // largest))
    sample = [files[maybe[i]] for i in np.linspace(0, len(maybe) - 1, count).astype(int)]
    votes = [vote for vote in map(_is_colourful, sample) if vote is not None]
    return 2 * sum(votes) > len(votes)


def _is_colourful(file: Path) -> bool | None:
    try:
        small = decode(file, size=32, color=True).astype(float)
    except ValueError:
        return None
    return bool((small.max(axis=-1) - small.min(axis=-1)).mean() > COLOURFUL)
