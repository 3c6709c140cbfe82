"""One picture from disk to a uint8 array: orientation, bit depth, colour model, transparency, size."""

import io
import struct
import warnings
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, Literal

import numpy as np
from PIL import Image, ImageOps

from dcadl.data.errors import MixedSizesError, TooManyPixelsError
from dcadl.data.limits import MAX_PIXELS, check_pixels

Size = int | tuple[int, int] | None
Filter = Literal["area", "bilinear", "bicubic", "lanczos", "nearest"]

IMAGE_SUFFIXES = frozenset(
    (".bmp", ".dib", ".gif", ".jfif", ".jpe", ".jpeg", ".jpg", ".pbm", ".pgm", ".png", ".pnm", ".ppm")
    + (".tif", ".tiff", ".webp")
)
FORMATS = ("BMP", "DIB", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")  # Pillow's decoders of these endings
FILTERS = {
    "area": Image.Resampling.BOX,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
    "nearest": Image.Resampling.NEAREST,
}
LARGE_PICTURE = 16_000_000  # pixels
_ONE_LARGE = Lock()
# what Pillow's decoders are known to raise on damaged files
DECODER_ERRORS = (
    OSError,
    SyntaxError,
    ValueError,
    EOFError,
    IndexError,
    KeyError,
    TypeError,
    OverflowError,
    MemoryError,
    struct.error,
    zlib.error,
    Image.DecompressionBombError,
)


def decode(
    path: str | Path,
    *,
    size: Size = None,
    color: bool = False,
    filter: Filter = "area",
    max_pixels: int = MAX_PIXELS,
) -> Any:
    """
    The picture at `path` as uint8, shape (height, width) in grey or (height, width, 3) in colour.

    EXIF orientation is applied, transparency is laid over white, 16-bit values are divided by 257,
    CMYK becomes RGB, and of an animation the first frame is taken. Grey is the luma of ITU-R 601.

    Parameters
    ----------
    path : an image file
    size : (height, width), or one number for a square; None keeps the picture's own
    color : keep three channels
    filter : how pixels are combined when the size changes; "area" averages the pixels covered
    max_pixels : a picture of more is refused before it is decoded: a small file may unfold to gigabytes
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"image file not found: {path}")
    try:
        with _opened(path, max_pixels) as picture:
            return _pixels(picture, size, color, filter)
    except DECODER_ERRORS as error:
        raise ValueError(f"cannot read {path} as an image: {error}") from error


def decode_bytes(data: bytes, *, most_pixels: int, size: Size = None, color: bool = False) -> Any:
    """The same for a file in memory; a picture of more pixels is refused before it is decoded."""
    try:
        with _opened(io.BytesIO(data), most_pixels) as picture:
            return _pixels(picture, size, color, "area")
    except TooManyPixelsError:
        raise
    except DECODER_ERRORS as error:
        raise ValueError(f"cannot read these bytes as an image: {error}") from error


@contextmanager
def _opened(source: Path | io.BytesIO, max_pixels: int) -> Iterator[Image.Image]:
    """The picture, only its header read, if it is of a format we know and not too large.

    Without the list of formats Pillow goes by content, and hands PostScript named `.png` to Ghostscript.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # our own limit comes next
        try:
            opened = Image.open(source, formats=FORMATS)
        except Image.DecompressionBombError:  # whatever our limit: Pillow's own is twice the one it warns of
            most = 2 * (Image.MAX_IMAGE_PIXELS or 0)
            raise TooManyPixelsError(
                f"a picture may have at most {min(max_pixels, most)} pixels; got more than {most}, "
                "which no option allows. Shrink it."
            ) from None
    with opened:
        check_pixels(*opened.size, max_pixels)
        yield opened


def read_images(
    paths: Sequence[str | Path],
    *,
    size: Size = None,
    color: bool = False,
    filter: Filter = "area",
    max_pixels: int = MAX_PIXELS,
) -> Any:
    """
    Loose image files as one uint8 array (n, height, width) or (n, height, width, 3).

    With `size=None` all pictures must share one size. An unreadable file is a ValueError with its name.
    """
    if not paths:
        raise ValueError("expected at least one image file; got none.")
    read = partial(decode, size=size, color=color, filter=filter, max_pixels=max_pixels)
    pictures = [read(path) for path in paths]
    for path, picture in zip(paths, pictures):
        check_same_size(path, picture, pictures[0].shape)
    return np.stack(pictures)


def check_same_size(path: str | Path, picture: Any, shape: tuple[int, ...]) -> None:
    """Refuse a picture that cannot be stacked with the others."""
    if picture.shape != shape:
        raise MixedSizesError(
            f"all images must have one size; {path} is {picture.shape[0]}×{picture.shape[1]}, "
            f"others are {shape[0]}×{shape[1]}.",
            "Give size=(height, width) to resize them.",
        )


def as_height_width(size: Size) -> tuple[int, int] | None:
    """Size as (height, width): one number means a square."""
    if size is None:
        return None
    height, width = (size, size) if isinstance(size, int | np.integer) else size
    if int(height) < 1 or int(width) < 1:
        raise ValueError(f"size must be positive (height, width); got {size}.")
    return int(height), int(width)


def resize(picture: Image.Image, size: Size, filter: Filter = "area") -> Image.Image:
    """The picture at (height, width)."""
    if filter not in FILTERS:
        raise ValueError(f"filter must be one of {', '.join(FILTERS)}; got {filter!r}.")
    wanted = as_height_width(size)
    if wanted is None or wanted == (picture.height, picture.width):
        return picture
    height, width = wanted
    whole = picture.height % height == 0 and picture.width % width == 0
    if filter == "area" and whole and picture.mode != "F":
        # reduce() rounds once; resize() would round after each axis
        return picture.reduce((picture.width // width, picture.height // height))
    return picture.resize((width, height), FILTERS[filter])


def unit_range(samples: Any) -> Any:
    """float32 samples, pixel values 0..255 brought to [0, 1].

    Pixels are what 8 bits hold, and pictures whose values lie in 0..255 but not in [0, 1]. Rows of other
    numbers are features: they stay as they are, and so do pictures of differing sizes, or their names.
    """
    if samples.dtype.kind in "OU":
        return samples
    if samples.dtype == np.uint8:
        return samples.astype(np.float32) / np.float32(255)
    pixels = samples.ndim > 2 and samples.min() >= 0 and 1 < samples.max() <= 255.0
    return (samples / 255.0 if pixels else samples).astype(np.float32)


def shrunk(image: Any, max_side: int) -> Any:
    """One image (H, W[, 3]) in grey, shrunk (bicubic) where its longer side exceeds `max_side`."""
    height, width = image.shape[:2]
    ratio = min(1.0, max_side / max(height, width))
    size = max(1, round(height * ratio)), max(1, round(width * ratio))
    return conform(image[None], size, color=False, filter="bicubic")[0]


def decode_shrunk(path: str | Path, max_side: int, max_pixels: int = MAX_PIXELS) -> Any:
    """The picture at `path` in grey as uint8, its longer side at most `max_side`, its proportions kept."""
    return shrunk(decode(path, max_pixels=max_pixels), max_side)


def conform(images: Any, size: Size, color: bool | None, filter: Filter = "area") -> Any:
    """Images already in an array (n, H, W[, 3]) brought to a size and to grey or colour; dtype is kept.

    `color=None` keeps the channels that there are.
    """
    _refuse_channels_first(images.shape)
    if color is None and images.ndim == 4 and images.shape[-1] == 4:
        images = images[..., :3]
    if images.ndim == 4 and images.shape[-1] in (3, 4) and color is False:
        images = _luma(images[..., :3])
    elif images.ndim == 4 and images.shape[-1] == 1:
        images = images[..., 0]
    if color and images.ndim == 3:
        images = np.repeat(images[..., None], 3, axis=-1)
    wanted = as_height_width(size)
    if wanted is None or wanted == images.shape[1:3]:
        return images
    return np.stack([_resize_array(image, wanted, filter) for image in images])


def _pixels(opened: Image.Image, size: Size, color: bool, filter: Filter) -> Any:
    # A camera's picture takes hundreds of megabytes while it is decoded: one at a time, however many threads.
    with _ONE_LARGE if opened.width * opened.height > LARGE_PICTURE else nullcontext():
        ImageOps.exif_transpose(opened, in_place=True)  # else even an upright picture would be copied
        return np.asarray(resize(_plain(opened, color), size, filter))


def _refuse_channels_first(shape: tuple[int, ...]) -> None:
    if len(shape) == 4 and shape[1] in (1, 3, 4) and shape[-1] not in (1, 3, 4):
        raise ValueError(
            f"images must have their channels last, (n, height, width, channels); got {shape}. "
            "np.moveaxis(images, 1, -1) brings them there."
        )


def _luma(images: Any) -> Any:
    """Grey of RGB arrays by the weights Pillow uses."""
    grey = images @ np.array([0.299, 0.587, 0.114])
    return (np.rint(grey) if np.issubdtype(images.dtype, np.integer) else grey).astype(images.dtype)


def _resize_array(image: Any, size: tuple[int, int], filter: Filter) -> Any:
    """One array resized channel by channel, in float unless it is uint8."""
    if image.ndim == 3:
        return np.stack([_resize_array(image[..., c], size, filter) for c in range(image.shape[-1])], axis=-1)
    if image.dtype == np.uint8:
        return np.asarray(resize(Image.fromarray(np.ascontiguousarray(image)), size, filter))
    resized = np.asarray(resize(Image.fromarray(image.astype(np.float32)), size, filter))
    return (np.rint(resized) if np.issubdtype(image.dtype, np.integer) else resized).astype(image.dtype)


def _plain(picture: Image.Image, color: bool) -> Image.Image:
    """Any of Pillow's modes as "L" or "RGB"."""
    if picture.mode[0] in "IF":
        picture = _eight_bits(picture)
    if picture.has_transparency_data:
        picture = picture.convert("RGBA")
        white = Image.new("RGB", picture.size, "white")
        white.paste(picture, mask=picture.getchannel("A"))
        picture = white
    if picture.mode != "RGB" and (color or picture.mode not in ("L", "1")):
        picture = picture.convert("RGB")
    return picture if color or picture.mode == "L" else picture.convert("L")


def _eight_bits(picture: Image.Image) -> Image.Image:
    """16-bit integers divided by 257 (so white stays white), floats in [0, 1] times 255."""
    values = np.asarray(picture)
    if picture.mode == "F":
        low, top, scale = float(np.nanmin(values)), 1.0, 255.0
    else:
        low, top, scale = float(values.min()), 65535.0, 255.0 / 65535.0
    if not (low >= 0 and values.max() <= top):
        raise ValueError(f"expected values in 0..{top:g}; got {low:g}..{values.max():g}.")
    pixels = np.empty(values.shape, np.uint8)
    for row, eight in zip(values, pixels):  # row by row: the whole in float64 takes eight times the picture
        eight[:] = np.rint(row * scale)
    return Image.fromarray(pixels)
