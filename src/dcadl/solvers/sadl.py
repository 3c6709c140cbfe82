"""SADL: analysis atoms under a structure map Q and a classifier W, by ADMM as released or by descent.

F = ½‖U − ΩX‖² + λ1‖U‖₁ + ½γ1‖H − QU‖² + ½γ2‖Y − WQU‖² + ½δ1‖Q‖² + ½δ2‖W‖² + ½λ4‖Ω‖²

`step` is a pass of block descent on F with ‖ω_i‖ ≤ 1: proximal-gradient steps on the codes, a step on Q
that minimises an upper bound of its block, exact W and Ω. None of them raises F. `admm_step` is a pass of
the authors' linearised ADMM on the constraints QU = H and WQU = Y, with its step lengths frozen at the
start. It weighs ‖U − ΩX‖² and ‖U‖₁ with 1/μ, next to nothing, and lowers no objective; its atoms are free.

| paper | here    | shape  |                                              |
|-------|---------|--------|----------------------------------------------|
| X     | `X`     | (n, d) | samples                                      |
| Y     | `Y`     | (n, C) | one-hot labels                               |
| H     | `H`     | (n, s) | structure targets                            |
| U     | `U`     | (n, r) | codes                                        |
| Ω     | `Omega` | (r, d) | atoms                                        |
| Q, W  | `Q`, `W`| (s, r), (C, s) | structure map, classifier            |
| Y1, Y2| `Y1`, `Y2` | (n, s), (n, C) | multipliers (ADMM)                |
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from dcadl.arrays import Array, array_namespace, as_float64, device_of, spd_solver, tiny
from dcadl.ops.closed_form import ridge
from dcadl.ops.codes import ball_atoms, soft_threshold, squared_norm
from dcadl.ops.floors import SMOOTHNESS_SLACK
from dcadl.ops.ridge import add_to_diagonal

CODE_STEPS = 3  # proximal-gradient steps on the codes in a pass
MU = 1.5e8  # μ‖Y1‖₂, the authors' constant
RELAXED = 5.5  # the authors' factor on the squared norms that bound their steps


class Weights(NamedTuple):
    """The λ, γ and δ of F."""

    lam1: float
    lam4: float
    gamma1: float
    gamma2: float
    delta1: float
    delta2: float


class Problem(NamedTuple):
    """What stays fixed while we iterate."""

    X: Array
    Y: Array
    H: Array
    weights: Weights
    fit_atoms: Callable[[Array], Array]  # codes -> Ω, factored once


class State(NamedTuple):
    """What moves, and F after each block of each pass so far."""

    Omega: Array
    U: Array
    Q: Array
    W: Array
    trace: tuple[float, ...]


class Multipliers(NamedTuple):
    """What ADMM holds beside: multipliers, μ, and the inverse step lengths for U, Q and W."""

    Y1: Array
    Y2: Array
    mu: float
    eta: tuple[float, float, float]


class AdmmState(NamedTuple):
    """What moves in ADMM, and the residual of its constraints after each pass."""

    Omega: Array
    U: Array
    Q: Array
    W: Array
    multipliers: Multipliers
    trace: tuple[float, ...]


# --- block descent -----------------------------------------------------------------------------------


def pose(X: Array, Y: Array, H: Array, weights: Weights) -> Problem:
    """The problem with atoms in the unit ball."""
    return Problem(X, Y, H, weights, _atoms_in_the_ball(X, weights.lam4))


def start(problem: Problem, Omega: Array) -> State:
    """Codes τ_λ1(ΩX), and ridge regressions from them to the structure and on to the labels."""
    w = problem.weights
    U = soft_threshold(problem.X @ Omega.T, w.lam1)
    Q = ridge(U, problem.H, w.delta1 / w.gamma1).T
    return State(Omega, U, Q, ridge(U @ Q.T, problem.Y, w.delta2 / w.gamma2).T, ())


def step(problem: Problem, state: State) -> State:
    """One pass: codes, structure map, classifier, atoms."""
    w = problem.weights
    Omega, U, Q, W, trace = state
    A = problem.X @ Omega.T  # serves all blocks but the last
    U = _codes(problem, U, A, Q, W)
    trace = (*trace, _value(problem, A, Omega, U, Q, W))
    Q = _structure(problem, U, Q, W)
    trace = (*trace, _value(problem, A, Omega, U, Q, W))
    W = ridge(U @ Q.T, problem.Y, w.delta2 / w.gamma2).T
    trace = (*trace, _value(problem, A, Omega, U, Q, W))
    Omega = problem.fit_atoms(U)
    return State(Omega, U, Q, W, (*trace, value(problem, Omega, U, Q, W)))


def value(problem: Problem, Omega: Array, U: Array, Q: Array, W: Array) -> float:
    """F."""
    return _value(problem, problem.X @ Omega.T, Omega, U, Q, W)


def _value(problem: Problem, A: Array, Omega: Array, U: Array, Q: Array, W: Array) -> float:
    """F, where the responses A = ΩX are at hand."""
    xp, w = array_namespace(U), problem.weights
    structure = U @ Q.T
    return (
        0.5 * float(squared_norm(U - A))
        + w.lam1 * float(xp.sum(xp.abs(U)))
        + 0.5 * w.gamma1 * float(squared_norm(problem.H - structure))
        + 0.5 * w.gamma2 * float(squared_norm(problem.Y - structure @ W.T))
        + 0.5 * w.delta1 * float(squared_norm(Q))
        + 0.5 * w.delta2 * float(squared_norm(W))
        + 0.5 * w.lam4 * float(squared_norm(Omega))
    )


def _atoms_in_the_ball(X: Array, lam4: float) -> Callable[[Array], Array]:
    """U ↦ argmin_Ω ½‖U − XΩᵀ‖² + ½λ4‖Ω‖² with rows in the unit ball, in float64.

    Of the d directions only those that the samples span can matter: there are n where n < d.
    """
    xp = array_namespace(X)
    if X.shape[0] >= X.shape[1]:
        exact = ball_atoms(as_float64(X).T @ as_float64(X), lam4)
        return lambda U: xp.astype(exact(as_float64(U.T @ X)), X.dtype)
    span, R = xp.linalg.qr(as_float64(X).T)  # (d, n), (n, n): X = Rᵀ·spanᵀ
    within = ball_atoms(R @ R.T, lam4)
    return lambda U: xp.astype(within(as_float64(U).T @ R.T) @ span.T, X.dtype)


def _codes(problem: Problem, U: Array, A: Array, Q: Array, W: Array) -> Array:
    """Proximal-gradient steps of length 1/L, L = 1 + ‖B‖², on ½‖U − A‖² + λ1‖U‖₁ + ½‖T − UBᵀ‖².

    B stacks √γ1·Q on √γ2·WQ, and T their targets.
    """
    xp, w = array_namespace(U), problem.weights
    B = xp.concat([w.gamma1**0.5 * Q, w.gamma2**0.5 * (W @ Q)], axis=0)
    T = xp.concat([w.gamma1**0.5 * problem.H, w.gamma2**0.5 * problem.Y], axis=1)
    L = 1 + _top(B @ B.T)
    for _ in range(CODE_STEPS):
        U = soft_threshold(U - ((U - A) + (U @ B.T - T) @ B) / L, w.lam1 / L)
    return U


def _structure(problem: Problem, U: Array, Q: Array, W: Array) -> Array:
    """The minimum of an upper bound of F in Q that touches it at the last Q.

    The block's curvature is M ⊗ UUᵀ + δ1I with M = γ1I + γ2WᵀW. Its largest eigenvalue ℓ in place of M
    leaves one system, ℓUUᵀ + δ1I, solved in float64 in the smaller of its two forms.
    """
    xp, w = array_namespace(U), problem.weights
    dtype, U, Q, W, H, Y = (
        U.dtype,
        as_float64(U),
        as_float64(Q),
        as_float64(W),
        as_float64(problem.H),
        as_float64(problem.Y),
    )
    ell = w.gamma1 + w.gamma2 * _top(W @ W.T)
    structure = U @ Q.T
    error = w.gamma1 * (H - structure) + w.gamma2 * (Y - structure @ W.T) @ W  # (n, s)
    downhill = U.T @ error - w.delta1 * Q.T  # (r, s)
    shift = w.delta1 / ell
    if U.shape[0] < U.shape[1]:  # (ℓUUᵀ + δ1I)⁻¹ = (I − U(UᵀU + (δ1/ℓ)I)⁻¹Uᵀ)/δ1 in the paper's columns
        inside = spd_solver(add_to_diagonal(U @ U.T, shift))(U @ downhill)
        move = (downhill - U.T @ inside) / w.delta1
    else:
        move = spd_solver(add_to_diagonal(U.T @ U, shift))(downhill) / ell
    return xp.astype(Q + move.T, dtype)


# --- the authors' linearised ADMM --------------------------------------------------------------------


def pose_admm(X: Array, Y: Array, H: Array, weights: Weights) -> Problem:
    """The problem with free atoms, Ω = UXᵀ(XXᵀ + λ4I)⁻¹."""
    xp = array_namespace(X)
    regress = ridge(X, xp.eye(X.shape[0], dtype=X.dtype, device=device_of(X)), weights.lam4)  # (d, n)
    return Problem(X, Y, H, weights, lambda U: (regress @ U).T)


def start_admm(problem: Problem, Omega: Array, Q: Array, W: Array, Y1: Array) -> AdmmState:
    """No codes, no multipliers for the labels, and step lengths from the first Q and W for good."""
    xp = array_namespace(Q)
    U = xp.zeros((problem.X.shape[0], Q.shape[1]), dtype=Q.dtype, device=device_of(Q))
    of_Q, of_W, of_WQ = (RELAXED * _top(A @ A.T) for A in (Q, W, W @ Q))
    mu = MU / max(_top(Y1.T @ Y1), tiny(Q)) ** 0.5
    eta = (of_Q + of_WQ, of_Q + of_W, of_Q)
    return AdmmState(Omega, U, Q, W, Multipliers(Y1, xp.zeros_like(problem.Y), mu, eta), ())


def admm_step(problem: Problem, state: AdmmState) -> AdmmState:
    """One pass as released: codes, structure map, classifier, atoms, multipliers."""
    X, Y, H, w, fit_atoms = problem
    Omega, U, Q, W, (Y1, Y2, mu, eta), trace = state
    want_H, want_Y = w.gamma1 * Y1 / mu + H, w.gamma2 * Y2 / mu + Y

    structure = U @ Q.T
    gradient = (U - X @ Omega.T) / mu - (want_H - structure) @ Q - (want_Y - structure @ W.T) @ (W @ Q)
    U = soft_threshold(U - gradient / eta[0], w.lam1 / (mu * eta[0]))
    structure = U @ Q.T
    error = (want_H - structure) + (want_Y - structure @ W.T) @ W
    Q = Q + (error.T @ U - w.delta1 * Q) / eta[1]
    structure = U @ Q.T
    W = W + ((want_Y - structure @ W.T).T @ structure - w.delta2 * W) / eta[2]
    off_H, off_Y = H - structure, Y - structure @ W.T
    multipliers = Multipliers(Y1 + mu * off_H, Y2 + mu * off_Y, mu, eta)
    residual = (squared_norm(off_H) ** 0.5 + squared_norm(off_Y) ** 0.5) / squared_norm(Y) ** 0.5
    return AdmmState(fit_atoms(U), U, Q, W, multipliers, (*trace, float(residual)))


def _top(G: Array) -> float:
    """The largest eigenvalue of a symmetric G ≥ 0, with room for its rounding."""
    xp = array_namespace(G)
    return max(float(xp.max(xp.linalg.eigvalsh(as_float64(G)))), 0.0) * (1 + SMOOTHNESS_SLACK)
