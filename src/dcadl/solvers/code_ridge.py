"""The ridge classifier on codes that know no labels, the one that predictions use; λ by exact leave-one-out.

    W = argmin ½Σ_j s_j‖y_j − Wf_j‖² + ½λ‖W‖²,   f_j the codes of image j in one row

DCADL's refit, `PatchRidge` and `RandomAtoms` are this one regression on their codes. Which way leads to W
depends on the number of images n, of features D = p·m, and on the room for a matrix of `largest` rows:

    n small        codes of all images side by side, the n × n or the D × D system, solved
    D ≤ largest    FᵀF summed up over the chunks, solved; λ judged by about a thousand images, each left out
    else           conjugate gradients until the residual is at most 1e-6 of ŨYᵀ; λ from those thousand alone
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np

from dcadl.arrays import Array, array_namespace, as_float64, blas_threads_for, device_of, fetch
from dcadl.ops.codes import by_image, encode
from dcadl.ops.floors import RIDGE_DAMPING
from dcadl.ops.likely_lam import likely_lam
from dcadl.ops.patches import Grid
from dcadl.ops.ridge import (
    TILE,
    Each,
    Samples,
    Solution,
    System,
    best_lam,
    best_temperature,
    features_times,
    from_contrasts,
    mapped_in_threads,
    mean_square,
    slices_of,
    solve,
    system_of,
)
from dcadl.solvers.descent import BLOCKS, Best, Problem, State
from dcadl.solvers.ridge_steps import preconditioner, solve_by_steps
from dcadl.solvers.walk import Chunk, Walk, walker

FEW_IMAGES = 2048  # of so many, each is left out in turn
JUDGES = 1024  # of more, about so many are, and their codes precondition conjugate gradients
GATHERED_BYTES = 256_000_000  # codes side by side in float64, at most
LARGEST = 4096  # rows of a matrix that is factored: 0.8 GB with the copies that this takes

CANDIDATES = ("patch", "centred", "image")  # how patches may be normalised
CHOICE_JUDGES = 640  # images left out in turn to choose between these, at most
EVERY = 2  # passes between two looks at the error by which they end
PATIENCE = 8  # passes after the best one, in which none was better, until we believe that none will be
LOOK_JUDGES = 512  # images looked at, about, where there are more features than this; else FEW_IMAGES

LOOK_TAKES_LONG = 300  # side of a system, from which a part of the images says first where to look for λ
SEEN = 64  # values of an image by which most copies are told from other images

Code = Callable[[Array], Array]  # normalised patches (b, p, d) -> codes (b, p, m)
Opened = AbstractContextManager[tuple[Sequence[Chunk], Walk]]


class CodeRidge(NamedTuple):
    """The classifier, and what it says of images left out."""

    W: Array  # (C, D) in float64
    lam: float
    left_out: np.ndarray  # (k, C) scores of judged images by a classifier fitted without each
    Y: np.ndarray  # (k, C) their labels
    weight: np.ndarray  # (k,)
    error: float  # mean squared error of `left_out`: what λ makes least


def code_ridge(
    chunks: Sequence[Chunk],
    walk: Walk,
    code: Code,
    n_features: int,
    lam: float | None = None,
    largest: int = LARGEST,
) -> CodeRidge:
    """The classifier on `code` of the chunks' patches; λ is chosen where `lam` is None."""
    _, (n, total) = walk(_count, chunks)
    step, everything = judged_images(n, n_features, largest)
    samples = _gathered(walk(partial(_every, code, step), chunks)[1][0], partial(_keys, chunks, walk, step))
    with _tiles(samples) as tiles:
        own = system_of(samples, tiles)
        if n_features > largest and not everything:
            return _iterated(chunks, walk, code, samples, own, tiles, lam, total)
        shared, near = own, None
        if not everything:
            near = None if lam is not None else _chosen(samples, own, tiles)[0]
            shared = _summed_gram(chunks, walk, code, total)
        lam_over_tau, found = _chosen(samples, shared, tiles, lam, near)
        W = _coefficients(samples, shared, found, tiles).T
    return _with_scores(samples, W, lam_over_tau * float(shared.tau), found.e)


def leave_one_out_error(
    chunks: Sequence[Chunk], walk: Walk, code: Code, n_features: int, judges: int = JUDGES
) -> tuple[float, Array]:
    """Mean squared leave-one-out error of the ridge classifier on these codes at its best λ; and the codes.

    Of many images, about so many judges are looked at, as if there were no others.
    """
    _, (n, _) = walk(_count, chunks)
    step = max(judged_images(n, n_features)[0], -(-n // judges))
    samples = _gathered(walk(partial(_every, code, step), chunks)[1][0], partial(_keys, chunks, walk, step))
    with _tiles(samples) as tiles:
        own = system_of(samples, tiles)
        with blas_threads_for(own.K.shape[0]):
            each = mapped_in_threads(own, tiles)
            return best_lam(samples, own, _where_to_look(samples, own, each), each).error, samples.F


def judge_pass(problem: Problem, tol: float, state: State) -> State:
    """The state, with the best pass so far where a look is due: its error is lower by a share of `tol`.

    The objective goes on falling while atoms shrink to nothing, and accuracy falls with it (docs/errata.md):
    a lower objective is not a better classifier. So passes end by the error of the one that predicts, and
    where atoms begin to die: accuracy falls with them, and on long vectors this error does not show it.
    """
    n_iter, best = len(state.trace) // BLOCKS, state.best
    if tol == 0 or n_iter % EVERY:
        return state
    code, D = partial(encode, state.Omega, problem.lam1, problem.split), state.W.shape[1]
    error, F = leave_one_out_error(problem.chunks, problem.walk, code, D, judges_of_passes(D))
    dead = silent_atoms(F, state.Omega.shape[0])
    if best is None or (dead <= best.dead and error < (1 - tol) * best.error):
        return state._replace(best=Best(state.Omega, state.W, n_iter, error, dead))
    return state._replace(best=best._replace(last=dead > best.dead))


def judges_of_passes(n_features: int) -> int:
    """About how many images a look takes: where features are few, more cost little."""
    return FEW_IMAGES if n_features <= LOOK_JUDGES else LOOK_JUDGES


def silent_atoms(F: Array, m: int) -> int:
    """How many of m atoms have no code in any row; columns are ordered by patch, then sign, then atom."""
    xp = array_namespace(F)
    answers = xp.any(xp.reshape(xp.any(F != 0, axis=0), (-1, m)), axis=0)
    return m - int(xp.sum(xp.astype(answers, xp.int64)))


def candidates(normalize: str | None, grid: Grid) -> tuple[str | None, ...]:
    """What `normalize` leaves to choose from: where the image is one patch, two of the three are the same."""
    if normalize != "auto":
        return (normalize,)
    return CANDIDATES[:2] if grid.p == 1 else CANDIDATES


def chosen_normalisation(
    normalize: str | None, grid: Grid, opened: Callable[[str | None], Opened], code: Code, width: int
) -> str | None:
    """`normalize`, or for "auto" the one with which the classifier on `code` has the least error.

    `opened` gives chunks of patches under a normalisation, `width` is the number of codes of a patch. Atoms
    behind `code` must not have seen a label: those of learned ones would be too low.
    """
    if normalize != "auto":
        return normalize
    errors = {}
    for how in candidates(normalize, grid):
        with opened(how) as (chunks, walk):
            errors[how], _ = leave_one_out_error(chunks, walk, code, grid.p * width, CHOICE_JUDGES)
    return min(errors, key=errors.__getitem__)


def settled(state: State) -> bool:
    """Whether the best pass lies long enough behind, or atoms have died since."""
    n_iter, best = len(state.trace) // BLOCKS, state.best
    return best is not None and (best.last or n_iter - best.n_iter >= PATIENCE)


def best_of(state: State) -> State:
    """The atoms and the classifier of the best pass that was looked at, or of the last one; without codes."""
    last = state._replace(codes=())
    return last if state.best is None else last._replace(Omega=state.best.Omega, W=state.best.W)


def temperature_left_out(found: CodeRidge, intercept: np.ndarray) -> float:
    """The temperature of probabilities by what the classifier says of training images left out."""
    scores, labels = from_contrasts(found.left_out) + intercept, from_contrasts(found.Y) + intercept
    weight = found.weight if found.weight.any() else None
    return best_temperature(scores, labels.argmax(axis=1), weight)


def judged_images(n: int, n_features: int, largest: int = LARGEST) -> tuple[int, bool]:
    """Every how many images one is judged; and whether codes of all lie side by side."""
    fit_in = max(1, GATHERED_BYTES // (8 * n_features))
    if n <= min(FEW_IMAGES if n_features <= largest else largest, fit_in):
        return 1, True
    return -(-n // min(JUDGES, fit_in)), False


def _gathered(parts: list[tuple[Any, ...]], keys_again: Callable[[frozenset[int]], np.ndarray]) -> Samples:
    """What `_every` gave of each chunk, side by side; copies are one image of their added weight."""
    xp = array_namespace(parts[0][0])
    F, Y = (xp.concat([part[i] for part in parts], axis=0) for i in (0, 1))
    s, keys = (np.concatenate([part[i] for part in parts]) for i in (2, 3))
    alike, count = np.unique(keys, return_counts=True)
    if (count > 1).any():
        keys = keys_again(frozenset(alike[count > 1].tolist()))
    used, added = _distinct(keys, s)
    samples = Samples(F, Y, None, float(len(keys)))
    samples = samples if len(used) == len(keys) else samples.some(used)
    if (added == 1).all():
        return samples
    root = xp.asarray(np.sqrt(added), device=device_of(F))
    total = float(added.sum()) or 1.0  # those that are judged may all weigh nothing
    return samples._replace(Y=samples.Y * root[:, None], root=root, total=total)


def _every(code: Code, step: int, chunk: Chunk) -> tuple[None, tuple[list[tuple[Any, ...]]]]:
    """Codes, labels, weights and keys of every few images; lists add up to longer lists."""
    P, Y, s = chunk.patches()[::step, ...], as_float64(chunk.Y)[::step, :], chunk.weight
    weight = np.ones(Y.shape[0]) if s is None else fetch(s[::step]).astype(np.float64)
    return None, ([(by_image(code(P)), Y, weight, _image_keys(P, Y))],)


def _keys(chunks: Sequence[Chunk], walk: Walk, step: int, alike: frozenset[int]) -> np.ndarray:
    """The keys of `_every` again, those in `alike` replaced by keys of all that the images hold."""

    def visit(chunk: Chunk) -> tuple[None, tuple[list[np.ndarray]]]:
        P, Y = chunk.patches()[::step, ...], as_float64(chunk.Y)[::step, :]
        return None, ([_image_keys(P, Y, alike)],)

    return np.concatenate(walk(visit, chunks)[1][0])


def _image_keys(P: Array, Y: Array, alike: frozenset[int] = frozenset()) -> np.ndarray:
    """A number for each image: of its label and some of its values; of all where that one is in `alike`."""
    xp, labels = array_namespace(P), np.ascontiguousarray(fetch(Y))
    flat = xp.reshape(P, (P.shape[0], -1))
    seen = np.unique(np.linspace(0, flat.shape[1] - 1, SEEN).astype(np.int64))
    some = np.ascontiguousarray(fetch(xp.take(flat, xp.asarray(seen, device=device_of(P)), axis=1)))
    keys = [_digest(*pair) for pair in zip(some, labels)]
    for i in (i for i, key in enumerate(keys) if key in alike):
        keys[i] = _digest(np.ascontiguousarray(fetch(flat[i, :])), labels[i])
    return np.array(keys, np.uint64)


def _digest(values: np.ndarray, y: np.ndarray) -> int:
    """A number that images with these values and this label share, and no others."""
    found = blake2b(values.data, digest_size=8)
    found.update(y.data)
    return int.from_bytes(found.digest(), "little")


def _distinct(keys: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Places of images that differ, in order, and their weights; copies are one image of their added weight.

    Leaving an image out must leave out all its copies: a copy that stays behind would give the answer away.
    """
    _, first, copy_of = np.unique(keys, return_index=True, return_inverse=True)
    added = np.bincount(copy_of.ravel(), weights=weight)
    order = np.argsort(first)
    heavy = order[added[order] > 0] if added.any() else order[:1]
    return first[heavy], added[heavy]


def _count(chunk: Chunk) -> tuple[None, tuple[int, float]]:
    Y, s = chunk.Y, chunk.weight
    return None, (Y.shape[0], float(Y.shape[0] if s is None else array_namespace(s).sum(as_float64(s))))


def _tiles(samples: Samples) -> AbstractContextManager[Walk]:
    """A walk over tiles of products of the codes, in threads where they are NumPy's."""
    return walker(samples.F, slices_of(min(samples.F.shape), TILE))


def _chosen(
    samples: Samples, system: System, tiles: Walk, lam: float | None = None, near: float | None = None
) -> tuple[float, Solution]:
    """λ/τ and the regression there: of the least error, looked for from `near` on, unless λ is given."""
    with blas_threads_for(system.K.shape[0]):
        if lam is None:
            each = mapped_in_threads(system, tiles)
            best = best_lam(samples, system, near or _where_to_look(samples, system, each), each)
            return best.lam, best.found
        lam_over_tau = lam / float(system.tau)
        floor = RIDGE_DAMPING * float(
            array_namespace(system.K).linalg.trace(system.K)
        )  # λ may be as good as 0
        return lam_over_tau, solve(samples, system, max(lam_over_tau, floor))


def _where_to_look(samples: Samples, system: System, each: Each) -> float | None:
    """λ/τ, by a part of the images; None where a look at all of them takes no longer."""
    return likely_lam(samples, system, each) if system.K.shape[0] >= LOOK_TAKES_LONG else None


def _coefficients(samples: Samples, system: System, found: Solution, tiles: Walk) -> Array:
    """Wᵀ (D, C) of the regression."""
    return (
        found.solved if system.FY is not None else features_times(samples, found.solved, tiles) / system.tau
    )


def _with_scores(samples: Samples, W: Array, lam: float, e: Array) -> CodeRidge:
    """The classifier with the residuals e of judged images left out, as scores."""
    Y, e = fetch(samples.Y), fetch(e)
    root = np.ones(len(Y)) if samples.root is None else fetch(samples.root)
    heavy = np.where(root > 0, root, 1)[:, None]
    return CodeRidge(W, lam, (Y - e) / heavy, Y / heavy, root**2, float(np.sum(e**2)) / samples.total)


def _summed_gram(chunks: Sequence[Chunk], walk: Walk, code: Code, total: float) -> System:
    """FᵀF over all images. Sums are taken in float64: F is not centred, and λ may be 1e-5 of its mean."""

    def visit(chunk: Chunk) -> tuple[None, tuple[Array, Array]]:
        F, Y, s = as_float64(by_image(code(chunk.patches()))), as_float64(chunk.Y), chunk.weight
        heavy = F if s is None else F * as_float64(s)[:, None]
        return None, (heavy.T @ F, heavy.T @ Y)

    _, (G, FY) = walk(visit, chunks)
    tau = mean_square(array_namespace(G).linalg.trace(G), total)
    return System(G / tau, tau, FY / tau)


def _iterated(
    chunks: Sequence[Chunk],
    walk: Walk,
    code: Code,
    samples: Samples,
    own: System,
    tiles: Walk,
    lam: float | None,
    total: float,
) -> CodeRidge:
    """The classifier by conjugate gradients, from that of the judged images and preconditioned by them."""
    lam_over_tau, found = _chosen(samples, own, tiles, lam)
    lam, share = lam_over_tau * float(own.tau), samples.total / total
    begin = _coefficients(samples, own, found, tiles)
    precondition = preconditioner(samples, own, lam, share)
    W = solve_by_steps(chunks, walk, code, begin, lam, precondition)
    return _with_scores(samples, W.T, lam, found.e)
