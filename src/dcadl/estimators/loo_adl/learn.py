"""How LOO-ADL learns: atoms kept only if they generalise, and a last ridge behind them.

Atoms that were learned have seen the labels of the images they were learned from. Whether they are worth
keeping, and what accuracy to expect, is judged by images they have not seen: each half of the images under
the atoms learned from the other, or, where images are many, others altogether.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from dcadl.arrays import Array, array_namespace, as_float64, blas_threads_for, empty, fetch, send
from dcadl.estimators.fitting import Progress, Result, iterate
from dcadl.estimators.loo_adl.held_out import CrossFitted, HeldOut, honest_scores
from dcadl.estimators.loo_adl.images import Images, walked
from dcadl.estimators.loo_adl.journal import (
    Journal,
    note_halves,
    note_state,
    recalled_halves,
    recalled_state,
)
from dcadl.estimators.loo_adl.structures import thinned
from dcadl.ops.discriminant import Discriminant
from dcadl.ops.pool import Pyramid
from dcadl.ops.ridge import taken
from dcadl.solvers import loo_adl
from dcadl.solvers.beside import beside
from dcadl.solvers.loo_adl import Atoms, Model
from dcadl.solvers.loo_ridge import (
    Judged,
    RidgeFit,
    Sums,
    fit_rows,
    fit_sums,
    judge_crossed,
    judge_rows,
    run_sums,
    solve_rows,
)
from dcadl.solvers.structure import Labels, bank
from dcadl.solvers.walk import walker

LEARNING_IMAGES, LEARNING_PLACES = 2_000, 200_000  # that atoms are learned from
LEARNING_VALUES = 60_000_000  # of their windows, kept while they are learned
JUDGED_IMAGES = 4_000  # whose left-out scores choose λ where features of all do not fit
SUMMED_IMAGES = 4_096  # whose features are summed up at a time
FEATURE_BYTES = 400_000_000  # of all images, up to which they are kept
FEATURE_COPIES, SUM_COPIES = 5, 6  # arrays of that size that live at once
FEW_IMAGES = 500  # up to which atoms are learned behind the whole pyramid
LEARNING_POOL = (3,)  # behind which they are learned else: cheaper, and less is learned by heart
FEWEST_OF_A_CLASS = 4  # images, without which nothing is learned


class Passes(NamedTuple):
    """When learning ends."""

    max_iter: int
    tol: float
    watch: Callable[[Atoms], bool]  # told of atoms after each pass; may ask to stop
    journal: Journal  # of the fit so far
    limit: int | None = None  # bytes of memory

    def halved(self) -> Passes:
        """Half as many, that nobody is told of."""
        return Passes(max(1, self.max_iter // 2), self.tol, lambda atoms: False, Journal(), self.limit)


class Subset(NamedTuple):
    """Some images on the backend."""

    X: Array  # (k, r)
    Y: Array  # (k, C) one-hot
    root: Array  # (k,) roots of the weights

    def labels(self) -> Labels:
        """Y less its weighted mean, rows times their root."""
        xp = array_namespace(self.Y)
        total = float(xp.sum(as_float64(self.root) ** 2))
        mean = (self.root * self.root / total) @ self.Y
        return Labels((self.Y - mean) * self.root[:, None], mean, self.root)

    def part(self, chosen: np.ndarray) -> Subset:
        """Those where `chosen` is true."""
        return Subset(*(taken(a, np.flatnonzero(chosen)) for a in self))


Named = tuple[HeldOut, Discriminant]  # log odds of images that were left out, and what gives them


class Learned(NamedTuple):
    """Atoms, and how they came about."""

    atoms: Atoms
    result: Result | None = None  # of the passes; None: the first atoms were kept
    named: Named | None = None  # where the images they were learned from were judged too
    lam: float | None = None  # of the ridge, by the same scores


def subset(images: Images, which: np.ndarray | slice, n_classes: int, backend: str) -> Subset:
    """Some of the training images, read and sent."""
    X = images.rows(which) if isinstance(which, slice) else images.take(which)
    Y = np.eye(n_classes, dtype=X.dtype)[images.numbers[which]]
    root = np.sqrt(images.weight[which]).astype(X.dtype)
    return Subset(*(send(a, backend) for a in (X, Y, root)))


def worth_learning(images: Images, model: Model) -> bool:
    """Whether images outnumber an atom's values, and every class has some to learn from and to judge by."""
    _, counts = np.unique(images.numbers, return_counts=True)
    return len(images.places) >= model.transform.grid.d and counts.min() >= FEWEST_OF_A_CLASS


def learn_atoms(
    images: Images, n_classes: int, backend: str, model: Model, first: Atoms, passes: Passes
) -> Learned:
    """Learned atoms, or the first ones where those do better on images that were not learned from."""
    keeps_features(len(images.places), 2 * len(first.t) * model.pyramid.n_cells, passes.limit)
    positions = images.order[:LEARNING_IMAGES]
    some = subset(images, positions, n_classes, backend)
    if len(images.order) > 2 * LEARNING_IMAGES:
        more = images.order[LEARNING_IMAGES : 2 * LEARNING_IMAGES]
        others = subset(images, more, n_classes, backend)
        own = learn(some, model, first, passes)
        learned, plain = (
            honest_scores(images, more, judged_ridge(others, model, one).left_out)
            for one in (own.atoms, first)
        )
        return Learned(own.atoms, own.result) if learned.loss < plain.loss else Learned(first)
    crossed = recalled_halves(passes.journal)
    if crossed is None:
        crossed = _cross_fitted(some, images.rank[positions] % 2, model, first, passes.halved())
        note_halves(passes.journal, crossed)

    def compared() -> tuple[bool, Named]:
        """Whether learned atoms are better than the first ones, and what the better ones say."""
        scores = crossed.scores, fetch(judged_ridge(some, model, first).left_out)
        learned, plain = (honest_scores(images, positions, one) for one in scores)
        better = learned.loss < plain.loss
        return better, (learned if better else plain).discriminated()

    with beside(some.X, compared) as outcome:
        own = learn(some, model, first, passes, lam=crossed.learning_lam)
        better, named = outcome()
    return Learned(own.atoms, own.result, named, crossed.lam) if better else Learned(first, None, named)


def _cross_fitted(some: Subset, half: np.ndarray, model: Model, first: Atoms, passes: Passes) -> CrossFitted:
    """Each half judged under atoms learned from the other.

    λ goes by the errors of images that atoms have not seen; by those of others it would be too small.
    """
    with walker(some.X, [slice(0)] * 2) as walk:  # side by side
        lessons, _ = walk(
            lambda side: (learn(some.part(half == side), model, first, passes, whole=len(half)), ()), (0, 1)
        )
    features = features_of(some.X, model, *(lesson.atoms for lesson in lessons))
    judges = [loo_adl.as_like(half != side, some.root) for side in (0, 1)]
    groups = loo_adl.groups_of(model.pyramid, len(first.t))
    judged = judge_crossed(features, some.Y, some.root, groups, judges)
    alike = len({_learning_levels(model, n) for n in (len(half), *np.bincount(half))}) == 1
    learning_lam = math.sqrt(lessons[0].lam * lessons[1].lam) if alike else None
    return CrossFitted(fetch(judged.left_out), judged.lam, learning_lam)


class Lesson(NamedTuple):
    """What passes over some images gave."""

    result: Result
    atoms: Atoms
    lam: float  # of the ridge regression whose error was lowered


def learn(
    some: Subset,
    model: Model,
    first: Atoms,
    passes: Passes,
    *,
    lam: float | None = None,
    whole: int | None = None,
) -> Lesson:
    """Passes of the solver over these images; where they are many, thinned places and a coarse pyramid do.

    Half of `whole` images is learned from at the places of the whole.
    """
    n, transform = some.X.shape[0], model.transform
    grid = thinned(transform.grid, whole or n, _most_places(transform.grid.d, len(first.t), passes.limit))
    thin = Model(transform._replace(grid=grid), Pyramid(grid.counts, _learning_levels(model, n)))
    slices, labels = loo_adl.map_slices(some.X, grid, len(first.t)), some.labels()
    with walker(some.X, slices) as walk:
        chunks = [some.X[part, :] for part in slices]
        problem = loo_adl.pose(chunks, walk, thin, labels.Y, labels.root, lam or 0.0)
        if lam is None:  # what suits the first atoms
            groups = loo_adl.groups_of(thin.pyramid, len(first.t))
            lam = judge_rows(loo_adl.features_at(problem, first), some.Y, some.root, groups).lam
            problem = problem._replace(lam=lam)

        def watch(t: int, state: loo_adl.State) -> bool:
            note_state(passes.journal, state)
            return passes.watch(loo_adl.atoms_of(problem, state))

        resumed = recalled_state(passes.journal)
        begin = Progress(loo_adl.start(problem, first)) if resumed is None else _after(resumed)
        step = partial(loo_adl.step, problem)
        result = iterate(step, begin, max_iter=passes.max_iter, tol=passes.tol, watch=watch)
        return Lesson(result, loo_adl.atoms_of(problem, result.state), lam)


def _learning_levels(model: Model, n: int) -> tuple[int, ...]:
    """The pyramid that atoms are learned behind from n images."""
    return model.pyramid.levels if n <= FEW_IMAGES else LEARNING_POOL


def _most_places(d: int, m: int, limit: int | None) -> int:
    """Places whose windows and maps are kept: two halves of them in half of the limit."""
    most = min(LEARNING_PLACES, LEARNING_VALUES // d)
    return most if limit is None else max(1, min(most, limit // (16 * (d + 2 * m))))


def _after(state: loo_adl.State) -> Progress:
    """Where a loop was: its trace begins before the first pass."""
    return Progress.after(state, state.trace[1:])


def judged_ridge(some: Subset, model: Model, atoms: Atoms) -> Judged:
    """What leave-one-out says of the ridge classifier of these images."""
    groups = loo_adl.groups_of(model.pyramid, len(atoms.t))
    (F,) = features_of(some.X, model, atoms)
    return judge_rows(F, some.Y, some.root, groups)


def features_of(X: Array, model: Model, *several: Atoms) -> list[Array]:
    """Features of images on the backend, one row each, under each of several sets of as many atoms.

    What is made of windows before they meet an atom is made once for all sets.
    """
    banks = [bank(model.transform, atoms, X) for atoms in several]
    xp, m, D = array_namespace(X), len(several[0].t), 2 * len(several[0].t) * model.pyramid.n_cells
    filters, t = (xp.concat(list(column), axis=0) for column in zip(*banks))
    found = [empty((X.shape[0], D), X) for _ in several]
    slices = loo_adl.feature_slices(X, model, m * len(several))

    def visit(part: slice) -> tuple[None, tuple[()]]:
        F = xp.reshape(loo_adl.features(X[part, :], model, filters, t), (-1, 2, len(several), D // 2))
        for i, one in enumerate(found):
            one[part, :] = xp.reshape(F[:, :, i, :], (-1, D))
        return None, ()

    with walker(X, slices) as walk:
        walk(visit, slices)
    return found


def last_ridge(
    images: Images, n_classes: int, backend: str, model: Model, learned: Learned, limit: int | None = None
) -> tuple[RidgeFit, Named]:
    """The ridge classifier of all images, and what it says of those that no atom was learned from.

    Features of all are kept where they fit into memory of `limit` bytes; else only sums of them, and those
    of images that no atom was learned from, by which λ is chosen.
    """
    atoms = learned.atoms
    n, D = len(images.places), 2 * len(atoms.t) * model.pyramid.n_cells
    groups = loo_adl.groups_of(model.pyramid, len(atoms.t))
    whole = keeps_features(n, D, limit)
    judged = np.arange(n) if whole else images.order[LEARNING_IMAGES : LEARNING_IMAGES + JUDGED_IMAGES]
    some = subset(images, judged, n_classes, backend)
    (F,) = features_of(some.X, model, atoms)
    if learned.named is not None and learned.lam is not None:
        return solve_rows(F, some.Y, some.root, groups, learned.lam), learned.named
    seen = images.order[: 0 if learned.result is None else LEARNING_IMAGES]
    unseen = ~np.isin(judged, seen)
    if whole:
        ridge, judged_by = fit_rows(F, some.Y, some.root, groups, loo_adl.as_like(unseen, some.root))
    else:
        sums = sum_up(images, n_classes, backend, model, atoms, about=array_namespace(F).mean(F, axis=0))
        ridge, judged_by = fit_sums(sums, F, some.Y, some.root, groups)
    if learned.named is not None:
        return ridge, learned.named
    scores = fetch(judged_by.left_out)[unseen]
    return ridge, honest_scores(images, judged[unseen], scores, float(images.weight.sum())).discriminated()


def keeps_features(n: int, D: int, limit: int | None) -> bool:
    """Whether features of all images are kept; a limit that not even sums over them keep is refused."""
    room = FEATURE_BYTES if limit is None else min(FEATURE_BYTES, limit // FEATURE_COPIES)
    if n * D * 4 <= room or (limit is None and n <= D):
        return True
    need = features_need(n, D)
    if limit is not None and need > limit:
        raise ValueError(
            f"max_memory must leave room for {D} features of images, {-(-need // 10**6)} MB; got "
            f"{limit // 10**6} MB. Raise it, or use fewer atoms or a pool of fewer cells."
        )
    return n <= 2 * LEARNING_IMAGES and limit is not None


def features_need(n: int, D: int) -> int:
    """Bytes that D features of n images take, or sums over them where other images can judge."""
    kept = FEATURE_COPIES * 4 * D * n
    summed = SUM_COPIES * 8 * D * D + FEATURE_COPIES * 4 * D * SUMMED_IMAGES
    return kept if n <= 2 * LEARNING_IMAGES else min(kept, summed)


def atoms_within(limit: int | None, m: int, n: int, cells: int) -> int:
    """m, or as many atoms as features of n images leave room for."""
    while limit is not None and m > 1 and features_need(n, 2 * m * cells) > limit:
        m -= 1
    return m


def sum_up(images: Images, n_classes: int, backend: str, model: Model, atoms: Atoms, *, about: Array) -> Sums:
    """Sums over the features of all images, a run of them at a time.

    Runs are long: each adds a matrix of D × D to the sums, whatever its length.
    """
    visit = partial(_sums_of_run, n_classes, backend, model, atoms, about)
    with walked(images, SUMMED_IMAGES) as (runs, walk):
        _, sums = walk(visit, runs)
    return Sums(about, *sums)


def _sums_of_run(
    n_classes: int, backend: str, model: Model, atoms: Atoms, about: Array, run: Images
) -> tuple[None, tuple[Any, ...]]:
    """A visit to some images, here or on a worker."""
    some = subset(run, slice(0, len(run.places)), n_classes, backend)
    (F,) = features_of(some.X, model, atoms)
    F -= about
    with blas_threads_for(F.shape[1]):
        return None, run_sums(F, some.Y, some.root)
