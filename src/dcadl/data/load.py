"""The named data sets: find their files below a folder, whatever form they have, and read them."""

import os
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np
from sklearn.datasets import load_digits
from sklearn.utils import Bunch

from dcadl.data import faces, registry
from dcadl.data.archives import is_archive, unpacked
from dcadl.data.bunch import make_bunch
from dcadl.data.folder import class_folders, list_folder
from dcadl.data.idx import read_mnist
from dcadl.data.labelled import bunch_of_arrays
from dcadl.data.mat import read_arrays
from dcadl.data.registry import Facts

Kind = Literal["arrays", "original"]
ARRAY_SUFFIXES = (".npz", ".mat")


def load(name: str, root: str | Path | None = None, *, kind: Kind | None = None) -> Bunch:
    """
    One of the named data sets as scikit-learn's Bunch.

    Parameters
    ----------
    name : extended_yaleb, ar, caltech101, scene15, mnist or digits
    root : folder that holds the files, or the file, archive or folder itself; by default DCADL_DATA
    kind : "arrays" reads only `.npz` and `.mat` files, "original" only folders and archives as distributed;
        None takes the first that is there, arrays first

    Returns
    -------
    Bunch with `data`, `target`, `target_names` and `DESCR` (source, terms, citation), and `source`, the file
    or folder read. Image sets have `images` (n, H, W) too. Caltech101 and Scene15 in their original form have
    file names as `data`, since their pictures differ in size: `SpatialPyramid` takes them as they are.
    """
    known = registry.facts(name)
    if name == "digits":
        embedded = load_digits()
        bunch, source = make_bunch(embedded.images, embedded.target), "scikit-learn"
    else:
        path = find(known, root, kind)
        bunch, source = _read(known, path), str(path)
    bunch.source = source
    bunch.DESCR = registry.describe(known)
    _warn_if_incomplete(known, bunch)
    return bunch


def find(known: Facts, root: str | Path | None = None, kind: Kind | None = None) -> Path:
    """The file or folder that `load` would read; a FileNotFoundError says what should be where."""
    if kind not in (None, "arrays", "original"):
        raise ValueError(f'kind must be "arrays", "original" or None; got {kind!r}.')
    base = _base(known, root)
    if base.is_file():
        return base
    arrays = [] if kind == "original" else _matches(base, known.arrays, lambda p: p.suffix in ARRAY_SUFFIXES)
    containers = [] if kind == "arrays" else _matches(base, known.containers, _is_container)
    for path in [*arrays, *containers]:
        return path
    if kind != "arrays" and _is_home(known, base):
        return base
    raise FileNotFoundError(_how_to_get(known, base))


def _base(known: Facts, root: str | Path | None) -> Path:
    chosen = os.environ.get("DCADL_DATA") if root is None else root
    if chosen is None:
        raise FileNotFoundError(
            f"no folder given for {known.name}: set DCADL_DATA or name the folder (root). "
            + _how_to_get(known, Path("ROOT"))
        )
    base = Path(chosen)
    if not base.exists():
        raise FileNotFoundError(f"folder not found: {base}. " + _how_to_get(known, base))
    return base


def _matches(base: Path, patterns: list[str], accept: Callable[[Path], bool]) -> list[Path]:
    """Entries of the folder that fit, in order of the patterns."""
    return [path for pattern in patterns for path in sorted(base.glob(pattern)) if accept(path)]


def _is_container(path: Path) -> bool:
    return path.is_dir() or is_archive(path) or "idx3-ubyte" in path.name


def _is_home(known: Facts, folder: Path) -> bool:
    """Whether the folder named by the user is the set itself rather than the folder around it."""
    if known.name == "scene15":
        return len(class_folders(folder)) == known.classes
    if known.name == "caltech101":
        return (folder / "BACKGROUND_Google").is_dir() or (folder / "accordion").is_dir()
    pattern = {"extended_yaleb": faces.YALE_FILE, "ar": faces.AR_FILE}.get(known.name)
    if pattern is None:
        return False
    return any(pattern.fullmatch(p.name) for p in [*folder.glob("*"), *folder.glob("*/*")])


def _read(known: Facts, path: Path) -> Bunch:
    if path.suffix in ARRAY_SUFFIXES:
        arrays = read_arrays(path)
        bunch = bunch_of_arrays(arrays, path)
        return faces.name_yale_people(bunch, arrays) if known.name == "extended_yaleb" else bunch
    if "idx3-ubyte" in path.name:
        return read_mnist(path.parent)
    if path.is_file() and not is_archive(path):
        raise ValueError(f"expected {known.layout}; got the file {path}.")
    return READERS[known.name](known, path if path.is_dir() else unpacked(path))


def _read_yale(known: Facts, folder: Path) -> Bunch:
    return faces.read_yale(folder, known.size or (48, 42))


def _read_ar(known: Facts, folder: Path) -> Bunch:
    return faces.read_ar(folder, known.size or (55, 40))


def _read_caltech(known: Facts, folder: Path) -> Bunch:
    """Class folders, which the distributed zip keeps in an archive of its own."""
    inner = sorted(folder.rglob("101_ObjectCategories.tar*"))
    homes = sorted(p for p in folder.rglob("101_ObjectCategories") if p.is_dir())
    if inner and not homes:
        return _read_caltech(known, unpacked(inner[0]))
    return _class_files(homes[0] if homes else folder)


def _read_scenes(known: Facts, folder: Path) -> Bunch:
    """Class folders under their short names, whichever of the distributions they come from."""
    bunch = _class_files(folder)
    bunch.target_names = np.array([re.sub("^(CAL|MIT|PAR)", "", n).lower() for n in bunch.target_names])
    return bunch


def _read_mnist(known: Facts, folder: Path) -> Bunch:
    return read_mnist(folder)


READERS: dict[str, Callable[[Facts, Path], Bunch]] = {
    "extended_yaleb": _read_yale,
    "ar": _read_ar,
    "caltech101": _read_caltech,
    "scene15": _read_scenes,
    "mnist": _read_mnist,
}


def _class_files(folder: Path) -> Bunch:
    """Names of the picture files as data: they differ in size."""
    listing = list_folder(folder)
    paths = np.array([str(file) for file in listing.files])
    return make_bunch(paths, listing.target, listing.names, filenames=paths)


def _warn_if_incomplete(known: Facts, bunch: Bunch) -> None:
    n, classes = len(bunch.target), len(bunch.target_names)
    if (n, classes) == (known.samples, known.classes):
        return
    detail = {"extended_yaleb": faces.missing_yale, "ar": faces.missing_ar}.get(
        known.name, _difference(known)
    )
    warnings.warn(
        f"{known.name} should have {known.samples} images of {known.classes} classes; "
        f"{bunch.source} gives {n} of {classes}: {detail(bunch)}",
        stacklevel=3,
    )


def _difference(known: Facts) -> Callable[[Bunch], str]:
    def say(bunch: Bunch) -> str:
        lacking, classes = known.samples - len(bunch.target), known.classes - len(bunch.target_names)
        counts = np.bincount(bunch.target)
        smallest = bunch.target_names[counts.argmin()]
        return (
            f"{lacking} images and {classes} classes are missing (smallest class: {smallest}, {counts.min()})"
        )

    return say


def _how_to_get(known: Facts, base: Path) -> str:
    expected = [str(base / pattern) for pattern in known.arrays] or ["nothing"]
    return (
        f"{known.name} should be {' or '.join(expected)}, or below {base}: {known.layout}. "
        f"Its owner distributes it at {known.owner} ({known.terms})"
    )
