"""DCADL by block descent: each block of each pass lowers the objective, or leaves it (docs/errata.md).

F(Ω, U, W) = Σ_j s_j (½‖ΩX̄_j − U_j‖² + λ1‖U_j‖₁ + ½λ2‖y_j − WŨ_j‖²) + ½λ3‖W‖² + ½λ4‖Ω‖²,  ‖ω_i‖ ≤ 1

(Eq. 4 with the ridges its updates imply; s_j weighs image j and is 1 unless the user says otherwise.)

| paper | here         | shape     |                                               |
|-------|--------------|-----------|-----------------------------------------------|
| X̄     | `chunk.patches()` | (b, p, d) | patches of a chunk of images             |
| Y     | `chunk.Y`    | (b, C)    | labels: one-hot, or by contrasts              |
| U     | `U`          | (b, p, m) | codes of a chunk; all chunks: `state.codes`   |
| Ω, W  | `Omega`, `W` | (m, d), (C, p·m) |                                        |
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from dcadl.arrays import Array, array_namespace, as_float64, fetch, spd_solver, tiny, zeros
from dcadl.ops.codes import (
    CodeSchedule,
    CodeStep,
    ball_atoms,
    by_image,
    by_patch,
    clip_rows,
    encode,
    per_atom,
    per_code,
    rejoin_signs,
    respond,
    schedule_codes,
    smoothness,
    squared_norm,
    sum_over_rows,
    sum_per_code,
    total,
    weigh,
)
from dcadl.ops.floors import RIDGE_DAMPING, START_DAMPING, STEP_DAMPING, SUM_SLACK
from dcadl.ops.ridge import (
    ConjugateGradient,
    KroneckerPreconditioner,
    add_to_diagonal,
    kronecker_preconditioner,
)
from dcadl.solvers.walk import Chunk, Recomputable, Walk

SMALL_GRAM = 512  # features up to which a solution of line 10 costs less than a step towards it
BLOCKS = 3  # of a pass: codes, classifier, atoms; `objective` has a value for each
START_STEPS = 4  # towards a first classifier, from zero
LEAST_SCALE, MOST_SCALE = 1e-3, 1e3  # of an atom in a pass: none overflows, nor grows out of its rounding
NEWTON_STEPS = 5  # from at most 26 % below the root: 1e-2, 1e-4, 1e-8, all digits, and one more


class Problem(NamedTuple):
    """What stays fixed while we iterate."""

    chunks: Sequence[Chunk]
    walk: Walk
    lam1: float
    lam2: float
    lam3: float
    lam4: float
    split: bool  # codes by sign, max(r, 0) and max(−r, 0): U and W are then twice as wide
    G: Array  # (d, d) X̄X̄ᵀ
    fit_atoms: Callable[[Array], Array]  # ŪX̄ᵀ -> exact atoms in the ball, factored once


class PassNumbers(NamedTuple):
    """What the host learns of a pass, in one device-to-host transfer at its end."""

    codes: float = math.inf  # F after each block
    classifier: float = math.inf
    atoms: float = math.inf
    rejected: float = 0.0  # share of images that rejected the closed form
    smoothness: float = 1.0  # L of the next codes' block


class Best(NamedTuple):
    """The best pass of those that were looked at (`code_ridge.judge_pass`)."""

    Omega: Array
    W: Array
    n_iter: int
    error: float  # leave-one-out error of the classifier on its codes
    dead: int = 0  # atoms that none of the images looked at answers to
    last: bool = False  # whether more were dead in a pass after it


class State(NamedTuple):
    """What moves. The codes are those of `codes`, each times the scale of its atom."""

    Omega: Array
    W: Array  # in float64
    scale: Array  # (m,), or (2m,) of split codes
    codes: Sequence[Any]  # U of each chunk
    ahead: tuple[Array, Array]  # Ω and W on the way on from the last two passes: where the next one begins
    momentum: float  # the longer without a restart, the more; first atoms are no place to come from
    trace: tuple[float, ...]  # F after each block of each pass: codes, classifier, atoms, codes, …
    numbers: PassNumbers  # of the last pass
    preconditioner: KroneckerPreconditioner | None  # of the first codes; None where line 10 is solved
    best: Best | None = None


def pose(
    chunks: Sequence[Chunk], walk: Walk, lams: tuple[float, float, float, float], split: bool = False
) -> Problem:
    """The problem, with X̄X̄ᵀ taken and factored once."""
    _, (G,) = walk(_gram, chunks)
    return Problem(chunks, walk, *lams, split, G, ball_atoms(G, lams[3]))


def start(problem: Problem, Omega: Array) -> State:
    """Codes τ_λ1(ΩX̄), and a first classifier on them: from λ2ŨYᵀ and nothing else."""
    codes, (target,) = problem.walk(partial(_first_codes, problem, Omega), problem.chunks)
    preconditioner = None
    if not solved_exactly(*target.shape):
        _, (S, T) = problem.walk(_marginals, problem.chunks, codes)
        preconditioner = kronecker_preconditioner(S, T, problem.lam2, problem.lam3)
    W = zeros((target.shape[1], target.shape[0]), like=target)
    W, _ = _fit_classifier(problem, codes, W, target, preconditioner, START_STEPS, START_DAMPING)
    numbers = PassNumbers(smoothness=float(smoothness(W, problem.lam2)))
    scale = array_namespace(Omega).ones_like(per_code(Omega[:, 0], problem.split))
    return State(Omega, W, scale, codes, (Omega, W), 0.0, (), numbers, preconditioner)


def step(problem: Problem, state: State) -> State:
    """One pass from ahead of the last one, or, where F would rise, from where that ended."""
    last, here = state.numbers, (state.Omega, state.W)
    tries = [(here, 0.5 + math.sqrt(0.25 + state.momentum**2))]
    if state.momentum > 1:
        tries = [(state.ahead, tries[0][1]), (here, (1 + math.sqrt(5)) / 2)]
    for begin, momentum in tries:
        Omega, W, scale, ahead_Omega, ahead_W, stacked, *codes = problem.walk.run(
            partial(_pass, problem, state.preconditioner),
            schedule_codes(last.smoothness, last.rejected),
            (momentum - 1) / (0.5 + math.sqrt(0.25 + momentum**2)),
            *(*begin, *here, state.scale, *state.codes),
        )
        now = PassNumbers(*fetch(stacked).tolist())
        if begin is here or now.codes <= last.atoms:
            break
    trace = (*state.trace, *now[:BLOCKS])
    moved = state._replace(Omega=Omega, W=W, scale=scale, codes=codes)
    return moved._replace(ahead=(ahead_Omega, ahead_W), momentum=momentum, trace=trace, numbers=now)


# --- one pass ----------------------------------------------------------------------------------------


def _pass(
    problem: Problem,
    preconditioner: KroneckerPreconditioner | None,
    schedule: CodeSchedule,
    beta: float | Array,
    Omega: Array,
    W: Array,
    last_Omega: Array,
    last_W: Array,
    scale: Array,
    *codes: Any,
) -> tuple[Array, ...]:
    """New atoms, classifier, scales, both further on, pass numbers and codes: nothing is asked of arrays."""
    xp, (_, _, lam1, lam2, lam3, lam4, split, *_) = array_namespace(Omega), problem
    move = CodeStep(W, lam1, lam2, schedule, Omega.dtype, split)
    visit = partial(_visit, move, Omega, scale, split)
    new_codes, sums = problem.walk(visit, problem.chunks, codes)  # lines 4-8
    fit, size, label, rejected, n, classifier_descent, atom_residual = sums

    residual = lam2 * classifier_descent - lam3 * W.T
    with problem.walk.aside() as wait_for_atoms:
        new_Omega, new_fit = _fit_atoms(problem, Omega, atom_residual, per_atom(fit, split))  # lines 12-13
    new_W, left = _fit_classifier(problem, new_codes, W, residual, preconditioner, 1, STEP_DAMPING)  # line 10
    wait_for_atoms()
    rest = 0.5 * xp.sum(fit) + lam1 * xp.sum(size) + 0.5 * lam4 * squared_norm(Omega)
    after_codes = rest + label + 0.5 * lam3 * squared_norm(W)
    after_classifier = after_codes - 0.5 * xp.sum((new_W - W).T * (residual + left))  # a quadratic's decrease
    kept = after_classifier - rest - 0.5 * lam3 * squared_norm(new_W)  # label term: no scale changes it
    new_Omega, new_W, new_scale, scaled = _rescale(problem, new_Omega, new_W, new_fit, per_atom(size, split))

    ahead_Omega = clip_rows(new_Omega + beta * (new_Omega - last_Omega))
    ahead_W = new_W + beta * (new_W - last_W)
    new_L = xp.maximum(smoothness(new_W, lam2), smoothness(ahead_W, lam2))
    numbers = PassNumbers(after_codes, after_classifier, kept + scaled, rejected / n, new_L)
    stacked = xp.stack([xp.asarray(x, dtype=xp.float64) for x in numbers])
    return new_Omega, new_W, new_scale, ahead_Omega, ahead_W, stacked, *new_codes


def _fit_atoms(problem: Problem, Omega: Array, atom_residual: Array, fit: Array) -> tuple[Array, Array]:
    """Exact atoms in the ball, and ‖ω_iX̄ − U_i‖² of each, which was `fit` (of split codes, a bound of it)."""
    # ŪX̄ᵀ = (Ū − ΩX̄)X̄ᵀ + Ω(X̄X̄ᵀ): the small part from the chunks, the large one in float64.
    xp, old = array_namespace(Omega), as_float64(Omega)
    new_Omega = xp.astype(problem.fit_atoms(atom_residual + old @ problem.G), Omega.dtype)
    change = as_float64(new_Omega) - old
    new_fit = fit + xp.vecdot(change, change @ problem.G - 2 * atom_residual)
    return new_Omega, xp.maximum(new_fit, SUM_SLACK * float(xp.finfo(Omega.dtype).eps) * fit)


def _rescale(problem: Problem, Omega: Array, W: Array, fit: Array, size: Array) -> tuple[Array, ...]:
    """Atoms and classifier at the scales that make F least, scales of codes, and the terms of F with them.

    ω_i and its codes U_i by c > 0, its columns W_i of the classifier by 1/c: WŨ, and so the label term, does
    not change. What else F has of atom i is ½a_i c² + b_i c + ½w_i/c².
    """
    xp, split, Omega64 = array_namespace(W), problem.split, as_float64(Omega)
    columns = xp.sum(W * W, axis=0)  # of W: patch first, then atom
    squares, per_patch = xp.vecdot(Omega64, Omega64), xp.reshape(columns, (-1, (1 + split) * Omega.shape[0]))
    a, b = fit + problem.lam4 * squares, problem.lam1 * size  # ‖ω_iX̄ − U_i‖² + λ4‖ω_i‖²,  λ1‖U_i‖₁
    used = xp.astype(size > 0, W.dtype)  # the columns of an atom without codes go to zero at no cost
    w = problem.lam3 * used * per_atom(xp.sum(per_patch, axis=0), split)  # λ3‖W_i‖²
    c = best_scales(a, b, w, xp.sqrt(squares))
    scale = per_code(c, split)
    W = W * xp.tile(per_code(used, split) / scale, (per_patch.shape[0],))
    Omega = xp.astype(c[:, None] * Omega64, Omega.dtype)
    return Omega, W, xp.astype(scale, Omega.dtype), xp.sum(0.5 * a * c**2 + b * c + 0.5 * w / c**2)


def best_scales(a: Array, b: Array, w: Array, lengths: Array) -> Array:
    """argmin φ(c) = ½ac² + bc + ½w/c² over 0 < c ≤ 1/‖ω‖ for each atom; 1 where w = 0.

    φ is convex, with its minimum at the root of ac⁴ + bc³ = w, or at 1/‖ω‖ where ω would leave the ball.
    """
    xp, least = array_namespace(a), tiny(a) ** 0.5
    a, b = xp.clip(a, min=least), xp.clip(b, min=least)
    pulled = w > least
    w = xp.where(pulled, w, a + b)
    # At the root ac⁴ and bc³ are at most w, and one of them at least w/2: it lies close above the start, and
    # Newton's iteration on the concave a·c + b − w/c³ climbs to it.
    c = xp.minimum((0.5 * w / a) ** 0.25, (0.5 * w / b) ** (1 / 3))
    for _ in range(NEWTON_STEPS):
        c = c - (a * c + b - w / c**3) / (a + 3 * w / c**4)
    c = xp.minimum(xp.clip(c, min=LEAST_SCALE, max=MOST_SCALE), 1 / xp.clip(lengths, min=least))
    return xp.where(pulled, c, xp.ones_like(c))


def _visit(
    move: CodeStep, Omega: Array, scale: Array, split: bool, chunk: Chunk, U: Array
) -> tuple[Any, tuple[Any, ...]]:
    """New codes of a chunk, and what the classifier, the atoms and the objective need of them."""
    xp, P, s = array_namespace(U), chunk.patches(), chunk.weight
    A = respond(P, Omega, split)  # line 4
    U, error, rejected = move(U * scale, A, chunk.Y)  # lines 4-8
    gap = U - A
    fit, size = sum_per_code(gap * gap, s), sum_per_code(xp.abs(U), s)
    gap = weigh(rejoin_signs(gap, A) if split else gap, s)
    # (p·m, C) and (m, d): Ũ(Y − WŨ)ᵀ, which is − the gradient in Wᵀ over λ2; and (Ū − ΩX̄)X̄ᵀ
    classifier_descent = sum_over_rows(by_image(weigh(U, s)), error)
    atom_residual = sum_over_rows(by_patch(P), by_patch(gap)).T
    label = 0.5 * move.lam2 * total(xp.vecdot(error, error), s)
    sums = (fit, size, label, rejected, float(U.shape[0]), classifier_descent, atom_residual)
    if move.schedule.steps:  # they start from the old codes, which will be gone
        return U, sums
    return Recomputable(U, partial(_closed_form, move, Omega, split, chunk, U.shape), rejected), sums


def _closed_form(move: CodeStep, Omega: Array, split: bool, chunk: Chunk, shape: tuple[int, ...]) -> Array:
    found = move.closed_form(respond(chunk.patches(), Omega, split), chunk.Y)
    return array_namespace(found).reshape(found, shape)


def _gram(chunk: Chunk) -> tuple[None, tuple[Array]]:
    P = as_float64(chunk.patches())
    return None, (by_patch(weigh(P, chunk.weight)).T @ by_patch(P),)


def _first_codes(problem: Problem, Omega: Array, chunk: Chunk) -> tuple[Any, tuple[Array]]:
    """Codes that know no labels, and λ2ŨYᵀ."""

    def compute() -> Array:
        return encode(Omega, problem.lam1, problem.split, chunk.patches())

    U = compute()
    target = as_float64(by_image(weigh(U, chunk.weight))).T @ as_float64(chunk.Y)
    return Recomputable(U, compute), (problem.lam2 * target,)


# --- the classifier, line 10: (λ2ŨŨᵀ + λ3I)Wᵀ = λ2ŨYᵀ --------------------------------------------------
#
# Up to max(512, 4C) features (p·m of them) the system is summed up and solved in each pass. Beyond, we take a
# conjugate-gradient step from the last W, which costs one product with the codes and lowers the objective.
# Its preconditioner makes up for what ŨŨᵀ has of a product of patches and atoms: with S = Σ_j U_jU_jᵀ (p × p)
# and T = Σ_j U_jᵀU_j (m × m) of the first codes, ŨŨᵀ ≈ S⊗T / tr S. Without it a step would mostly see the few
# directions that all patches share.


def solved_exactly(n_features: int, n_classes: int) -> bool:
    """Whether a Gram matrix costs no more than a CG step. Independent of the number of images."""
    return n_features <= max(SMALL_GRAM, 4 * n_classes)


def _fit_classifier(
    problem: Problem,
    codes: Sequence[Any],
    W: Array,
    residual: Array,
    preconditioner: KroneckerPreconditioner | None,
    steps: int,
    damping: float,
) -> tuple[Array, Array]:
    """W with a lower ridge objective, or its minimum. `residual` is λ2Ũ(Y − WŨ)ᵀ − λ3Wᵀ; and what is left."""
    walk, chunks = problem.walk, problem.chunks
    if preconditioner is None:
        _, (G,) = walk(_code_gram, chunks, codes)
        G = problem.lam2 * G
        xp = array_namespace(G)
        ridge = xp.clip(RIDGE_DAMPING * xp.max(xp.linalg.diagonal(G)), min=problem.lam3)  # λ3 may be 0
        change = spd_solver(add_to_diagonal(G, ridge))(residual)
        return W + change.T, residual - G @ change - problem.lam3 * change

    solution = ConjugateGradient(W.T, residual, preconditioner.solve, damping)
    for _ in range(steps):
        D = solution.directions()
        _, (image,) = walk(partial(_code_image, D), chunks, codes)
        solution.move(D, problem.lam2 * image + problem.lam3 * D)  # (λ2ŨŨᵀ + λ3I)D
    return solution.X.T, solution.residual


def _code_gram(chunk: Chunk, U: Array) -> tuple[None, tuple[Array]]:
    xp, s = array_namespace(U), chunk.weight
    rows = xp.astype(xp.reshape(U, (U.shape[0], -1)), xp.float64)
    weighed = rows if s is None else rows * xp.astype(s, xp.float64)[:, None]
    return None, (weighed.T @ rows,)


def _marginals(chunk: Chunk, U: Array) -> tuple[None, tuple[Array, Array]]:
    """Σ_j s_jU_jU_jᵀ and Σ_j s_jU_jᵀU_j."""
    xp, weighed = array_namespace(U), weigh(U, chunk.weight)
    left, right = (
        xp.reshape(xp.permute_dims(V, (1, 0, 2)), (V.shape[1], -1)) for V in (weighed, U)
    )  # one row per patch position
    return None, (as_float64(left @ right.T), sum_over_rows(by_patch(weighed), by_patch(U)))


def _code_image(D: Array, chunk: Chunk, U: Array) -> tuple[None, tuple[Array]]:
    """ŨŨᵀD, in the codes' own precision."""
    rows = by_image(U)
    D = array_namespace(U).astype(D, U.dtype)
    return None, (sum_over_rows(rows, weigh(rows @ D, chunk.weight)),)
