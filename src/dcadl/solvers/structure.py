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
from dcadl.ops.leave_one_out import centred, dual
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


class Way(NamedTuple):
    """Windows of one size under one normalisation."""

    size: Compared
    how: str | None
    seed: int  # of the first atoms


def compare(
    X: Array, labels: Labels, sizes: Sequence[Compared], m: int, rng: np.random.RandomState
) -> list[Candidate]:
    """Every size with each of its normalisations and pyramids."""
    ways = [Way(one, how, rng.randint(2**31)) for one in sizes for how in one.hows]

    def look(way: Way) -> tuple[tuple[WindowTransform, Atoms], tuple[()]]:
        return first_look(X, way.size.grid, way.how, m, np.random.RandomState(way.seed)), ()

    def level_grams(way: Way, F: Array) -> tuple[dict[int, Array], tuple[()]]:
        return _level_grams(F, labels, way.size.union, m), ()

    with walker(X, [slice(0)] * X.shape[0]) as walk:
        looks, _ = walk(look, ways)
        found = []
        for one in sizes:
            found += _features(X, walk, one.union, [a for a, way in zip(looks, ways) if way.size == one])
        grams, _ = walk(level_grams, ways, found)
        return _judged(walk, labels, ways, grams)


def _judged(
    walk: Walk, labels: Labels, ways: Sequence[Way], grams: Sequence[dict[int, Array]]
) -> list[Candidate]:
    """Every way with each of its pyramids, at one λ, and at others where nothing is far better."""
    tasks = [(way, shared, pool) for way, shared in zip(ways, grams) for pool in way.size.pools]
    first, _ = walk(lambda way, shared, pool: (_judge(shared, pool, labels, LAMS[:1]), ()), *zip(*tasks))
    losses = [(way.size.grid, loss) for (way, _, _), (loss, _) in zip(tasks, first)]
    least = {grid: min(loss for one, loss in losses if one == grid) for grid, _ in losses}

    def again(
        way: Way, shared: dict[int, Array], pool: tuple[int, ...], known: Judged
    ) -> tuple[Judged, tuple[()]]:
        far = known[0] > FAR_BEHIND * least[way.size.grid]
        return known if far else min(known, _judge(shared, pool, labels, LAMS[1:])), ()

    results, _ = walk(again, *zip(*tasks), first)
    n = labels.Y.shape[0]
    return [
        Candidate(way.size.grid.patch, way.how, pool, loss, accuracy, n)
        for (way, _, pool), (loss, accuracy) in zip(tasks, results)
    ]


def first_look(
    X: Array, grid: Grid, how: str | None, m: int, rng: np.random.RandomState
) -> tuple[WindowTransform, Atoms]:
    """Whitening and first atoms from windows of some of the images: directions that many windows share."""
    chosen = np.sort(rng.permutation(X.shape[0])[:SAMPLED_IMAGES])
    U = _some_windows(taken(X, chosen), grid, how, rng)
    transform, white = _window_transform(U, grid, how)
    Omega = _unit(signless_kmeans(white.astype(np.float32), m, rng).astype(np.float64))
    t = (
        np.full(m, THRESHOLD)
        if transform.contrast
        else _spread_thresholds(np.abs(U @ transform.whitener @ Omega.T))
    )
    return transform._replace(whitener=as_like(transform.whitener, X)), Atoms(Omega, t)


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


def _some_windows(X: Array, grid: Grid, how: str | None, rng: np.random.RandomState) -> np.ndarray:
    """Windows drawn from all of the images, in float64, contrast taken out unless `how` is None."""
    drawn = rng.permutation(X.shape[0] * grid.p)[:SAMPLED_WINDOWS]
    pixels = patch_table(grid)[drawn % grid.p]  # (k, d)
    P = fetch(X)[drawn[:, None] // grid.p, pixels].astype(np.float64)
    return P if how is None else centred_rows(P)


def _window_transform(U: np.ndarray, grid: Grid, how: str | None) -> tuple[WindowTransform, np.ndarray]:
    """The transform, and windows U as atoms will see them, of length one."""
    if how is None:
        typical = np.sqrt(np.mean(np.sum(U * U, axis=1))) or 1.0
        return WindowTransform(grid, np.eye(grid.d) / typical, False, None), _unit(U)
    C = centring(grid.d)
    lively = np.sum(U * U, axis=1) > LIVELY
    U = U[lively] if lively.any() else U
    if how == "centred":
        return WindowTransform(grid, C, True, None), _unit(U)
    S = as_float64(U.T @ U) / len(U) * lively.any()  # of flat windows rounding is left: nothing to whiten by
    Z = zca(S)
    typical = typical_length(Z, S) or 1.0
    if how == "whitened":
        return WindowTransform(grid, Z @ C, True, typical), _unit(U @ Z)
    return WindowTransform(grid, Z @ C / typical, True, None), _unit(U @ Z)


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
        A = standardised(one, share, groups)[0] * labels.root[:, None]
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
