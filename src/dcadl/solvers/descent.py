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
from typing import Any, NamedTuple

from dcadl.arrays import Array, array_namespace, spd_solver, wide, zeros
from dcadl.ops.atoms import ball_atoms
from dcadl.ops.codes import as_codes, by_image, by_patch, respond, soft_threshold, squared_norm
from dcadl.ops.ridge import add_to_diagonal, block_conjugate_gradient
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


class State(NamedTuple):
    """What moves. `seen` holds the objective after each block, as far as it has been looked at."""

    Omega: Array
    W: Array  # in float64
    codes: Sequence[Any]  # U of each chunk
    terms: tuple[float, float]  # fit and sparsity terms of the codes under the atoms they were made with
    old_Omega: Array
    seen: tuple[float, ...]


def pose(chunks: Sequence[Chunk], walk: Walk, lams: tuple[float, float, float, float]) -> Problem:
    """The problem, with X̄X̄ᵀ taken and factored once."""
    _, (G,) = walk(_gram, chunks)
    return Problem(chunks, walk, *lams, G, ball_atoms(G, lams[3]))


def start(problem: Problem, Omega: Array, n_classes: int) -> State:
    """Codes τ_λ1(ΩX̄), and a first classifier on them."""
    codes, (target,) = problem.walk(lambda chunk: _first_codes(problem, chunk, Omega), problem.chunks)
    W = zeros((n_classes, target.shape[0]), like=target)
    W = _classifier(problem, codes, W, target, START_STEPS, wide)
    return State(Omega, W, codes, (0.0, 0.0), Omega, ())


def step(problem: Problem, state: State) -> State:
    """One pass: codes, classifier, atoms, each a descent step on F."""
    xp = array_namespace(state.Omega)
    Omega, codes = state.Omega, state.codes
    W = xp.astype(state.W, Omega.dtype)
    inner = _code_stepper(problem, W)
    codes, sums = problem.walk(
        lambda chunk, U: _visit(problem, inner, chunk, U, Omega, state.W), problem.chunks, codes
    )
    fit_in, label_in, fit, sparsity, label, slope, pull = sums
    seen = _values(problem, state, float(fit_in), float(label_in)) if state.seen else ()
    terms = float(fit), float(sparsity)
    after_codes = sum(terms) + float(label) + _ridges(problem, W, Omega)

    new_W = _classifier(problem, codes, state.W, slope, CLASSIFIER_STEPS, lambda U: U)  # line 10
    # ŪX̄ᵀ = (Ū − ΩX̄)X̄ᵀ + Ω(X̄X̄ᵀ): the small part from the chunks, the large one in float64.
    B = pull + wide(Omega) @ problem.G
    new_Omega = xp.astype(problem.fit_atoms(B), Omega.dtype)  # lines 12-13, exact
    return State(new_Omega, new_W, codes, terms, Omega, (*state.seen, *seen, after_codes))


def objective(problem: Problem, state: State) -> tuple[float, ...]:
    """F after each block of each pass: codes, classifier, atoms, codes, … The last look is taken here."""
    Omega = state.Omega
    W = array_namespace(Omega).astype(state.W, Omega.dtype)
    _, (fit, label) = problem.walk(
        lambda chunk, U: (None, _terms(problem, chunk, U, Omega, W)), problem.chunks, state.codes
    )
    return (*state.seen, *_values(problem, state, float(fit), float(label)))


def last_value(state: State) -> float:
    """F after the codes of the last pass: the value a pass is judged by."""
    return state.seen[-1]


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


def _code_stepper(problem: Problem, W: Array) -> CodeSteps:
    """A few accelerated proximal-gradient steps on the codes of a chunk.

    The block is 1-strongly convex and L-smooth, L = 1 + λ2‖W‖², so K ≥ √L·ln 2 accelerated steps
    lower it for certain. Where that is too many, plain steps do, each of which lowers it.
    """
    xp = array_namespace(W)
    sigma2 = float(xp.max(xp.linalg.eigvalsh(wide(W @ W.T))))
    L = 1 + problem.lam2 * max(sigma2, 0.0) * (1 + 1e-6)  # eigenvalues carry rounding
    needed = math.ceil(math.sqrt(L) * math.log(2))
    accelerate = needed <= MAX_CODE_STEPS
    beta = (math.sqrt(L) - 1) / (math.sqrt(L) + 1) if accelerate else 0.0
    count = max(CODE_STEPS, needed) if accelerate else CODE_STEPS
    scaled_W = (problem.lam2 / L) * W

    def inner(U: Array, A: Array, Y: Array, error: Array) -> tuple[Array, Array]:
        pull = A * (1 / L)

        def advance(V: Array, V_error: Array) -> tuple[Array, Array]:
            moved = as_codes(V_error @ scaled_W, V.shape)
            moved += pull  # in place: these arrays are new, and each further one costs a trip to memory
            moved += V * (1 - 1 / L)
            shrunk = soft_threshold(moved, problem.lam1 / L)
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
        return W + spd_solver(add_to_diagonal(lam2 * G, max(lam3, _dust(lam2 * G))))(residual).T

    def product(D: Array) -> Array:
        _, (image,) = problem.walk(lambda chunk, U: _code_image(chunk, lift(U), D), problem.chunks, codes)
        return lam2 * image + lam3 * D

    return block_conjugate_gradient(product, W.T, residual, steps).T


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


def _values(problem: Problem, state: State, fit: float, label: float) -> tuple[float, float]:
    """F after the classifier and after the atoms of the pass that made `state`, seen from its codes."""
    old_fit, sparsity = state.terms
    after_classifier = old_fit + sparsity + label + _ridges(problem, state.W, state.old_Omega)
    after_atoms = fit + sparsity + label + _ridges(problem, state.W, state.Omega)
    return after_classifier, after_atoms


def _dust(G: Array) -> float:
    """A ridge too small to matter that keeps the Cholesky alive when λ3 = 0."""
    xp = array_namespace(G)
    return 1e-12 * float(xp.max(xp.linalg.diagonal(G)))


def _ridges(problem: Problem, W: Array, Omega: Array) -> float:
    return 0.5 * problem.lam3 * float(squared_norm(W)) + 0.5 * problem.lam4 * float(squared_norm(Omega))
