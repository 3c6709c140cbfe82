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

from dcadl.arrays import (
    Array,
    Recorder,
    array_namespace,
    fetch,
    on_host,
    plainly,
    side_by_side,
    wide,
)
from dcadl.ops.atoms import ball_atoms
from dcadl.ops.codes import by_image, by_patch, respond, soft_threshold, squared_norm, sum_over_rows, weigh
from dcadl.solvers.classifier import (
    REFIT_STEPS,
    START_STEPS,
    Metric,
    Regression,
    first_classifier,
    lower_classifier,
    metric_of,
)
from dcadl.solvers.coding import MANY, Coder, Pace, coder, pace_for, smoothness, terms_of
from dcadl.solvers.walk import Made, Walk


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
    run: Callable[..., tuple[Array, ...]]  # how a pass is run: as it is, or from a recording
    remake: bool  # whether to say how codes can be made again

    @property
    def regression(self) -> Regression:
        """The classifier's part of the problem."""
        return Regression(self.chunks, self.walk, self.lam2, self.lam3, self.run)


class State(NamedTuple):
    """What moves. `seen` holds the objective after each block, as far as it has been looked at."""

    Omega: Array
    W: Array  # in float64
    codes: Sequence[Any]  # U of each chunk
    terms: tuple[float, ...]  # fit and sparsity of the codes under the old atoms; L; share that refused
    old_Omega: Array
    seen: tuple[float, ...]
    metric: Metric | None  # of the first codes, in which the classifier steps


def pose(
    chunks: Sequence[Chunk], walk: Walk, lams: tuple[float, float, float, float], remake: bool = False
) -> Problem:
    """The problem, with X̄X̄ᵀ taken and factored once."""
    _, (G,) = walk(_gram, chunks)
    run = Recorder() if all(map(_resident, chunks)) else plainly
    return Problem(chunks, walk, *lams, G, ball_atoms(G, lams[3]), run, remake)


def start(problem: Problem, Omega: Array) -> State:
    """Codes τ_λ1(ΩX̄), and a first classifier on them."""
    codes, (target,) = problem.walk(lambda chunk: _first_codes(problem, chunk, Omega), problem.chunks)
    metric = metric_of(problem.regression, codes, target.shape)
    W = first_classifier(problem.regression, codes, target, metric, START_STEPS)
    return State(Omega, W, codes, (0.0, 0.0, float(smoothness(W, problem.lam2)), 0.0), Omega, (), metric)


def step(problem: Problem, state: State) -> State:
    """One pass: codes, classifier, atoms, each a descent step on F. The host hears of it once, at its end."""
    *_, L, refused = state.terms
    arrays = (state.Omega, state.W, state.old_Omega, *state.codes)
    function = partial(_pass, problem, state.metric)
    Omega, W, looks, *codes = problem.run(function, pace_for(L, refused), L, *arrays)

    *before, fit, sparsity, label, refused, next_L = (float(look) for look in fetch(looks))
    seen = _values(problem, state, before) if state.seen else ()
    after_codes = fit + sparsity + label + _ridges(problem, before[2], before[3])
    trace = (*state.seen, *seen, after_codes)
    return State(Omega, W, codes, (fit, sparsity, next_L, refused), state.Omega, trace, state.metric)


def lower_codes(problem: Problem, Omega: Array, W: Array, codes: Sequence[Any]) -> Sequence[Any]:
    """The codes' block of a pass alone."""
    L = float(smoothness(W, problem.lam2))
    mover = coder(W, problem.lam1, problem.lam2, pace_for(L, MANY), L, Omega.dtype)
    found, _ = problem.walk(
        lambda chunk, U: (mover.move(U, respond(chunk.patches(), Omega), chunk.Y).U, ()),
        problem.chunks,
        codes,
    )
    return found


def refit(problem: Problem, state: State) -> State:
    """The classifier for the codes that predictions see, τ_λ1(ΩX̄): those of the passes know their labels.

    The codes of the state are not kept.
    """
    codes, (target,) = problem.walk(lambda chunk: _first_codes(problem, chunk, state.Omega), problem.chunks)
    return state._replace(W=first_classifier(problem.regression, codes, target, state.metric, REFIT_STEPS))


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
    problem: Problem,
    metric: Metric | None,
    pace: Pace,
    L: float | Array,
    Omega: Array,
    W: Array,
    old_Omega: Array,
    *codes: Any,
) -> tuple[Array, ...]:
    """New atoms, classifier, numbers for the objective and codes: arrays to arrays, nothing asked of them."""
    xp = array_namespace(Omega)
    mover = coder(W, problem.lam1, problem.lam2, pace, L, Omega.dtype)
    remake = problem.remake and pace.steps == 0
    new_codes, sums = problem.walk(
        lambda chunk, U: _visit(mover, chunk, U, Omega, remake), problem.chunks, codes
    )
    fit_in, label_in, fit, sparsity, label, refused, n, slope, pull = sums

    def classify() -> tuple[Array, ...]:  # line 10
        new_W = lower_classifier(problem.regression, new_codes, W, problem.lam2 * slope, metric)
        return new_W, smoothness(new_W, problem.lam2)

    def fit_atoms() -> tuple[Array, ...]:  # lines 12-13, exact
        # ŪX̄ᵀ = (Ū − ΩX̄)X̄ᵀ + Ω(X̄X̄ᵀ): the small part from the chunks, the large one in float64.
        B = pull + wide(Omega) @ problem.G
        norms = squared_norm(W), squared_norm(Omega), squared_norm(old_Omega)
        return xp.astype(problem.fit_atoms(B), Omega.dtype), *norms

    (new_W, next_L), (new_Omega, *norms) = side_by_side(classify, fit_atoms)
    looks = fit_in, label_in, *norms, fit, sparsity, label, refused / n, next_L
    return new_Omega, new_W, xp.stack([xp.asarray(look, dtype=xp.float64) for look in looks]), *new_codes


def _resident(chunk: Any) -> bool:
    """Whether a chunk stays in one place of a device while we iterate, as a recording must find it."""
    return isinstance(chunk, Chunk) and not on_host(chunk.Y) and chunk.patches() is chunk.patches()


# --- one chunk ---------------------------------------------------------------------------------------


def _gram(chunk: Chunk) -> tuple[None, tuple[Array]]:
    P = wide(chunk.patches())
    return None, (by_patch(weigh(P, chunk.weight)).T @ by_patch(P),)


def _first_codes(problem: Problem, chunk: Chunk, Omega: Array) -> tuple[Any, tuple[Array]]:
    again = partial(_shrunk_responses, chunk, Omega, problem.lam1)
    U = again()
    target = problem.lam2 * (wide(by_image(weigh(U, chunk.weight))).T @ wide(chunk.Y))
    return Made(U, again) if problem.remake else U, (target,)


def _shrunk_responses(chunk: Chunk, Omega: Array, lam1: float) -> Array:
    return soft_threshold(respond(chunk.patches(), Omega), lam1)


def _leapt(mover: Coder, chunk: Chunk, Omega: Array) -> Array:
    return mover.leap(respond(chunk.patches(), Omega), chunk.Y)


def _visit(mover: Coder, chunk: Chunk, U: Array, Omega: Array, remake: bool) -> tuple[Any, tuple[Any, ...]]:
    """New codes of a chunk, and what the classifier, the atoms and the objective need of them."""
    P, s = chunk.patches(), chunk.weight
    A = respond(P, Omega)  # line 4
    U, error, before, after, refused = mover.move(U, A, chunk.Y)  # lines 4-8
    slope = sum_over_rows(
        by_image(weigh(U, s)), error
    )  # (p·m, C): − gradient of the label term in Wᵀ, over λ2
    pull = sum_over_rows(by_patch(P), by_patch(weigh(U - A, s))).T  # (m, d): (Ū − ΩX̄)X̄ᵀ
    values = [_total(term, s) for term in (before.fit, before.label, *after)]
    kept = Made(U, None if float(refused) else partial(_leapt, mover, chunk, Omega)) if remake else U
    return kept, (*values, refused, float(U.shape[0]), slope, pull)


def _terms(problem: Problem, chunk: Chunk, U: Array, Omega: Array, W: Array) -> tuple[Array, Array]:
    """Fit and label terms of a chunk."""
    error = chunk.Y - by_image(U) @ W.T
    terms = terms_of(U, respond(chunk.patches(), Omega), error, problem.lam1, problem.lam2)
    return _total(terms.fit, chunk.weight), _total(terms.label, chunk.weight)


def _total(values: Array, weight: Array | None) -> Array:
    """Σ_j s_j·values_j, in float64: sums over chunks must not lose digits."""
    xp = array_namespace(values)
    return xp.sum(wide(values)) if weight is None else xp.sum(wide(values) * wide(weight))


# --- all chunks --------------------------------------------------------------------------------------


def _values(problem: Problem, state: State, looks: list[float]) -> tuple[float, float]:
    """F after the classifier and after the atoms of the pass that made `state`, seen from its codes."""
    old_fit, sparsity, *_ = state.terms
    fit, label, W2, Omega2, old_Omega2 = looks
    after_classifier = old_fit + sparsity + label + _ridges(problem, W2, old_Omega2)
    after_atoms = fit + sparsity + label + _ridges(problem, W2, Omega2)
    return after_classifier, after_atoms


def _ridges(problem: Problem, W2: float, Omega2: float) -> float:
    return 0.5 * problem.lam3 * W2 + 0.5 * problem.lam4 * Omega2
