"""DCADL by block descent: each block of each pass lowers the objective, or leaves it (docs/errata.md).

F(Ω, U, W) = Σ_j s_j (½‖ΩX̄_j − U_j‖² + λ1‖U_j‖₁ + ½λ2‖y_j − WŨ_j‖²) + ½λ3‖W‖² + ½λ4‖Ω‖²,  ‖ω_i‖ ≤ 1

(Eq. 4 with the ridges its updates imply; s_j weighs image j and is 1 unless the user says otherwise.)

| paper | here         | shape     |                                               |
|-------|--------------|-----------|-----------------------------------------------|
| X̄     | `chunk.patches()` | (b, p, d) | patches of a chunk of images             |
| Y     | `chunk.Y`    | (b, C)    | one-hot labels                                |
| U     | `U`          | (b, p, m) | codes of a chunk; all chunks: `state.codes`   |
| Ω, W  | `Omega`, `W` | (m, d), (C, p·m) |                                        |
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from dcadl.arrays import (
    Array,
    Recorder,
    array_namespace,
    fetch,
    on_host,
    side_by_side,
    spd_solver,
    wide,
    zeros,
)
from dcadl.ops.atoms import ball_atoms
from dcadl.ops.codes import as_codes, by_image, by_patch, respond, soft_threshold, squared_norm
from dcadl.ops.ridge import COARSE_DUST, add_to_diagonal, block_conjugate_gradient, largest_eigenvalue
from dcadl.solvers.walk import Walk

CODE_STEPS = 3  # accelerated steps on the codes in a pass: more lower F less than they cost
START_STEPS = 12  # conjugate-gradient steps for the first classifier, from zero
CLASSIFIER_STEPS = 3  # and in each pass, from the last one
MAX_CODE_STEPS = 16
SMALL_GRAM = 512  # features up to which the classifier is always solved exactly


CodeSteps = Callable[[Array, Array, Array, Array], tuple[Array, Array]]  # U, A, Y, error -> U, error


class Chunk(NamedTuple):
    """Some of the images. Patches are made on call, so that they need not all be in memory."""

    patches: Callable[[], Array]  # -> (b, p, d), normalised
    Y: Array  # (b, C)
    weight: Array | None  # (b,), or None for 1


class Pace(NamedTuple):
    """How the codes of a chunk move in a pass."""

    steps: int
    accelerate: bool


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
    recorder: Recorder


class State(NamedTuple):
    """What moves. `seen` holds the objective after each block, as far as it has been looked at."""

    Omega: Array
    W: Array  # in float64
    codes: Sequence[Any]  # U of each chunk
    terms: tuple[float, ...]  # fit and sparsity of the codes under the old atoms; then L under W, if known
    old_Omega: Array
    seen: tuple[float, ...]


def pose(chunks: Sequence[Chunk], walk: Walk, lams: tuple[float, float, float, float]) -> Problem:
    """The problem, with X̄X̄ᵀ taken and factored once."""
    _, (G,) = walk(_gram, chunks)
    return Problem(chunks, walk, *lams, G, ball_atoms(G, lams[3]), Recorder())


def start(problem: Problem, Omega: Array, n_classes: int) -> State:
    """Codes τ_λ1(ΩX̄), and a first classifier on them."""
    codes, (target,) = problem.walk(lambda chunk: _first_codes(problem, chunk, Omega), problem.chunks)
    W = zeros((n_classes, target.shape[0]), like=target)
    W = _classifier(problem, codes, W, target, START_STEPS, wide)
    return State(Omega, W, codes, (0.0, 0.0, float(_smoothness(problem, W))), Omega, ())


def step(problem: Problem, state: State) -> State:
    """One pass: codes, classifier, atoms, each a descent step on F. The host hears of it once, at its end."""
    L = state.terms[2] if len(state.terms) > 2 else float(_smoothness(problem, state.W))
    arrays = (state.Omega, state.W, state.old_Omega, *state.codes)
    run = problem.recorder if _resident(problem, state) else _plainly
    Omega, W, looks, *codes = run(partial(_pass, problem), _pace(L), L, *arrays)

    *before, fit, sparsity, label, next_L = (float(look) for look in fetch(looks))
    seen = _values(problem, state, before) if state.seen else ()
    after_codes = fit + sparsity + label + _ridges(problem, before[2], before[3])
    return State(Omega, W, codes, (fit, sparsity, next_L), state.Omega, (*state.seen, *seen, after_codes))


def objective(problem: Problem, state: State) -> tuple[float, ...]:
    """F after each block of each pass: codes, classifier, atoms, codes, … The last look is taken here."""
    Omega = state.Omega
    W = array_namespace(Omega).astype(state.W, Omega.dtype)
    _, terms = problem.walk(
        lambda chunk, U: (None, _terms(problem, chunk, U, Omega, W)), problem.chunks, state.codes
    )
    looks = (*terms, squared_norm(state.W), squared_norm(Omega), squared_norm(state.old_Omega))
    return (*state.seen, *_values(problem, state, [float(look) for look in looks]))


def last_value(state: State) -> float:
    """F after the codes of the last pass: the value a pass is judged by."""
    return state.seen[-1]


# --- one pass ----------------------------------------------------------------------------------------


def _pass(
    problem: Problem, pace: Pace, L: float | Array, Omega: Array, W: Array, old_Omega: Array, *codes: Any
) -> tuple[Array, ...]:
    """New atoms, classifier, numbers for the objective and codes: arrays to arrays, nothing asked of them."""
    xp = array_namespace(Omega)
    inner = _code_stepper(problem, xp.astype(W, Omega.dtype), pace, L)
    new_codes, sums = problem.walk(
        lambda chunk, U: _visit(problem, inner, chunk, U, Omega, W), problem.chunks, codes
    )
    fit_in, label_in, fit, sparsity, label, slope, pull = sums

    def classify() -> tuple[Array, ...]:  # line 10
        new_W = _classifier(problem, new_codes, W, slope, CLASSIFIER_STEPS, lambda U: U)
        return new_W, _smoothness(problem, new_W)

    def fit_atoms() -> tuple[Array, ...]:  # lines 12-13, exact
        # ŪX̄ᵀ = (Ū − ΩX̄)X̄ᵀ + Ω(X̄X̄ᵀ): the small part from the chunks, the large one in float64.
        B = pull + wide(Omega) @ problem.G
        norms = squared_norm(W), squared_norm(Omega), squared_norm(old_Omega)
        return xp.astype(problem.fit_atoms(B), Omega.dtype), *norms

    (new_W, next_L), (new_Omega, *norms) = side_by_side(classify, fit_atoms)
    looks = fit_in, label_in, *norms, fit, sparsity, label, next_L
    return new_Omega, new_W, xp.stack([xp.asarray(look, dtype=xp.float64) for look in looks]), *new_codes


def _plainly(function: Callable[..., tuple[Array, ...]], *arguments: Any) -> tuple[Array, ...]:
    return function(*arguments)


def _resident(problem: Problem, state: State) -> bool:
    """Whether all data stay in one place of a device while we iterate, as a recorded pass must find them."""
    return not on_host(state.Omega) and all(
        isinstance(chunk, Chunk) and chunk.patches() is chunk.patches() for chunk in problem.chunks
    )


def _smoothness(problem: Problem, W: Array) -> Array:
    """L = 1 + λ2‖W‖² of the code block, or a little more."""
    return 1 + (problem.lam2 * (1 + 1e-6)) * largest_eigenvalue(W @ W.T)  # the bound carries rounding


def _pace(L: float) -> Pace:
    """How many steps lower the codes' block for certain: K ≥ √L·ln 2 accelerated ones, or any plain ones."""
    needed = math.ceil(math.sqrt(L) * math.log(2))
    return Pace(max(CODE_STEPS, needed), True) if needed <= MAX_CODE_STEPS else Pace(CODE_STEPS, False)


# --- one chunk ---------------------------------------------------------------------------------------


def _gram(chunk: Chunk) -> tuple[None, tuple[Array]]:
    P = wide(chunk.patches())
    return None, (by_patch(_weigh(P, chunk.weight)).T @ by_patch(P),)


def _first_codes(problem: Problem, chunk: Chunk, Omega: Array) -> tuple[Array, tuple[Array]]:
    U = soft_threshold(respond(chunk.patches(), Omega), problem.lam1)
    return U, (problem.lam2 * (wide(by_image(_weigh(U, chunk.weight))).T @ wide(chunk.Y)),)


def _visit(
    problem: Problem,
    inner: Callable[..., tuple[Array, Array]],
    chunk: Chunk,
    U: Array,
    Omega: Array,
    exact_W: Array,
) -> tuple[Array, tuple[Any, ...]]:
    """New codes of a chunk, and what the classifier, the atoms and the objective need of them."""
    P, s = chunk.patches(), chunk.weight
    A = respond(P, Omega)  # line 4
    W = array_namespace(U).astype(exact_W, U.dtype)
    error = chunk.Y - by_image(U) @ W.T
    fit_in, label_in = _misfit(A - U, s), _misfit(error, s)

    U, error = inner(U, A, chunk.Y, error)  # lines 4-8

    xp = array_namespace(U)
    heavy, residual = _weigh(U, s), U - A
    sparsity = problem.lam1 * xp.sum(xp.abs(heavy))
    slope = problem.lam2 * _slope(heavy, chunk.Y, U, exact_W)  # (p·m, C): − gradient of the label term in Wᵀ
    pull = wide(by_patch(P).T @ by_patch(_weigh(residual, s))).T  # (m, d): (Ū − ΩX̄)X̄ᵀ
    label = problem.lam2 * _misfit(error, s)
    return U, (fit_in, problem.lam2 * label_in, _misfit(residual, s), sparsity, label, slope, pull)


def _code_stepper(
    problem: Problem, W: Array, pace: Pace | None = None, L: float | Array | None = None
) -> CodeSteps:
    """A few accelerated proximal-gradient steps on the codes of a chunk.

    The block is 1-strongly convex and L-smooth, L = 1 + λ2‖W‖², so K ≥ √L·ln 2 accelerated steps
    lower it for certain. Where that is too many, plain steps do, each of which lowers it.
    """
    L = float(_smoothness(problem, wide(W))) if L is None else L
    count, accelerate = _pace(L) if pace is None else pace
    root = L**0.5
    beta = (root - 1) / (root + 1) if accelerate else 0.0
    length = 1 / L
    kept, shrinkage = 1 - length, problem.lam1 * length
    scaled_W = (problem.lam2 * length) * W

    def inner(U: Array, A: Array, Y: Array, error: Array) -> tuple[Array, Array]:
        pull = A * length

        def advance(V: Array, V_error: Array) -> tuple[Array, Array]:
            moved = as_codes(V_error @ scaled_W, V.shape)
            moved += pull  # in place: these arrays are new, and each further one costs a trip to memory
            moved += V * kept
            shrunk = soft_threshold(moved, shrinkage)
            return shrunk, Y - by_image(shrunk) @ W.T

        before, before_error = U, error
        U, error = advance(U, error)
        for _ in range(count - 1):
            ahead = U - before
            ahead *= beta
            ahead += U
            ahead_error = error + beta * (error - before_error)  # the error is affine in the codes
            before, before_error = U, error
            U, error = advance(ahead, ahead_error)
        return U, error

    return inner


def _slope(heavy: Array, Y: Array, U: Array, W: Array) -> Array:
    """Ũ(Y − WŨ)ᵀ of a chunk in float64: what two large terms leave once W is nearly right."""
    rows = wide(by_image(U))
    error = wide(Y) - rows @ W.T
    return (rows if heavy is U else wide(by_image(heavy))).T @ error


def _terms(problem: Problem, chunk: Chunk, U: Array, Omega: Array, W: Array) -> tuple[Array, Array]:
    """Fit and label terms of a chunk."""
    A = respond(chunk.patches(), Omega)
    error = chunk.Y - by_image(U) @ W.T
    return _misfit(A - U, chunk.weight), problem.lam2 * _misfit(error, chunk.weight)


def _misfit(error: Array, weight: Array | None) -> Array:
    """½Σ_j s_j‖error_j‖²."""
    if weight is None:
        return 0.5 * squared_norm(error)
    xp = array_namespace(error)
    rows = by_image(error)
    return 0.5 * xp.sum(weight * xp.vecdot(rows, rows))


def _weigh(U: Array, weight: Array | None) -> Array:
    """s_j U_j for each image j."""
    if weight is None:
        return U
    xp = array_namespace(U)
    return U * xp.reshape(xp.astype(weight, U.dtype), (-1,) + (1,) * (U.ndim - 1))


# --- all chunks --------------------------------------------------------------------------------------


def _classifier(
    problem: Problem, codes: Sequence[Any], W: Array, slope: Array, steps: int, lift: Callable[[Array], Array]
) -> Array:
    """A lower ridge objective in W: its minimum where the Gram matrix is small, else some CG steps.

    `slope` is λ2Ũ(Y − WŨ)ᵀ, so that the residual of (λ2ŨŨᵀ + λ3I)Wᵀ = λ2ŨYᵀ is slope − λ3Wᵀ. Patches
    share a mean, which makes the system too ill-conditioned for float32: `lift` is `wide` for a solution
    from scratch. A correction to an earlier one may take its products in the codes' own precision.
    """
    lam2, lam3 = problem.lam2, problem.lam3
    residual = slope - lam3 * W.T
    if solved_exactly(*W.shape):
        _, (G,) = problem.walk(_code_gram, problem.chunks, codes)
        ridge = array_namespace(G).clip(_dust(lam2 * G), min=lam3)
        return W + spd_solver(add_to_diagonal(lam2 * G, ridge))(residual).T

    def product(D: Array) -> Array:
        _, (image,) = problem.walk(lambda chunk, U: _code_image(chunk, lift(U), D), problem.chunks, codes)
        return lam2 * image + lam3 * D

    return block_conjugate_gradient(product, W.T, residual, steps, COARSE_DUST).T


def solved_exactly(n_classes: int, n_features: int) -> bool:
    """Whether a Gram matrix costs no more than the CG steps. Independent of the number of images."""
    return n_features <= max(SMALL_GRAM, 4 * CLASSIFIER_STEPS * n_classes)


def _code_gram(chunk: Chunk, U: Array) -> tuple[None, tuple[Array]]:
    rows = wide(by_image(U))
    return None, (_weigh(rows, chunk.weight).T @ rows,)


def _code_image(chunk: Chunk, U: Array, D: Array) -> tuple[None, tuple[Array]]:
    rows = by_image(U)
    D = array_namespace(U).astype(D, U.dtype)
    return None, (wide(rows.T @ _weigh(rows @ D, chunk.weight)),)


def _values(problem: Problem, state: State, looks: list[float]) -> tuple[float, float]:
    """F after the classifier and after the atoms of the pass that made `state`, seen from its codes."""
    old_fit, sparsity, *_ = state.terms
    fit, label, W2, Omega2, old_Omega2 = looks
    after_classifier = old_fit + sparsity + label + _ridges(problem, W2, old_Omega2)
    after_atoms = fit + sparsity + label + _ridges(problem, W2, Omega2)
    return after_classifier, after_atoms


def _dust(G: Array) -> Array:
    """A ridge too small to matter that keeps the Cholesky alive when λ3 = 0."""
    xp = array_namespace(G)
    return 1e-12 * xp.max(xp.linalg.diagonal(G))


def _ridges(problem: Problem, W2: float, Omega2: float) -> float:
    return 0.5 * problem.lam3 * W2 + 0.5 * problem.lam4 * Omega2
