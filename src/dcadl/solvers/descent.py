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

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from dcadl.arrays import Array, array_namespace, as_float64, fetch, spd_solver, zeros
from dcadl.ops.codes import (
    MANY,
    CodeSchedule,
    CodeStep,
    by_image,
    by_patch,
    image_terms,
    respond,
    schedule_codes,
    smoothness,
    soft_threshold,
    squared_norm,
    sum_over_rows,
    total,
    weigh,
)
from dcadl.ops.floors import RIDGE_DAMPING, START_DAMPING, STEP_DAMPING
from dcadl.ops.ridge import (
    KroneckerPreconditioner,
    add_to_diagonal,
    ball_atoms,
    block_conjugate_gradient,
    kronecker_preconditioner,
)
from dcadl.solvers.walk import Chunk, Recomputable, Walk

SMALL_GRAM = 512  # features up to which a solution of line 10 costs less than a step towards it
BLOCKS = 3  # of a pass: codes, classifier, atoms; `objective` has a value for each
START_STEPS = 4  # towards a first classifier, from zero


class Problem(NamedTuple):
    """What stays fixed while we iterate."""

    chunks: Sequence[Chunk]
    walk: Walk
    lam1: float
    lam2: float
    lam3: float
    lam4: float
    G: Array  # (d, d) X̄X̄ᵀ
    fit_atoms: Callable[[Array], Array]  # ŪX̄ᵀ -> exact atoms in the ball, factored once


class PassNumbers(NamedTuple):
    """What the host learns of a pass, in one device-to-host transfer at its end."""

    fit_before: float = 0.0  # ½‖ΩX̄ − Ū‖² and ½λ2‖Y − WŨ‖² at the start of the pass, with the old codes
    label_before: float = 0.0
    W_squared: float = 0.0  # ‖W‖², ‖Ω‖² at the start of the pass
    Omega_squared: float = 0.0
    fit: float = 0.0  # the terms after the codes
    sparsity: float = 0.0
    label: float = 0.0
    rejected: float = 0.0  # share of images that rejected the closed form
    smoothness: float = 1.0  # L of the next codes' block


class State(NamedTuple):
    """What moves."""

    Omega: Array
    W: Array  # in float64
    codes: Sequence[Any]  # U of each chunk
    trace: tuple[float, ...]  # F after each block; of the last pass after its codes only
    numbers: PassNumbers  # of the last pass
    preconditioner: KroneckerPreconditioner | None  # of the first codes; None where line 10 is solved


def pose(chunks: Sequence[Chunk], walk: Walk, lams: tuple[float, float, float, float]) -> Problem:
    """The problem, with X̄X̄ᵀ taken and factored once."""
    _, (G,) = walk(_gram, chunks)
    return Problem(chunks, walk, *lams, G, ball_atoms(G, lams[3]))


def start(problem: Problem, Omega: Array) -> State:
    """Codes τ_λ1(ΩX̄), and a first classifier on them."""
    codes, (target,) = problem.walk(lambda chunk: _shrunk_codes(problem, chunk, Omega), problem.chunks)
    preconditioner = _preconditioner(problem, codes, *target.shape)
    W = _first_classifier(problem, codes, target, preconditioner)
    numbers = PassNumbers(smoothness=float(smoothness(W, problem.lam2)))
    return State(Omega, W, codes, (), numbers, preconditioner)


def step(problem: Problem, state: State) -> State:
    """One pass: codes, classifier, atoms, each a descent step on F."""
    last = state.numbers
    Omega, W, stacked, *codes = problem.walk.run(
        partial(_pass, problem, state.preconditioner),
        schedule_codes(last.smoothness, last.rejected),
        last.smoothness,
        *(state.Omega, state.W, *state.codes),
    )
    now = PassNumbers(*fetch(stacked).tolist())
    start = now.fit_before, now.label_before, now.W_squared, now.Omega_squared
    ended = _ends_of_pass(problem, last, *start) if state.trace else ()
    ridges = 0.5 * (problem.lam3 * now.W_squared + problem.lam4 * now.Omega_squared)
    after_codes = now.fit + now.sparsity + now.label + ridges
    return State(Omega, W, codes, (*state.trace, *ended, after_codes), now, state.preconditioner)


def objective(problem: Problem, state: State) -> tuple[float, ...]:
    """F after each block of each pass: codes, classifier, atoms, codes, …"""
    Omega = state.Omega
    W = array_namespace(Omega).astype(state.W, Omega.dtype)

    def terms(chunk: Chunk, U: Array) -> tuple[None, tuple[Array, Array]]:
        A, rows = by_image(respond(chunk.patches(), Omega)), by_image(U)
        found = image_terms(rows, A, chunk.Y - rows @ W.T, problem.lam1, problem.lam2)
        return None, (total(found.fit, chunk.weight), total(found.label, chunk.weight))

    _, (fit, label) = problem.walk(terms, problem.chunks, state.codes)
    numbers = fit, label, squared_norm(state.W), squared_norm(Omega)
    return (*state.trace, *_ends_of_pass(problem, state.numbers, *(float(number) for number in numbers)))


def lower_codes(problem: Problem, Omega: Array, W: Array, codes: Sequence[Any]) -> Sequence[Any]:
    """The codes' block of a pass alone."""
    L = float(smoothness(W, problem.lam2))
    move = CodeStep(W, problem.lam1, problem.lam2, schedule_codes(L, MANY), L, Omega.dtype)
    found, _ = problem.walk(
        lambda chunk, U: (move(U, respond(chunk.patches(), Omega), chunk.Y).U, ()), problem.chunks, codes
    )
    return found


# --- one pass ----------------------------------------------------------------------------------------


def _pass(
    problem: Problem,
    preconditioner: KroneckerPreconditioner | None,
    schedule: CodeSchedule,
    L: float | Array,
    Omega: Array,
    W: Array,
    *codes: Any,
) -> tuple[Array, ...]:
    """New atoms, classifier, pass numbers and codes: arrays to arrays, nothing asked of them."""
    xp = array_namespace(Omega)
    move = CodeStep(W, problem.lam1, problem.lam2, schedule, L, Omega.dtype)
    new_codes, sums = problem.walk(  # lines 4-8
        lambda chunk, U: _visit(move, chunk, U, Omega), problem.chunks, codes
    )
    fit_before, label_before, fit, sparsity, label, rejected, n, classifier_descent, atom_residual = sums

    residual = problem.lam2 * classifier_descent - problem.lam3 * W.T
    (new_W,), (new_Omega, W2, Omega2) = problem.walk.run_both(
        partial(
            _lower_classifier, problem, new_codes, W, residual, preconditioner, 1, STEP_DAMPING
        ),  # line 10
        partial(_fit_atoms, problem, Omega, W, atom_residual),  # lines 12-13
    )
    new_L = smoothness(new_W, problem.lam2)
    numbers = PassNumbers(fit_before, label_before, W2, Omega2, fit, sparsity, label, rejected / n, new_L)
    return new_Omega, new_W, xp.stack([xp.asarray(x, dtype=xp.float64) for x in numbers]), *new_codes


def _fit_atoms(problem: Problem, Omega: Array, W: Array, atom_residual: Array) -> tuple[Array, ...]:
    """Exact atoms in the ball; and ‖W‖², ‖Ω‖² before them."""
    # ŪX̄ᵀ = (Ū − ΩX̄)X̄ᵀ + Ω(X̄X̄ᵀ): the small part from the chunks, the large one in float64.
    B = atom_residual + as_float64(Omega) @ problem.G
    new_Omega = array_namespace(Omega).astype(problem.fit_atoms(B), Omega.dtype)
    return new_Omega, squared_norm(W), squared_norm(Omega)


def _visit(move: CodeStep, chunk: Chunk, U: Array, Omega: Array) -> tuple[Any, tuple[Any, ...]]:
    """New codes of a chunk, and what the classifier, the atoms and the objective need of them."""
    P, s = chunk.patches(), chunk.weight
    A = respond(P, Omega)  # line 4
    U, error, before, after, rejected = move(U, A, chunk.Y)  # lines 4-8
    # (p·m, C) and (m, d): Ũ(Y − WŨ)ᵀ, which is − the gradient in Wᵀ over λ2; and (Ū − ΩX̄)X̄ᵀ
    classifier_descent = sum_over_rows(by_image(weigh(U, s)), error)
    atom_residual = sum_over_rows(by_patch(P), by_patch(weigh(U - A, s))).T
    terms = [total(term, s) for term in (before.fit, before.label, *after)]
    sums = (*terms, rejected, float(U.shape[0]), classifier_descent, atom_residual)
    if move.schedule.steps:  # they start from the old codes, which will be gone
        return U, sums
    shape = U.shape
    return Recomputable(U, lambda: _closed_form(move, chunk, Omega, shape), rejected), sums


def _closed_form(move: CodeStep, chunk: Chunk, Omega: Array, shape: tuple[int, ...]) -> Array:
    found = move.closed_form(respond(chunk.patches(), Omega), chunk.Y)
    return array_namespace(found).reshape(found, shape)


def _gram(chunk: Chunk) -> tuple[None, tuple[Array]]:
    P = as_float64(chunk.patches())
    return None, (by_patch(weigh(P, chunk.weight)).T @ by_patch(P),)


def _shrunk_codes(problem: Problem, chunk: Chunk, Omega: Array) -> tuple[Any, tuple[Array]]:
    """Codes that know no labels, and λ2ŨYᵀ."""

    def compute() -> Array:
        return soft_threshold(respond(chunk.patches(), Omega), problem.lam1)

    U = compute()
    target = as_float64(by_image(weigh(U, chunk.weight))).T @ as_float64(chunk.Y)
    return Recomputable(U, compute), (problem.lam2 * target,)


def _ends_of_pass(
    problem: Problem, last: PassNumbers, fit: float, label: float, W_squared: float, Omega_squared: float
) -> tuple[float, float]:
    """F after the classifier and after the atoms of a pass, whose numbers are `last`, seen from its end."""
    ridge = last.sparsity + label + 0.5 * problem.lam3 * W_squared
    after_classifier = last.fit + ridge + 0.5 * problem.lam4 * last.Omega_squared
    return after_classifier, fit + ridge + 0.5 * problem.lam4 * Omega_squared


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


def _preconditioner(
    problem: Problem, codes: Sequence[Any], n_features: int, n_classes: int
) -> KroneckerPreconditioner | None:
    """Of these codes, where steps are taken."""
    if solved_exactly(n_features, n_classes):
        return None
    _, (S, T) = problem.walk(_marginals, problem.chunks, codes)
    return kronecker_preconditioner(S, T, problem.lam2, problem.lam3)


def _first_classifier(
    problem: Problem,
    codes: Sequence[Any],
    target: Array,
    preconditioner: KroneckerPreconditioner | None,
) -> Array:
    """W from λ2ŨYᵀ and nothing else."""
    W = zeros((target.shape[1], target.shape[0]), like=target)
    return _lower_classifier(problem, codes, W, target, preconditioner, START_STEPS, START_DAMPING)[0]


def _lower_classifier(
    problem: Problem,
    codes: Sequence[Any],
    W: Array,
    residual: Array,
    preconditioner: KroneckerPreconditioner | None,
    steps: int,
    damping: float,
) -> tuple[Array]:
    """W with a lower ridge objective, or its minimum. `residual` is λ2Ũ(Y − WŨ)ᵀ − λ3Wᵀ."""
    walk, chunks = problem.walk, problem.chunks
    if preconditioner is None:
        _, (G,) = walk(_code_gram, chunks, codes)
        G = problem.lam2 * G
        xp = array_namespace(G)
        ridge = xp.clip(RIDGE_DAMPING * xp.max(xp.linalg.diagonal(G)), min=problem.lam3)  # λ3 may be 0
        return (W + spd_solver(add_to_diagonal(G, ridge))(residual).T,)

    def product(D: Array) -> Array:
        """(λ2ŨŨᵀ + λ3I)D, the large part in the codes' own precision."""
        _, (image,) = walk(lambda chunk, U: _code_image(chunk, U, D), chunks, codes)
        return problem.lam2 * image + problem.lam3 * D

    found = block_conjugate_gradient(
        product, W.T, residual, steps, precondition=preconditioner.solve, damping=damping
    )
    return (found.T,)


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


def _code_image(chunk: Chunk, U: Array, D: Array) -> tuple[None, tuple[Array]]:
    rows = by_image(U)
    D = array_namespace(U).astype(D, U.dtype)
    return None, (sum_over_rows(rows, weigh(rows @ D, chunk.weight)),)
