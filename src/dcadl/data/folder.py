"""A folder with one sub-folder of pictures per class."""

import os
import unicodedata
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from sklearn.utils import Bunch

from dcadl.data.bunch import make_bunch
from dcadl.data.errors import UnreadablePicturesError, unreadable
from dcadl.data.images import (
    IMAGE_SUFFIXES,
    Filter,
    Size,
    as_height_width,
    check_same_size,
    decode,
    decode_shrunk,
)
from dcadl.data.limits import MAX_PIXELS
from dcadl.data.parallel import parallel_map, with_progress
from dcadl.data.row_buffer import MappedRowBuffer, RaggedRowBuffer, RowBuffer

OnError = Literal["raise", "skip"]
TRAINING = ("train", "training")  # folders of these names beside those below hold parts, not classes
TESTING = ("test", "testing", "val", "valid", "validation")


class Listing(NamedTuple):
    """What a folder of classes holds, before anything is decoded."""

    files: list[Path]
    target: Any  # (n,) class of each file
    names: list[str]  # classes in order
    ignored: list[Path]  # files of the classes that are not pictures by their ending
    loose: list[Path]  # pictures outside the class folders
    train: Any = None  # (n,) which files lie in a folder for training, where there is one for testing too


class Survey(NamedTuple):
    """What reading every picture of a listing showed."""

    shapes: list[tuple[int, ...]]
    bad: list[ValueError]


def image_folder(
    path: str | Path,
    *,
    size: Size = None,
    color: bool = False,
    filter: Filter = "area",
    on_error: OnError = "raise",
    memmap: str | Path | None = None,
    max_side: int | None = None,
    max_pixels: int = MAX_PIXELS,
    n_jobs: int | None = -1,
    progress: bool | None = None,
) -> Bunch:
    """
    Pictures and labels from a folder with one sub-folder per class.

    Parameters
    ----------
    path : the folder; classes are its sub-folders in alphabetical order, read to any depth. A single
        folder around them is passed through; hidden folders and those named `__…` are no classes
    size : (height, width) for all pictures; None needs them to share one size already
    color : keep three channels instead of grey
    filter : how pixels are combined when the size changes
    on_error : "raise" reads everything, then names every unreadable file; "skip" leaves them out
    memmap : a new `.npy` file to hold the pixels, memory-mapped: for folders larger than memory
    max_side : every picture keeps its own size and proportions, in grey, shrunk where its longer side exceeds
        this; `data` then holds one array for each picture, as `SpatialPyramid` takes them
    max_pixels : larger pictures count as unreadable
    n_jobs : threads that decode; -1 is every core
    progress : draw a bar; None draws it on a terminal only

    Returns
    -------
    Bunch with `data` (n, pixels), `images` (n, H, W[, 3]) uint8, `target`, `target_names`, `filenames`,
    `skipped` (unreadable files), `ignored` (files that are no pictures by their ending), `loose` (pictures
    outside the class folders) and `DESCR`; of a folder that holds `train` and `test` (or `val`) with the
    classes in them, also `train`, a mask.
    """
    if on_error not in ("raise", "skip"):
        raise ValueError(f'on_error must be "raise" or "skip"; got {on_error!r}.')
    size = as_height_width(size)
    listing, faults = _listing_and_faults(path, on_error)
    read: Any = partial(decode, size=size, color=color, filter=filter, max_pixels=max_pixels)
    if max_side is not None:
        read = partial(decode_shrunk, max_side=max_side, max_pixels=max_pixels)
    outcomes = _attempts(read, listing.files, n_jobs, progress)
    n = len(listing.files)
    rows = RaggedRowBuffer(n) if max_side is not None else RowBuffer(n)
    if memmap is not None:
        rows = MappedRowBuffer(n, Path(memmap))
    with rows:
        kept, bad = _collect(listing.files, outcomes, rows)
        if faults or (bad and (on_error == "raise" or not kept)):
            advice = 'on_error="skip" leaves them out.' if kept else "No picture is left."
            raise unreadable(bad, advice, also=faults)
        images = rows.finish()
    files = [str(listing.files[i]) for i in kept]
    target, names = _classes_left(listing, kept)
    parts = {} if listing.train is None else {"train": listing.train[kept]}
    return make_bunch(
        images,
        target,
        names,
        **parts,
        filenames=np.array(files),
        skipped=[str(error) for error in bad],
        ignored=[str(file) for file in listing.ignored],
        loose=[str(file) for file in listing.loose],
        DESCR=f"{len(files)} pictures of {len(names)} classes from {path}",
    )


def _listing_and_faults(path: str | Path, on_error: OnError) -> tuple[Listing, list[str]]:
    """The listing; empty classes are a fault to be named with those of the files, all at once."""
    try:
        return list_folder(path, on_error=on_error), []
    except UnreadablePicturesError as error:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the error says it
            return list_folder(path, on_error="skip"), [error.fault]


def list_folder(path: str | Path, *, on_error: OnError = "raise") -> Listing:
    """Files and classes of a folder; an empty class is refused, or left out with a warning."""
    path = Path(path)
    if not path.is_dir():
        raise FileNotFoundError(f"expected a folder with one sub-folder per class; not found: {path}")
    levels = _levels(path)
    folders = class_folders(levels[-1])
    if _are_parts(folders):
        outside = [file for level in levels for file in _files_outside(level) if _is_picture(file)]
        return _merged({folder: list_folder(folder, on_error=on_error) for folder in folders}, outside)
    if not folders:
        raise ValueError(f"expected one sub-folder per class in {path}; found no sub-folders.")
    _refuse_same_names(folders)
    held = {folder: files_below(folder) for folder in folders}
    pictures = {folder: [f for f in files if _is_picture(f)] for folder, files in held.items()}
    empty = [_with_endings(folder.name, held[folder]) for folder in folders if not pictures[folder]]
    if len(empty) == len(folders):
        raise ValueError(f"class folders without a picture in {path}: {', '.join(empty)}.")
    if empty and on_error == "raise":
        fault = f"class folders without a picture in {path}: {', '.join(empty)}."
        raise UnreadablePicturesError(fault, 'on_error="skip" leaves them out.')
    if empty:
        warnings.warn(f"left out class folders without a picture: {', '.join(empty)}", stacklevel=3)
    folders = [folder for folder in folders if pictures[folder]]
    return Listing(
        files=[file for folder in folders for file in pictures[folder]],
        target=np.repeat(np.arange(len(folders)), [len(pictures[folder]) for folder in folders]),
        names=[folder.name for folder in folders],
        ignored=[f for files in held.values() for f in files if not _is_picture(f)],
        loose=[f for level in levels for f in _files_outside(level) if _is_picture(f)],
    )


def _are_parts(folders: list[Path]) -> bool:
    """Whether folders are called train and test, or the like, and hold the same classes."""
    names = [folder.name.lower() for folder in folders]
    if not set(names) <= {*TRAINING, *TESTING} or len({name in TRAINING for name in names}) < 2:
        return False
    return bool(set.intersection(*({inner.name for inner in class_folders(one)} for one in folders)))


def _merged(parts: dict[Path, Listing], outside: list[Path]) -> Listing:
    """One listing of parts, which remembers what is for training."""
    listings = list(parts.values())
    names = sorted({name for one in listings for name in one.names})
    trained = [folder.name.lower() in TRAINING for folder in parts]
    known = {name for one, train in zip(listings, trained) if train for name in one.names}
    if strange := sorted(set(names) - known):
        raise ValueError(f"classes without a picture to train on: {', '.join(strange)}.")
    places = [np.array([names.index(name) for name in one.names])[one.target] for one in listings]
    return Listing(
        files=[file for one in listings for file in one.files],
        target=np.concatenate(places),
        names=names,
        ignored=[file for one in listings for file in one.ignored],
        loose=[*outside, *(file for one in listings for file in one.loose)],
        train=np.repeat(trained, [len(one.files) for one in listings]),
    )


def class_folders(folder: Path) -> list[Path]:
    """Sub-folders that may be classes: neither hidden nor of the kind of `__MACOSX`."""
    return sorted(p for p in folder.iterdir() if p.is_dir() and not p.name.startswith((".", "__")))


def endings(files: Iterable[str | Path]) -> str:
    """How many files have which ending, such as ".heic: 40, .txt: 2"."""
    counts = Counter(Path(file).suffix.lower() or "none" for file in files)
    return ", ".join(f"{ending}: {n}" for ending, n in counts.most_common())


def survey(listing: Listing, progress: bool | None = None) -> Survey:
    """Sizes of all pictures and the errors of those that cannot be read; keeps no pixels."""
    outcomes = list(_attempts(lambda file: decode(file).shape, listing.files, -1, progress))
    return Survey(
        shapes=[outcome for outcome in outcomes if not isinstance(outcome, ValueError)],
        bad=[outcome for outcome in outcomes if isinstance(outcome, ValueError)],
    )


def _attempts(
    read: Callable[[Path], Any], files: list[Path], n_jobs: int | None, progress: bool | None
) -> Iterator[Any]:
    """What each file gives, or the ValueError it raises, in order."""

    def attempt(file: Path) -> Any:
        try:
            return read(file)
        except ValueError as error:
            return error

    return with_progress(parallel_map(attempt, files, n_jobs), len(files), "reading images", progress)


def _levels(folder: Path) -> list[Path]:
    """The folder and those inside it down to the one that holds the classes: archives often wrap it."""
    inner = class_folders(folder)
    wraps = len(inner) == 1 and class_folders(inner[0])
    return [folder, *_levels(inner[0])] if wraps else [folder]


def files_below(folder: Path) -> list[Path]:
    """Every file at any depth, hidden ones and hidden folders left out; an unreadable folder is an error."""

    def refuse(error: OSError) -> None:
        raise ValueError(f"cannot read the folder {error.filename}: {error.strerror}.") from error

    found = []
    for home, inner, names in os.walk(folder, onerror=refuse):
        inner[:] = [name for name in inner if not name.startswith(".")]  # os.walk passes these by
        found += [Path(home, name) for name in names if not name.startswith(".")]
    return sorted(p for p in found if p.is_file())


def _files_outside(level: Path) -> Iterator[Path]:
    """Files beside the class folders, and those of folders that are no classes by their name."""
    for entry in sorted(p for p in level.iterdir() if not p.name.startswith(".")):
        if entry.is_file():
            yield entry
        elif entry.name.startswith("__"):
            yield from files_below(entry)


def _with_endings(name: str, files: list[Path]) -> str:
    return f"{name} (it holds {endings(files)})" if files else name


def _is_picture(file: Path) -> bool:
    return file.suffix.lower() in IMAGE_SUFFIXES


def _refuse_same_names(folders: list[Path]) -> None:
    """Two folders that differ in case, accents' encoding or outer blanks only are one class by mistake."""
    seen: dict[str, Path] = {}
    for folder in folders:
        key = unicodedata.normalize("NFC", folder.name).strip().casefold()
        if key in seen:
            raise ValueError(
                f"two folders name one class: {seen[key].name!r} and {folder.name!r}. Merge them."
            )
        seen[key] = folder


def _collect(files: list[Path], outcomes: Any, rows: RowBuffer) -> tuple[list[int], list[ValueError]]:
    """Store what was decoded; say which files were kept and which errors came."""
    kept: list[int] = []
    bad: list[ValueError] = []
    for i, outcome in enumerate(outcomes):
        if isinstance(outcome, ValueError):
            bad.append(outcome)
            continue
        check_same_size(files[i], outcome, rows.shape or outcome.shape)
        rows.append(outcome)
        kept.append(i)
    return kept, bad


def _classes_left(listing: Listing, kept: list[int]) -> tuple[Any, list[str]]:
    """Labels and names without the classes of which no picture could be read."""
    present, target = np.unique(listing.target[kept], return_inverse=True)
    lost = [name for c, name in enumerate(listing.names) if c not in present]
    if lost:
        warnings.warn(f"left out classes without a readable picture: {', '.join(lost)}", stacklevel=3)
    return target, [listing.names[c] for c in present]
