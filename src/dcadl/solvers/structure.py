"""Which windows, normalisation and pyramid suit images: by leave-one-out error, before atoms are learned.

Nothing has then seen a label but the ridge regression itself, so that the error is honest. It is the log
loss of left-out scores at their best temperature: with few images of many classes, scores of the best
structure too are far below one, and squared errors tell how far they were shrunk rather than how well they
tell classes apart. Candidates share what they can: windows of one size are cut once for all normalisations,
maps are pooled once for all pyramids, and a pyramid's Gram matrix is the sum of its levels'.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dcadl.arrays import Array, array_namespace, as_float64, fetch
from dcadl.ops.codes import by_image
from dcadl.ops.leave_one_out import centred, dual, weighed
from dcadl.ops.maps import (
    WindowTransform,
    inverse_contrast,
    inverse_whitened,
    responses_by_row,
    split_averages,
    strips,
)
from dcadl.ops.patches import Grid, centred_rows, patch_table
from dcadl.ops.pool import Pyramid
from dcadl.ops.ridge import least_log_loss, taken
from dcadl.ops.standardise import Groups, standardised
from dcadl.ops.whiten import centring, signless_kmeans, typical_length, zca
from dcadl.solvers.loo_adl import Atoms, as_like, map_slices
from dcadl.solvers.walk import Walk, walker

NORMALISATIONS = ("whitened", "whitened-once", "centred", None)
THRESHOLD = 0.05  # of every atom at the start
SAMPLED_IMAGES, SAMPLED_WINDOWS = 60, 6_000  # that whitening and first atoms are made of
LIVELY = 0.25  # squared length below which a window made of length one was flat
LAMS = (1e-1, 1e-2, 1.0)  # that structures are compared at: the first, and the others unless
FAR_BEHIND = 1.5  # times the least loss is theirs at the first

Judged = tuple[float, float]  # log loss of left-out scores, and the share of them that is right


class Labels(NamedTuple):
    """Labels less their mean, rows times the root of their weight; and what the formulas need beside them."""

    Y: Array  # (n, C)
    mean: Array  # (C,)
    root: Array  # (n,)

    @property
    def total(self) -> float:
        """Σs."""
        return float(array_namespace(self.root).sum(as_float64(self.root) ** 2))

    def left_out(self, e: Array) -> np.ndarray:
        """Scores of samples when they are left out; e carries the roots."""
        return fetch(self.Y - e) / fetch(self.root)[:, None] + fetch(self.mean)


class Candidate(NamedTuple):
    """A structure, and what leave-one-out says of it with atoms that nobody learned."""

    patch_shape: tuple[int, int]
    normalize: str | None
    pool: tuple[int, ...]
    loss: float  # log loss of left-out scores
    accuracy: float  # weighted share of samples that are right when they are left out
    n_images: int


class Compared(NamedTuple):
    """Windows of one size, and what is tried with them."""

    grid: Grid
    hows: tuple[str | None, ...]
    pools: tuple[tuple[int, ...], ...]

    @property
    def union(self) -> Pyramid:
        """All levels of the pyramids: features of a level serve each pyramid that has it."""
        return Pyramid(self.grid.counts, tuple(sorted({level for pool in self.pools for level in pool})))


def compare(
    X: Array, labels: Labels, sizes: Sequence[Compared], m: int, rng: np.random.RandomState
) -> list[Candidate]:
    """Every size with each of its normalisations and pyramids."""
    seeds = [rng.randint(2**31) for _ in sizes]
    with walker(X, [slice(0)] * X.shape[0]) as walk:

        def judged(size: Compared, seed: int) -> tuple[list[Candidate], tuple[()]]:
            looks = first_looks(X, size.grid, size.hows, m, np.random.RandomState(seed))
            found = _features(X, walk, size.union, looks)
            grams, _ = walk(lambda F: (_level_grams(F, labels, size.union, m), ()), found)
            return _judged(walk, labels, size, grams), ()

        of_sizes, _ = walk(judged, sizes[::-1], seeds[::-1])  # what takes longest comes first
        return [candidate for of_size in of_sizes[::-1] for candidate in of_size]


def _judged(walk: Walk, labels: Labels, size: Compared, grams: Sequence[dict[int, Array]]) -> list[Candidate]:
    """Every normalisation with each pyramid, at one λ, and at others where nothing is far better."""
    tasks = [(how, shared, pool) for how, shared in zip(size.hows, grams) for pool in size.pools]
    first, _ = walk(lambda _, shared, pool: (_judge(shared, pool, labels, LAMS[:1]), ()), *zip(*tasks))
    least = min(loss for loss, _ in first)

    def again(
        _: str | None, shared: dict[int, Array], pool: tuple[int, ...], known: Judged
    ) -> tuple[Judged, tuple[()]]:
        far = known[0] > FAR_BEHIND * least
        return known if far else min(known, _judge(shared, pool, labels, LAMS[1:])), ()

    results, _ = walk(again, *zip(*tasks), first)
    n = labels.Y.shape[0]
    return [
        Candidate(size.grid.patch, how, pool, loss, accuracy, n)
        for (how, _, pool), (loss, accuracy) in zip(tasks, results)
    ]


def first_looks(
    X: Array, grid: Grid, hows: Sequence[str | None], m: int, rng: np.random.RandomState
) -> list[tuple[WindowTransform, Atoms]]:
    """Whitening and first atoms for each normalisation, from windows of some of the images.

    Atoms are directions that many windows share. With and without the second length they are the same.
    """
    chosen = np.sort(rng.permutation(X.shape[0])[:SAMPLED_IMAGES])
    P = _some_windows(taken(X, chosen), grid, rng)
    known: dict[str | None, tuple[np.ndarray, float, Atoms]] = {}

    def look(how: str | None) -> tuple[WindowTransform, Atoms]:
        kind = "whitened" if how == "whitened-once" else how
        if kind not in known:
            known[kind] = _whitening(P, kind, m, rng)
        matrix, typical, atoms = known[kind]
        if how == "whitened":
            return WindowTransform(grid, as_like(matrix, X), True, typical), atoms
        return WindowTransform(grid, as_like(matrix / typical, X), how is not None, None), atoms

    return [look(how) for how in hows]


def _spread_thresholds(R: np.ndarray) -> np.ndarray:
    """Thresholds of atoms that respond alike, R (n, m): every second at a quantile of its responses.

    One threshold below all responses would leave them linear in brightness, and a class of middle brightness
    between two others cannot be told apart by ridge regression on a line. The other atoms keep theirs low:
    images fainter than any of these would else have no features at all.
    """
    m = R.shape[1]
    levels = (np.arange(m) + 0.5) / m
    found = np.maximum(np.sort(R, axis=0)[(levels * len(R)).astype(int), np.arange(m)], THRESHOLD)
    found[::2] = THRESHOLD
    return found


def _some_windows(X: Array, grid: Grid, rng: np.random.RandomState) -> np.ndarray:
    """Windows drawn from all of the images, in float64."""
    drawn = rng.permutation(X.shape[0] * grid.p)[:SAMPLED_WINDOWS]
    pixels = patch_table(grid)[drawn % grid.p]  # (k, d)
    return fetch(X)[drawn[:, None] // grid.p, pixels].astype(np.float64)


def _whitening(
    P: np.ndarray, how: str | None, m: int, rng: np.random.RandomState
) -> tuple[np.ndarray, float, Atoms]:
    """The matrix (d, d) that windows P meet before atoms, the usual length of what comes, and first atoms."""
    if how is None:
        typical = np.sqrt(np.mean(np.sum(P * P, axis=1))) or 1.0
        Omega = _first_atoms(P, m, rng)
        return np.eye(P.shape[1]), typical, Atoms(Omega, _spread_thresholds(np.abs(P @ Omega.T) / typical))
    U, C, t = centred_rows(P), centring(P.shape[1]), np.full(m, THRESHOLD)
    lively = np.sum(U * U, axis=1) > LIVELY
    U = U[lively] if lively.any() else U
    if how == "centred":
        return C, 1.0, Atoms(_first_atoms(U, m, rng), t)
    S = as_float64(U.T @ U) / len(U) * lively.any()  # of flat windows rounding is left: nothing to whiten by
    Z = zca(S)
    return Z @ C, typical_length(Z, S) or 1.0, Atoms(_first_atoms(U @ Z, m, rng), t)


def _first_atoms(windows: np.ndarray, m: int, rng: np.random.RandomState) -> np.ndarray:
    """Directions that many of the windows share, of length one."""
    return _unit(signless_kmeans(_unit(windows).astype(np.float32), m, rng).astype(np.float64))


def _unit(U: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(U, axis=1, keepdims=True)
    return U / np.where(lengths > 0, lengths, 1.0)


def _features(
    X: Array, walk: Walk, union: Pyramid, looks: Sequence[tuple[WindowTransform, Atoms]]
) -> list[Array]:
    """Features of all images for each transform: strips and contrast shared, all atoms one bank."""
    xp, grid, transforms = array_namespace(X), looks[0][0].grid, [transform for transform, _ in looks]
    Phi, t = (xp.concat(list(parts), axis=0) for parts in zip(*(bank(*one, X) for one in looks)))
    m = len(looks[0][1].t)

    def visit(part: slice) -> tuple[Array, tuple[()]]:
        S = strips(X[part, :], grid)
        scale = _scales(X[part, :], S, transforms)
        return split_averages(responses_by_row(Phi, S, scale, grid), t, union), ()

    parts, _ = walk(visit, map_slices(X, grid, m))
    averages = xp.concat(list(parts), axis=0)  # (n, 2, atoms of all, cells)
    return [by_image(averages[:, :, i * m : (i + 1) * m, :]) for i in range(len(looks))]


def _scales(X: Array, S: Array, transforms: Sequence[WindowTransform]) -> Array:
    """Scales of windows under each transform, (rows, transforms, b, columns)."""
    xp, contrast = array_namespace(X), inverse_contrast(X, transforms[0].grid)

    def scale(transform: WindowTransform) -> Array:
        if not transform.contrast:
            return xp.ones_like(contrast)
        return contrast if transform.typical_length is None else inverse_whitened(S, contrast, transform)

    return xp.stack([scale(transform) for transform in transforms], axis=1)


def bank(transform: WindowTransform, atoms: Atoms, like: Array) -> tuple[Array, Array]:
    """Φ = ΩZC and t, where `like` lives."""
    return as_like(atoms.Omega, like) @ transform.whitener, as_like(atoms.t, like)


def _level_grams(F: Array, labels: Labels, union: Pyramid, m: int) -> dict[int, Array]:
    """FFᵀ of each level's standardised features, in float64."""
    xp = array_namespace(F)
    share = labels.root * labels.root / labels.total
    maps, found, begin = xp.reshape(F, (F.shape[0], 2 * m, -1)), {}, 0
    for level in union.levels:
        cells = int(np.prod(union.sides(level)))
        one = xp.reshape(maps[:, :, begin : begin + cells], (F.shape[0], -1))
        groups = Groups(np.zeros(one.shape[1], int), np.array([float(level)]))
        A = weighed(standardised(one, share, groups)[0], labels.root)
        found[level], begin = as_float64(A @ A.T), begin + cells
    return found


def _judge(grams: dict[int, Any], pool: tuple[int, ...], labels: Labels, lams: Sequence[float]) -> Judged:
    """The least log loss of left-out scores at these λ, and the weighted share that is then right."""
    xp = array_namespace(labels.Y)
    K = sum(grams[level] for level in pool)
    tau = xp.linalg.trace(K) / labels.total
    v = labels.root / labels.total**0.5
    K = centred(K, v) / xp.where(tau > 0, tau, 1.0)
    numbers, weight = fetch(labels.Y).argmax(axis=1), fetch(labels.root) ** 2
    looks = [labels.left_out(dual(K, labels.Y, v, lam).e) for lam in lams]
    losses = [least_log_loss(scores, numbers, weight)[1] for scores in looks]
    best = looks[int(np.argmin(losses))]
    return min(losses), float(np.average(best.argmax(axis=1) == numbers, weights=weight))
