"""`normalize="auto"`: what patches are divided by, chosen by leave-one-out before an atom is learned."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from dcadl.ops.patches import Grid
from dcadl.solvers.code_ridge import Code, leave_one_out_error
from dcadl.solvers.walk import Chunk, Walk

CANDIDATES = ("patch", "centred", "image")
JUDGES = 640  # images left out in turn, at most

Opened = AbstractContextManager[tuple[Sequence[Chunk], Walk]]


def candidates(normalize: str | None, grid: Grid) -> tuple[str | None, ...]:
    """What `normalize` leaves to choose from: where the image is one patch, two of the three are the same."""
    if normalize != "auto":
        return (normalize,)
    return CANDIDATES[:2] if grid.p == 1 else CANDIDATES


def normalisation_value(normalize: str | None) -> tuple[str, ...]:
    """What a model file must hold beside the parameters: the choice, where there was one."""
    return ("normalize_",) if normalize == "auto" else ()


def chosen(
    normalize: str | None, grid: Grid, opened: Callable[[str | None], Opened], code: Code, width: int
) -> str | None:
    """The candidate with which the ridge classifier on `code` has the least leave-one-out error.

    `opened` gives chunks of patches under a normalisation, `width` is the number of codes of a patch. Atoms
    behind `code` must not have seen a label: those of learned ones would be too low.
    """
    first, *others = candidates(normalize, grid)
    if not others:
        return first

    def error(how: str | None) -> float:
        with opened(how) as (chunks, walk):
            return leave_one_out_error(chunks, walk, code, grid.p * width, judges=JUDGES)

    return min((first, *others), key=error)
