"""The structure of a fit: chosen now, by leave-one-out error, or by the fit that wrote the checkpoint."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from dcadl.estimators.loo_adl import learn as learning
from dcadl.estimators.loo_adl.images import Images
from dcadl.estimators.loo_adl.journal import Journal, note_structure, recalled_structure
from dcadl.estimators.loo_adl.structures import Candidates, thinned, usual_atoms
from dcadl.ops.pool import Pyramid
from dcadl.solvers.loo_adl import Atoms, Model
from dcadl.solvers.structure import Candidate, Compared, compare, first_looks

CHOICE_IMAGES, CHOICE_PLACES = 400, 300_000  # that structures are compared on
CHOICE_ATOMS = 16
FINALISTS, FINAL_IMAGES = 6, 1_400  # compared again where there are so many images


def chosen_structure(
    images: Images,
    C: int,
    backend: str,
    wanted: Candidates,
    m: int | None,
    seed: Any,
    journal: Journal,
    limit: int | None,
) -> tuple[list[Candidate], Model, Atoms]:
    """Candidates best first, the best as a model, and its m first atoms; None: as many as `limit` allows."""
    kept = recalled_structure(journal, wanted.grids, backend)
    if kept is not None:
        return kept
    rng = check_random_state(seed)
    found = choose(images, C, backend, wanted, rng)
    few = learning.subset(images, images.order[:CHOICE_IMAGES], C, backend)
    if m is None:
        counts = next(grid.counts for grid in wanted.grids if grid.patch == found[0].patch_shape)
        n, cells = len(images.places), Pyramid(counts, found[0].pool).n_cells
        m = learning.atoms_within(limit, usual_atoms(n, cells, found[0].accuracy), n, cells)
    model, first = started(few, wanted, found[0], m, rng)
    note_structure(journal, found, model, first)
    return found, model, first


def choose(
    images: Images, n_classes: int, backend: str, wanted: Candidates, rng: np.random.RandomState
) -> list[Candidate]:
    """Every candidate with its leave-one-out error, best first.

    Of few images a coarse structure often looks best that many would not choose: where there are many, the
    best few are compared again on more.
    """
    some = learning.subset(images, images.order[:CHOICE_IMAGES], n_classes, backend)
    found = _compared(
        some, [Compared(grid, wanted.normalisations_of(grid), wanted.pools) for grid in wanted.grids], rng
    )
    if len(images.order) < FINAL_IMAGES or len(found) == 1:
        return found
    more = learning.subset(images, images.order[:FINAL_IMAGES], n_classes, backend)
    finals = []
    for grid, how in product(wanted.grids, wanted.normalisations):
        best = [one for one in found[:FINALISTS] if (one.patch_shape, one.normalize) == (grid.patch, how)]
        if best:
            finals.append(Compared(grid, (how,), tuple(one.pool for one in best)))
    again = [judged for one in finals for judged in _compared(more, [one], rng)]  # each takes much memory
    return sorted(again, key=lambda one: one.loss) + found[FINALISTS:]


def started(
    some: learning.Subset, wanted: Candidates, best: Candidate, m: int, rng: np.random.RandomState
) -> tuple[Model, Atoms]:
    """The chosen structure, and its first atoms."""
    grid = next(grid for grid in wanted.grids if grid.patch == best.patch_shape)
    [(transform, atoms)] = first_looks(some.X, grid, [best.normalize], m, rng)
    return Model(transform, Pyramid(grid.counts, best.pool)), atoms


def _compared(some: learning.Subset, sizes: list[Compared], rng: np.random.RandomState) -> list[Candidate]:
    n = some.X.shape[0]
    coarse = [one._replace(grid=thinned(one.grid, n, CHOICE_PLACES)) for one in sizes]
    return sorted(compare(some.X, some.labels(), coarse, CHOICE_ATOMS, rng), key=lambda one: one.loss)
