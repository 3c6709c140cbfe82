"""Pictures found by folders and patterns, and copied into a folder for each label."""

from __future__ import annotations

import filecmp
import glob
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from dcadl.atomic import replacing


def find_pictures(words: Sequence[str]) -> list[Path]:
    """The files that words mean: files, folders to any depth, patterns that the shell left as they are."""
    from dcadl.data.folder import files_below
    from dcadl.data.images import IMAGE_SUFFIXES

    found: list[Path] = []
    for word in words:
        path = Path(word)
        if path.is_dir():
            inside = [p for p in files_below(path) if p.suffix.lower() in IMAGE_SUFFIXES]
            if not inside:
                raise ValueError(f"the folder {path} holds no pictures.")
            found += inside
        elif not path.exists() and glob.has_magic(word):
            matched = sorted(glob.glob(word, recursive=True))
            if not matched:
                raise ValueError(f"no file matches {word}.")
            found += [Path(name) for name in matched if Path(name).is_file()]
        else:
            found.append(path)
    return list(dict.fromkeys(found))


def copy_into(folder: Path, labelled: Iterable[tuple[Path, str]]) -> int:
    """Copies of files at folder/label/name; how many were made.

    Nothing is overwritten: another file of that name gets a number after its own, and a copy that is there
    already stays.
    """
    labelled, count = list(labelled), 0
    names = _folder_names({label for _, label in labelled})
    for file, label in labelled:
        home = folder / names[label]
        home.mkdir(parents=True, exist_ok=True)
        target = _free_place(home, file)
        if target is not None:
            _copy(file, target)
            count += 1
    return count


def _copy(file: Path, target: Path) -> None:
    """The whole file with its times, or nothing: half a picture would look like another one next time."""
    with open(file, "rb") as content, replacing(target, durable=False) as stream:
        shutil.copyfileobj(content, stream)
    shutil.copystat(file, target)


def _free_place(home: Path, file: Path) -> Path | None:
    """Where the copy goes; None where it is there already."""
    number, target = 1, home / file.name
    while target.exists():
        if filecmp.cmp(file, target, shallow=False):
            return None
        number += 1
        target = home / f"{file.stem}-{number}{file.suffix}"
    return target


def _folder_names(labels: Iterable[str]) -> dict[str, str]:
    """The folder of each label; two labels in one folder could not be told apart again."""
    found: dict[str, str] = {}
    for label in sorted(labels):
        name = _folder_name(label)
        if name in found.values():
            other = next(one for one, there in found.items() if there == name)
            raise ValueError(f"the labels {other!r} and {label!r} would share the folder {name!r}.")
        found[label] = name
    return found


def _folder_name(label: str) -> str:
    """A label as the name of one folder: a model file may hold any text."""
    name = "".join("_" if c in '/\\:*?"<>|' or ord(c) < 32 else c for c in label).strip()
    return "_" if name in ("", ".", "..") else name
