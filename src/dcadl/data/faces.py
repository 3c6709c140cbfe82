"""The two face sets in the layouts of their original archives: CroppedYale and the warped AR images."""

import re
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from dcadl.data.bunch import make_bunch
from dcadl.data.images import decode
from dcadl.data.parallel import parallel_map, with_progress

YALE_FILE = re.compile(r"(yaleB\d\d)_P\d\dA([+-]\d{3})E([+-]\d\d)\.pgm")
YALE_PEOPLE = tuple(f"yaleB{i:02d}" for i in range(1, 40) if i != 14)
AR_FILE = re.compile(r"([mw]-\d{3})-(\d\d)\.bmp", re.IGNORECASE)
AR_PEOPLE = tuple(f"{sex}-{i:03d}" for sex in "mw" for i in range(1, 51))
AR_IMAGES = 26  # of each person


def read_yale(folder: Path, size: tuple[int, int], progress: bool | None = None) -> Bunch:
    """Cropped images of every person below `folder`, without `.bad` files, ambient images and the like."""
    found = _matching(folder, YALE_FILE)
    people = [match[1] for _, match in found]
    bunch = _faces(found, people, size, progress)
    light = np.array([(int(match[2]), int(match[3])) for _, match in found])
    bunch.azimuth, bunch.elevation = light[:, 0], light[:, 1]
    return bunch


def read_ar(folder: Path, size: tuple[int, int], progress: bool | None = None) -> Bunch:
    """Warped images of every person below `folder`, in grey."""
    found = _matching(folder, AR_FILE)
    return _faces(found, [match[1].lower() for _, match in found], size, progress)


def name_yale_people(bunch: Bunch, arrays: dict[str, Any]) -> Bunch:
    """People of an array file called as their folders are, where the file says who they are."""
    if "subjects" in arrays:
        subjects = np.unique(arrays["subjects"])
        bunch.target_names = np.array([f"yaleB{subject:02d}" for subject in subjects])
    return bunch


def missing_yale(bunch: Bunch) -> str:
    """Missing people."""
    absent = [person for person in YALE_PEOPLE if person not in set(bunch.target_names)]
    return f"missing people: {_some(absent)}" if absent else "some images of people who are there are missing"


def missing_ar(bunch: Bunch) -> str:
    """People who are missing or lack images."""
    counts = dict(zip(bunch.target_names, np.bincount(bunch.target)))
    lacking = [f"{p} ({counts.get(p, 0)} of {AR_IMAGES})" for p in AR_PEOPLE if counts.get(p, 0) < AR_IMAGES]
    return f"incomplete people: {_some(lacking)}"


def _matching(folder: Path, pattern: re.Pattern[str]) -> list[tuple[Path, re.Match[str]]]:
    """Files below the folder whose whole name fits, in order of their names."""
    pairs = [(p, pattern.fullmatch(p.name)) for p in folder.rglob("*")]
    found = [(p, match) for p, match in pairs if match is not None and p.is_file()]
    if not found:
        raise ValueError(f"expected files named like {pattern.pattern} below {folder}; found none.")
    return sorted(found, key=lambda pair: pair[0].name.lower())


def _faces(
    found: list[tuple[Path, re.Match[str]]], people: list[str], size: tuple[int, int], progress: bool | None
) -> Bunch:
    files = [path for path, _ in found]
    decoded = parallel_map(lambda file: decode(file, size=size, filter="area"), files)
    images = np.stack(list(with_progress(decoded, len(files), "reading faces", progress)))
    return make_bunch(images, np.array(people), filenames=np.array([str(f) for f in files]))


def _some(items: list[str], shown: int = 8) -> str:
    more = f" and {len(items) - shown} more" if len(items) > shown else ""
    return ", ".join(items[:shown]) + more
