"""Which structures LOO-ADL compares for images of a given shape, and what the user has fixed of them."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Protocol

from dcadl.estimators.validation import check_flag, check_number, check_option
from dcadl.ops.patches import Grid, patch_grid
from dcadl.solvers.structure import NORMALISATIONS, Candidate

ATOMS, ATOMS_OF_MANY, MANY_IMAGES = 64, 128, 2_000  # by training images: docs/results/README.md
FEWEST_ATOMS = 32  # where more have hardly anything to gain:
FEW_IMAGES, NEARLY_ALL = 1_000, 0.99  # beyond so many images, of which such a share is right
MOST_FEATURES = 6_000  # of very many images: their Gram matrix is solved
MOST_OF_A_WINDOW = 12_000  # values, of which a matrix of as many rows and columns is made
MOST_CELLS = 64  # along a side of a grid
MOST_VALUES = 10**8  # of an image that a model file speaks of
SIDES = {24: (5, 7, 9), 12: (3, 5, 7), 0: (3, 4, 5)}  # sides of patches, by the shorter side of images
LENGTHS = {64: (9, 17, 33), 0: (3, 5, 9)}  # lengths of patches, by the length of signals
PYRAMIDS = {  # by places
    8: ((1,), (1, 2, 4), (2, 4, 8)),
    4: ((1,), (1, 2), (2, 4)),
    2: ((1,), (1, 2)),
    0: ((1,),),
}


class Candidates(NamedTuple):
    """What is compared: every grid with its normalisations and every pyramid."""

    grids: list[Grid]
    normalisations: tuple[str | None, ...]
    pools: tuple[tuple[int, ...], ...]

    def normalisations_of(self, grid: Grid) -> tuple[str | None, ...]:
        """All, but that windows as they are need not be large to tell brightness and colour: the first do.

        Where nothing else is asked for, they come in every size.
        """
        if self.normalisations == (None,):
            return self.normalisations
        return tuple(how for how in self.normalisations if how is not None or grid == self.grids[0])


def candidates(
    shape: tuple[int, ...], patch_shape: Any, stride: Any, normalize: Any, pool: Any, vector: bool
) -> Candidates:
    """All that "auto" leaves open. Plain vectors have no neighbours: one patch of all values, as they are."""
    step = 1 if _auto(stride) else stride
    if vector and _auto(patch_shape):
        grids = [patch_grid(shape, None, step)]
    else:
        sizes = _sizes(shape) if _auto(patch_shape) else (patch_shape,)
        grids = [patch_grid(shape, size, step) for size in sizes]
    _check_window(grids[-1].d, vector)
    usual = (None,) if vector else NORMALISATIONS
    return Candidates(
        grids,
        usual if _auto(normalize) else (normalize,),
        _pools(grids[-1]) if _auto(pool) else (tuple(pool),),
    )


def _check_window(d: int, vector: bool) -> None:
    """Refuse windows of which a d × d matrix would take gigabytes."""
    if d > MOST_OF_A_WINDOW:
        what, advice = (
            ("plain vectors", "Use DCADL, or give image_shape if neighbours in them belong together.")
            if vector
            else ("windows", "Choose a smaller patch_shape.")
        )
        raise ValueError(f"LOOADL takes {what} of at most {MOST_OF_A_WINDOW} values; got {d}. {advice}")


def usual_atoms(n: int, cells: int, right: float = 0.0) -> int:
    """How many atoms suit n images and a pyramid of so many cells.

    More are better everywhere, but where `right`, the share that is named rightly before any atom is learned,
    leaves hardly anything to gain. Of few images they cost little; many images pay for them, as far as the
    last ridge can.
    """
    if n < MANY_IMAGES:
        return FEWEST_ATOMS if n > FEW_IMAGES and right >= NEARLY_ALL else ATOMS
    return min(ATOMS_OF_MANY, max(FEWEST_ATOMS, MOST_FEATURES // (2 * cells)))


def thinned(grid: Grid, n: int, most: int) -> Grid:
    """The grid with the least step that keeps n images within so many places; averages change little."""
    step = 1
    while (thin := grid._replace(stride=(grid.stride[0] * step, grid.stride[1] * step))).p * n > most:
        if thin.p == 1:
            break
        step += 1
    return thin


def check_levels(pool: Any) -> None:
    """Refuse what is not one or more sides of grids."""
    if not isinstance(pool, tuple | list) or not pool or len(pool) > MOST_CELLS:
        raise ValueError(f'pool must be "auto" or sides of grids such as (1, 2, 4); got {pool!r}.')
    for side in pool:
        check_number("pool", side, 1, integer=True)
        if side > MOST_CELLS:
            raise ValueError(f"pool must hold sides of at most {MOST_CELLS} cells; got {side}.")


class Structured(Protocol):
    """A fitted model with its structure."""

    image_shape_: tuple[int, ...]
    patch_shape_: tuple[int, int]
    stride_: tuple[int, int]
    reduction_: int
    n_atoms_: int
    pool_: tuple[int, ...]
    normalize_: str | None
    _usual: float | None
    _compared: Any
    expected_accuracy_: float
    n_judged_: int
    learned_: bool
    lam_: float
    patch_shape: Any
    stride: Any


def check_structure(model: Structured) -> None:
    """Refuse a structure that no fit chooses: a model file may say anything."""
    if math.prod(model.image_shape_) > MOST_VALUES:
        raise ValueError(f"image_shape_ must hold at most {MOST_VALUES} values; got {model.image_shape_}.")
    check_number("n_atoms_", model.n_atoms_, 1, integer=True)
    check_number("reduction_", model.reduction_, 1, integer=True)
    check_levels(model.pool_)
    check_option("normalize_", model.normalize_, NORMALISATIONS)
    for name in ("patch_shape_", "stride_"):
        pair = getattr(model, name)
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise ValueError(f"{name} must be two integers; got {pair!r}.")
        for side in pair:
            check_number(name, side, 1, integer=True)
    if (model.normalize_ == "whitened") != (model._usual is not None):
        raise ValueError(
            f"normalize_={model.normalize_!r} does not go with a usual length of {model._usual!r}."
        )
    _check_compared(model._compared)
    _check_share("expected_accuracy_", model.expected_accuracy_)
    check_number("n_judged_", model.n_judged_, 1, integer=True)
    check_flag("learned_", model.learned_)
    _check_amount("lam_", model.lam_)
    if model._usual is not None:
        check_number("the usual length", model._usual, 0, above=True)
    if not (_auto(model.patch_shape) and _auto(model.stride)):  # then images are not reduced
        given = None if _auto(model.patch_shape) else model.patch_shape
        patch_grid(model.image_shape_, given, 1 if _auto(model.stride) else model.stride)


def _check_compared(compared: Any) -> None:
    rows = compared if isinstance(compared, tuple | list) else ()
    if not rows or any(
        not isinstance(row, tuple | list) or len(row) != len(Candidate._fields) for row in rows
    ):
        raise ValueError(f"the structures compared must have {len(Candidate._fields)} values each.")
    for patch, normalize, pool, loss, accuracy, n in rows:
        patch_grid((MOST_VALUES, MOST_VALUES), patch, 1)
        check_option("the normalisation of a structure", normalize, NORMALISATIONS)
        check_levels(pool)
        _check_amount("the loss of a structure", loss)
        _check_share("the accuracy of a structure", accuracy)
        check_number("the images of a structure", n, 1, integer=True)


def _check_amount(name: str, value: Any) -> None:
    """Refuse what is no finite number of at least 0; one that was computed may be as small as it likes."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise ValueError(f"{name} must be a number of at least 0; got {value!r}.")


def _check_share(name: str, value: Any) -> None:
    check_number(name, value, 0)
    if value > 1:
        raise ValueError(f"{name} must be at most 1; got {value!r}.")


def _auto(value: Any) -> bool:
    return isinstance(value, str) and value == "auto"


def _sizes(shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Patches that fit and leave several places. An image of one row or column is a signal."""
    if len(shape) > 1 and min(shape[:2]) == 1:
        return tuple((min(size, shape[0]), min(size, shape[1])) for size in _sizes((max(shape[:2]),)))
    shortest = min(shape[:2])
    table = SIDES if len(shape) > 1 else LENGTHS
    wanted = next(sizes for least, sizes in table.items() if shortest >= least)
    return tuple(size for size in wanted if 2 * size <= shortest + 1) or (max(1, min(3, shortest)),)


def _pools(grid: Grid) -> tuple[tuple[int, ...], ...]:
    places = max(grid.counts) if min(grid.counts) == 1 else min(grid.counts)  # a signal is one place high
    return next(pools for least, pools in PYRAMIDS.items() if places >= least)
