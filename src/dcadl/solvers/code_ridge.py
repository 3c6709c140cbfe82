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

from dcadl.arrays import (
    Array,
    array_namespace,
    as_float64,
    blas_threads_for,
    device_of,
    fetch,
    spd_solver,
    zeros,
)
from dcadl.ops.codes import by_image, encode
from dcadl.ops.floors import RIDGE_DAMPING
from dcadl.ops.leave_one_out import Gram, Rows, coefficients, gram, left_out, uses_dual
from dcadl.ops.patches import Grid
from dcadl.ops.ridge import add_to_diagonal, best_temperature, from_contrasts, loss, mean_square, search_lam
from dcadl.solvers.descent import BLOCKS, Best, Problem, State
from dcadl.solvers.ridge_steps import solve_by_steps
from dcadl.solvers.walk import Chunk, Walk

FEW_IMAGES = 2048  # of so many, each is left out in turn
JUDGES = 1024  # of more, about so many are, and their codes precondition conjugate gradients
GATHERED_BYTES = 256_000_000  # codes side by side in float64, at most
LARGEST = 4096  # rows of a matrix that is factored: 0.8 GB with the copies that this takes

CANDIDATES = ("patch", "centred", "image")  # how patches may be normalised
CHOICE_JUDGES = 640  # images left out in turn to choose between these, at most
EVERY = 2  # passes between two looks at the error by which they end
PATIENCE = 8  # passes after the best one, in which none was better, until we believe that none will be
LOOK_JUDGES = 512  # images looked at, about, where there are more features than this; else FEW_IMAGES

Opened = AbstractContextManager[tuple[Sequence[Chunk], Walk]]
Code = Callable[[Array], Array]  # normalised patches (b, p, d) -> codes (b, p, m)


class CodeRidge(NamedTuple):
    """The classifier, and what it says of images left out."""

    W: Array  # (C, D) in float64
    lam: float
    left_out: np.ndarray  # (k, C) scores of judged images by a classifier fitted without each
    Y: np.ndarray  # (k, C) their labels
    weight: np.ndarray  # (k,)
    error: float  # mean squared error of `left_out`: what λ makes least


class _Judged(NamedTuple):
    """Images whose codes lie side by side, rows times the roots of their weights."""

    rows: Rows
    root: Array  # (k,)


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
    judged = _gathered(walk(partial(_every, code, step), chunks)[1][0])
    rows = judged.rows
    with blas_threads_for(min(rows.F.shape)):
        own = gram(rows)
        near = lam is None and search_lam(lambda lam: loss(left_out(rows, own, lam).e, rows.total))
    if everything:
        return _solved(judged, own, near if lam is None else lam / float(own.tau))
    if n_features > largest:
        return _iterated(
            chunks, walk, code, judged, own, near * float(own.tau) if lam is None else lam, total
        )
    shared = _summed_gram(chunks, walk, code, total)
    with blas_threads_for(n_features):
        if lam is None:
            lam_over_tau = search_lam(lambda lam: loss(left_out(rows, shared, lam).e, rows.total), near)
        else:
            lam_over_tau = lam / float(shared.tau)
        return _solved(judged, shared, lam_over_tau)


def leave_one_out_error(
    chunks: Sequence[Chunk], walk: Walk, code: Code, n_features: int, judges: int = JUDGES
) -> tuple[float, Array]:
    """Mean squared leave-one-out error of the ridge classifier on these codes at its best λ; and the codes.

    Of many images, about so many judges are looked at, as if there were no others.
    """
    _, (n, _) = walk(_count, chunks)
    step = max(judged_images(n, n_features)[0], -(-n // judges))
    rows = _gathered(walk(partial(_every, code, step), chunks)[1][0]).rows
    with blas_threads_for(min(rows.F.shape)):
        shared = gram(rows)
        lam = search_lam(lambda lam: loss(left_out(rows, shared, lam).e, rows.total))
        return loss(left_out(rows, shared, lam).e, rows.total), rows.F


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
    """The atoms and the classifier of the best pass that was looked at, or of the last one."""
    return state if state.best is None else state._replace(Omega=state.best.Omega, W=state.best.W)


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


def work_bytes(n: int, n_features: int, largest: int) -> int:
    """Most memory that `code_ridge` takes beyond the work on a chunk."""
    step, everything = judged_images(n, n_features, largest)
    k = -(-n // step)
    side = min(k, n_features) if everything or n_features > largest else n_features
    return max(16 * k * n_features, 8 * k * n_features + 48 * side**2)


def _gathered(parts: list[tuple[Any, ...]]) -> _Judged:
    """Codes and labels of the judged images, from what `_every` gave of each chunk."""
    xp = array_namespace(parts[0][0])
    F, Y = (xp.concat([part[i] for part in parts], axis=0) for i in (0, 1))
    s, keys = (np.concatenate([part[i] for part in parts]) for i in (2, 3))
    used, added = _distinct(keys, s)
    if len(used) < len(keys):
        F, Y = (xp.take(x, xp.asarray(used, device=device_of(x)), axis=0) for x in (F, Y))
    root = xp.asarray(np.sqrt(added), device=device_of(F))
    if not (added == 1).all():
        F, Y = F * root[:, None], Y * root[:, None]
    weight = float(added.sum()) or 1.0  # those that are judged may all weigh nothing
    return _Judged(Rows(F, Y, zeros(root.shape, root), weight), root)


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


def _every(code: Code, step: int, chunk: Chunk) -> tuple[None, tuple[list[tuple[Any, ...]]]]:
    """Codes, labels, weights and digests of every few images; lists add up to longer lists."""
    P, Y, s = chunk.patches()[::step, ...], as_float64(chunk.Y)[::step, :], chunk.weight
    weight = np.ones(Y.shape[0]) if s is None else fetch(s[::step]).astype(np.float64)
    pairs = zip(np.ascontiguousarray(fetch(P)), np.ascontiguousarray(fetch(Y)))
    keys = np.array([_digest(patches, y) for patches, y in pairs], np.uint64)
    return None, ([(as_float64(by_image(code(P))), Y, weight, keys)],)


def _digest(patches: np.ndarray, y: np.ndarray) -> int:
    """A number that images with these patches and this label share, and no others."""
    found = blake2b(patches.data, digest_size=8)
    found.update(y.data)
    return int.from_bytes(found.digest(), "little")


def _solved(judged: _Judged, shared: Gram, lam: float) -> CodeRidge:
    """The classifier by the system's own matrix at λ/τ."""
    floor = RIDGE_DAMPING * float(array_namespace(shared.K).linalg.trace(shared.K))  # λ may be as good as 0
    form = left_out(judged.rows, shared, max(lam, floor))
    W = coefficients(judged.rows, shared, form).T
    return _said(judged, W, lam * float(shared.tau), form.e)


def _said(judged: _Judged, W: Array, lam: float, e: Array) -> CodeRidge:
    """The classifier with the residuals e of judged images left out, as scores."""
    rows, root = judged.rows, fetch(judged.root)
    Y, e, heavy = fetch(rows.Y), fetch(e), np.where(root > 0, root, 1)[:, None]
    return CodeRidge(W, lam, (Y - e) / heavy, Y / heavy, root**2, float(np.sum(e**2)) / rows.total)


def _summed_gram(chunks: Sequence[Chunk], walk: Walk, code: Code, total: float) -> Gram:
    """FᵀF over all images. Sums are taken in float64: F is not centred, and λ may be 1e-5 of its mean."""

    def visit(chunk: Chunk) -> tuple[None, tuple[Array, Array]]:
        F, Y, s = as_float64(by_image(code(chunk.patches()))), as_float64(chunk.Y), chunk.weight
        heavy = F if s is None else F * as_float64(s)[:, None]
        return None, (heavy.T @ F, heavy.T @ Y)

    _, (G, FY) = walk(visit, chunks)
    tau = mean_square(array_namespace(G).linalg.trace(G), total)
    return Gram(G / tau, FY, tau)


def _iterated(
    chunks: Sequence[Chunk], walk: Walk, code: Code, judged: _Judged, own: Gram, lam: float, total: float
) -> CodeRidge:
    """The classifier by conjugate gradients, from that of the judged images and preconditioned by them."""
    rows, share = judged.rows, judged.rows.total / total
    form = left_out(rows, own, max(lam / float(own.tau), RIDGE_DAMPING))
    begin, precondition = coefficients(rows, own, form), _preconditioner(rows, own, lam, share)
    W = solve_by_steps(chunks, walk, code, begin, lam, precondition)
    return _said(judged, W.T, lam, form.e)


def _preconditioner(rows: Rows, own: Gram, lam: float, share: float) -> Callable[[Array], Array]:
    """(FᵀF/share + λI)⁻¹ of the judged images, a share of all; by Woodbury's identity where they are few."""
    if not uses_dual(rows):
        return spd_solver(add_to_diagonal(own.K * (own.tau / share), lam))
    inverse = spd_solver(add_to_diagonal(own.K * own.tau, lam * share))
    return lambda R: (R - rows.F.T @ inverse(rows.F @ R)) / lam
