"""The structure of a fit: chosen now, or by the fit that wrote the checkpoint."""

from __future__ import annotations

from typing import Any

from sklearn.utils import check_random_state

from dcadl.estimators.loo_adl import learn as learning
from dcadl.estimators.loo_adl.images import Images
from dcadl.estimators.loo_adl.journal import Journal, note_structure, recalled_structure
from dcadl.estimators.loo_adl.structures import Candidates, usual_atoms
from dcadl.ops.pool import Pyramid
from dcadl.solvers.loo_adl import Atoms, Model
from dcadl.solvers.structure import Candidate


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
    found = learning.choose(images, C, backend, wanted, rng)
    few = learning.subset(images, images.order[: learning.CHOICE_IMAGES], C, backend)
    if m is None:
        counts = next(grid.counts for grid in wanted.grids if grid.patch == found[0].patch_shape)
        n, cells = len(images.places), Pyramid(counts, found[0].pool).n_cells
        m = learning.atoms_within(limit, usual_atoms(n, cells), n, cells)
    model, first = learning.started(few, wanted, found[0], m, rng)
    note_structure(journal, found, model, first)
    return found, model, first
