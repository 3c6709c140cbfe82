"""What a user calls an image, a file name or an array, as grey values 0..255 of bounded size."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dcadl.data.images import decode_shrunk, shrunk

ImageInput = Any  # a path, or an array (H, W) or (H, W, 3)


def as_image_list(X: Any) -> list[ImageInput]:
    """Images one by one: a list of files or arrays, an array of file names, or an array (n, H, W[, 3])."""
    if isinstance(X, str | Path):
        raise ValueError(f"expected a sequence of images; got one path, {X}. Put it in a list.")
    if isinstance(X, np.ndarray) and X.ndim == 2:
        raise ValueError(f"expected images (n, H, W) or a list of images; got rows of numbers {X.shape}.")
    images = list(X) if isinstance(X, Sequence | np.ndarray) else None
    if not images:
        raise ValueError(f"expected at least one image; got {type(X).__name__} without any.")
    return images


def image_name(image_input: ImageInput, index: int) -> str:
    """How messages call an image."""
    return str(image_input) if isinstance(image_input, str | Path) else f"image {index}"


def grey_image(image_input: ImageInput, max_side: int) -> Any:
    """Grey values (H, W) in 0..255, shrunk (bicubic) where the longer side exceeds `max_side`."""
    if isinstance(image_input, str | Path):
        return decode_shrunk(image_input, max_side)
    return shrunk(_as_bytes(np.asarray(image_input)), max_side)


def _as_bytes(image: Any) -> Any:
    """Values on the scale 0..255: uint8 as it is, uint16 over 257, floats of 0..1 times 255."""
    if image.ndim not in (2, 3) or (image.ndim == 3 and image.shape[-1] not in (1, 3, 4)):
        raise ValueError(f"an image must be (H, W) or (H, W, 1, 3 or 4); got shape {image.shape}.")
    if image.dtype == np.uint8:
        return image
    if image.dtype == np.uint16:
        return image.astype(np.float32) / 257
    if image.dtype.kind not in "bf" or not (np.min(image) >= 0 and np.max(image) <= 1):
        raise ValueError(
            f"image values must be uint8, uint16, or floats in 0..1; got {image.dtype} "
            f"from {np.min(image)} to {np.max(image)}."
        )
    return image.astype(np.float32) * 255
