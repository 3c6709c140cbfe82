"""What is known of each data set before any file is opened."""

import textwrap
import tomllib
from functools import cache
from importlib.resources import files
from typing import NamedTuple


class Facts(NamedTuple):
    """One set of `datasets.toml`."""

    name: str
    title: str
    samples: int
    classes: int
    kind: str  # what its original files give: "images" of one size, or "files" of differing sizes
    arrays: list[str]  # names of .npz / .mat files
    containers: list[str]  # names of folders and archives as distributed
    layout: str
    owner: str
    terms: str
    citation: str
    preparation: str
    size: tuple[int, int] | None = None


def names() -> list[str]:
    """Names that `load` takes."""
    return list(_facts())


def facts(name: str) -> Facts:
    """What is known of one set."""
    if name not in _facts():
        raise ValueError(f"data set must be one of {', '.join(_facts())}; got {name!r}.")
    return _facts()[name]


def describe(known: Facts) -> str:
    """Text with source, terms and citation, for DESCR and the command line."""
    lines = [
        f"{known.title}: {known.samples} images of {known.classes} classes.",
        f"Preparation: {known.preparation}",
        f"Source: {known.owner}",
        f"Terms: {known.terms}",
        f"Citation: {' '.join(known.citation.split())}",
    ]
    return "\n".join(textwrap.fill(line, 100, subsequent_indent="  ") for line in lines)


@cache
def _facts() -> dict[str, Facts]:
    text = files("dcadl.data").joinpath("datasets.toml").read_text(encoding="utf-8")
    return {
        name: Facts(name, **{**entry, "size": tuple(entry["size"]) if "size" in entry else None})
        for name, entry in tomllib.loads(text).items()
    }
