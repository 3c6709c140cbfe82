"""Which windows, normalisation and pyramid suit images: by leave-one-out error, before atoms are learned.

Nothing has then seen a label but the ridge regression itself, so that the error is honest. It is the log
loss of left-out scores at their best temperature: with few images of many classes, scores of the best
structure too are far below one, and squared errors tell how far they were shrunk rather than how well they
tell classes apart. Candidates share what they can: windows of one size are cut once for all normalisations,
maps are pooled once for all pyramids, and a pyramid's Gram matrix is the sum of its levels'.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
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
from dcadl.solvers.loo_adl import Atoms, as_like
from dcadl.solvers.walk import Walk

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
    hows: Sequence[str | None]
    pools: Sequence[tuple[int, ...]]


def compare(
    images: Sequence[Array], walk: Walk, labels: Labels, what: Compared, m: int, seeds: Sequence[int]
) -> list[Candidate]:
    """The grid with every normalisation and pyramid; a seed for each normalisation's first atoms."""
    grid, hows, pools = what
    levels = tuple(sorted({level for pool in pools for level in pool}))
    union = Pyramid(grid.counts, levels)

    def look(how: str | None, seed: int) -> tuple[tuple[WindowTransform, Atoms], tuple[()]]:
        return first_look(images, grid, how, m, np.random.RandomState(seed)), ()

    looks, _ = walk(look, hows, seeds)
    found = _features(images, walk, looks, union)
    grams, _ = walk(lambda F: (_level_grams(F, labels, union, m), ()), found)
    tasks = list(product(range(len(hows)), pools))
    first, _ = walk(lambda i, pool: (_judge(grams[i], pool, labels, LAMS[:1]), ()), *zip(*tasks))
    least = min(loss for loss, _ in first)

    def again(task: tuple[int, tuple[int, ...]], known: Judged) -> tuple[Judged, tuple[()]]:
        far = known[0] > FAR_BEHIND * least
        return known if far else min(known, _judge(grams[task[0]], task[1], labels, LAMS[1:])), ()

    results, _ = walk(again, tasks, first)
    n = labels.Y.shape[0]
    return [
        Candidate(grid.patch, hows[i], pool, loss, accuracy, n)
        for (i, pool), (loss, accuracy) in zip(tasks, results)
    ]


def first_look(
    images: Sequence[Array], grid: Grid, how: str | None, m: int, rng: np.random.RandomState
) -> tuple[WindowTransform, Atoms]:
    """Whitening and first atoms from windows of some of the images: directions that many windows share."""
    X = array_namespace(images[0]).concat(list(images), axis=0)
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
    images: Sequence[Array], walk: Walk, transforms: Sequence[tuple[WindowTransform, Atoms]], union: Pyramid
) -> list[Array]:
    """Features of all images for each transform: strips and contrast shared, all atoms one bank."""
    xp, grid = array_namespace(images[0]), transforms[0][0].grid
    banks = [bank(transform, atoms, images[0]) for transform, atoms in transforms]
    Phi, t = (xp.concat(list(parts), axis=0) for parts in zip(*banks))

    def visit(X: Array) -> tuple[None, tuple[list[Array]]]:
        S = strips(X, grid)
        scale = _scales(X, S, [transform for transform, _ in transforms])
        return None, ([split_averages(responses_by_row(Phi, S, scale, grid), t, union)],)

    _, (parts,) = walk(visit, images)
    averages = xp.concat(parts, axis=0)  # (n, 2, atoms of all, cells)
    m = averages.shape[2] // len(transforms)
    return [by_image(averages[:, :, i * m : (i + 1) * m, :]) for i in range(len(transforms))]


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
