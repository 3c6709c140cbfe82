"""What `dcadl fit` settles before it reads pictures: their working size and colour, and the memory needed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dcadl.cli.terminal import size_text, times_text

if TYPE_CHECKING:
    from dcadl.cli.read import Labelled
    from dcadl.data.survey import FolderSurvey
    from dcadl.model_files import AnyModel

PROCESS_BYTES = 200_000_000  # Python and its libraries
FEWEST_IN_A_CHUNK = 16  # images whose windows lie in memory at once, in each thread
CELLS, PATCH = 84, 9  # the most that LOO-ADL chooses by itself
USUAL_ATOMS = 32  # of methods that do not say how many
BY_VALUES = ("DADL",)  # methods with a matrix of a sample's values squared, however few samples there are


COMPARED, COMPARED_PIXELS = 200, 2_500  # pictures that grey and colour are compared on, and their size


class ReadingPlan(NamedTuple):
    """How pictures are read."""

    size: Any  # (height, width), or None: as they are
    color: bool | None  # None: as they are
    survey: FolderSurvey | None  # of a folder; None for arrays
    open_color: bool = False  # whether grey would do as well was not said by anyone
    why: str = ""  # grey or colour

    def sentence(self) -> str:
        """What the pictures are and what they were brought to; empty where nobody looked."""
        colour = "in colour" if self.color else "in grey"
        if self.survey is None or not len(self.survey.sizes):
            return f"{colour}{self.why}" if self.why else ""
        sizes = self.survey.sizes
        small, large = sizes[sizes.prod(axis=1).argmin()], sizes[sizes.prod(axis=1).argmax()]
        same = bool((sizes == sizes[0]).all())
        own = times_text(small) if same else f"{times_text(small)} to {times_text(large)}"
        kept = same and tuple(sizes[0]) == tuple(self.size)
        return f"{own} pixels, {'kept' if kept else f'brought to {times_text(self.size)}'} {colour}{self.why}"


def make_plan(data: str, size: Any, color: bool | None, *, settled: bool) -> ReadingPlan:
    """What was typed, and for the rest what suits the pictures of a folder or an archive.

    `settled`: a method was asked for. It gets grey pictures unless colour was asked for too.
    """
    from dcadl.data.images import as_height_width
    from dcadl.data.survey import survey_folder

    folder, wanted = _picture_folder(data), as_height_width(size)
    if color is None and settled:
        color = False
    if folder is None:
        return ReadingPlan(wanted, color, None, color is None)
    survey = survey_folder(folder)
    if len(survey.sizes):  # else reading them will name them all
        wanted = wanted or survey.working_size
    return ReadingPlan(
        wanted, survey.color if color is None else color, survey, color is None and survey.color
    )


def settle_color(plan: ReadingPlan, samples: Labelled, seed: int) -> tuple[ReadingPlan, Labelled]:
    """Colour pictures in grey, where grey tells the classes apart better."""
    if not plan.open_color or samples.X.ndim < 4 or samples.X.shape[-1] != 3:  # two channels are no colours
        return plan, samples
    if (samples.X[..., :1] == samples.X).all():
        one = samples._replace(X=samples.X[..., 0].copy())  # which does not keep the others
        return plan._replace(color=False, why=": their channels are equal"), one
    grey = samples.X @ np.array([0.299, 0.587, 0.114], dtype=np.float32)
    few = by_turns(samples.y)[:COMPARED]
    in_grey, in_color = (_left_out_error(X[few], samples.y[few], seed) for X in (grey, samples.X))
    better = f", which had less leave-one-out error than {'grey' if in_color < in_grey else 'colour'}"
    if in_color < in_grey:
        return plan._replace(color=True, why=better), samples
    return plan._replace(color=False, why=better), samples._replace(X=grey)


def by_turns(y: Any) -> Any:
    """Positions of samples, one of each class after the other."""
    rank = np.empty(len(y), int)
    for label in np.unique(y):
        members = np.flatnonzero(y == label)
        rank[members] = np.arange(len(members))
    return np.argsort(rank, kind="stable")


def _left_out_error(X: Any, y: Any, seed: int) -> float:
    """The least leave-one-out error of LOO-ADL's structures on small copies, before anything is learned."""
    from dcadl import LOOADL
    from dcadl.estimators.loo_adl.images import reduce_images, reduced_shape

    shape = X.shape[1:]
    factor = max(1, round(float(np.sqrt(np.prod(shape[:2]) / COMPARED_PIXELS))))
    small = reduce_images(X.reshape(len(X), -1), shape, factor)
    small = small.reshape(len(X), *reduced_shape(shape, factor))
    model = LOOADL(learn=False, random_state=seed).fit(small, y)
    return float(model.candidates_[0]["loss"])


def check_memory(model: AnyModel, n: int, shape: tuple[int, ...]) -> None:
    """Refuse a fit that this machine has no room for, before anything large is allocated."""
    free = available_bytes()
    needed = memory_needed(model, n, shape)
    if needed <= free:
        return
    advice = "Train on fewer samples, with --per-class N."
    if len(shape) > 1:
        smaller = shape
        while memory_needed(model, n, smaller) > free and min(smaller[:2]) > 8:
            smaller = (smaller[0] // 2, smaller[1] // 2, *smaller[2:])
        if memory_needed(model, n, smaller) <= free:
            advice = f"--size {smaller[0]}x{smaller[1]} needs about " + (
                f"{size_text(memory_needed(model, n, smaller))}."
            )
    raise ValueError(
        f"{type(model).__name__} on {n} samples of {times_text(shape)} needs about {size_text(needed)} of "
        f"memory, and {size_text(free)} are free. {advice}"
    )


def available_bytes() -> int:
    """Memory that this machine can give now."""
    import psutil

    return int(psutil.virtual_memory().available)


def memory_needed(model: AnyModel, n: int, shape: tuple[int, ...]) -> int:
    """About how much memory a fit takes at most: samples as they are read and as numbers, and its own.

    Copies as numbers are made by whoever puts them in order or centres them, the control among them, and by
    the check of what comes.
    """
    values = int(np.prod(shape))
    own = _loo_adl_bytes(n, shape) if type(model).__name__ == "LOOADL" else _patch_bytes(model, n, shape)
    return PROCESS_BYTES + (1 + 3 * 4) * n * values + own


def _loo_adl_bytes(n: int, shape: tuple[int, ...]) -> int:
    """Windows of some images in each thread, features, their Gram matrix, and the control's."""
    import os

    from dcadl.estimators.loo_adl.structures import usual_atoms

    channels = shape[2] if len(shape) == 3 else 1
    window = PATCH**2 * channels if len(shape) > 1 else PATCH
    places = min(int(np.prod(shape[:2])), 12_000)
    windows = 2 * 4 * (os.cpu_count() or 1) * min(n, FEWEST_IN_A_CHUNK) * window * places
    D = 2 * usual_atoms(n, CELLS) * CELLS
    side = min(n, D)
    return windows + 3 * 4 * min(n, 20_000) * D + 3 * 8 * side * side


def _patch_bytes(model: AnyModel, n: int, shape: tuple[int, ...]) -> int:
    """Patches, codes, copies of atoms, and the Gram matrix of patches, or of values where these are fewer."""
    from dcadl.ops.patches import patch_grid

    params = model.get_params()
    atoms = params.get("n_atoms") if isinstance(params.get("n_atoms"), int) else USUAL_ATOMS
    grid = patch_grid(shape, params.get("patch_shape"), params.get("stride"))
    side = grid.d if type(model).__name__ in BY_VALUES else min(grid.d, n * grid.p)
    return 4 * n * grid.p * (2 * grid.d + 3 * atoms) + 4 * 8 * (side**2 + atoms * grid.d)


def _picture_folder(data: str) -> Path | None:
    """The folder of pictures that `data` names; None where it is a file of arrays or a name."""
    from dcadl.data.archives import is_archive, unpacked
    from dcadl.data.registry import names

    path = Path(data)
    if path.is_dir():
        return path
    if data in names() and not path.exists():
        return None
    return unpacked(path) if path.is_file() and is_archive(path) else None
