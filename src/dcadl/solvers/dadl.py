"""DADL: half-quadratic passes on correntropy terms that tie codes to target codes and to neighbours.

J(Ω, X) = Σ_i ρ(x_i − Ωy_i) + λ1 Σ_i ρ(x_i − h_i) + ½λ2 Σ_ij W_ij ρ(Ωy_i − Ωy_j) + (λ3/σ²)‖Ω‖²,
ρ(e) = 1 − exp(−‖e‖²/σ²),  ‖x_i‖₀ ≤ T0   (Eq. 13-20, columns there are rows here)

The slopes p, q, R of the three correntropy terms, held fixed, leave a weighted least-squares problem
that lies above J and touches it. A pass takes the slopes and then lowers that problem, and so J.

| paper | here           | shape  |                                         |
|-------|----------------|--------|-----------------------------------------|
| Y     | `Y`            | (n, d) | samples of unit length                  |
| X     | `X`            | (n, r) | codes                                   |
| H     | `H`            | (n, r) | target codes of unit length             |
| Ω     | `Omega`        | (r, d) | atoms, one per row                      |
| W     | `W`            | (n, n) | topology weights                        |
| p, q  | `p`, `q`       | (n, 1) | slopes of the first and second term     |
| R     | `R`            | (n, n) | slopes of the third term                |
| T0    | `sparsity`     |        | entries of a code that are not zero     |
"""

from __future__ import annotations

from typing import NamedTuple

from dcadl.arrays import Array, array_namespace, as_float64, device_of
from dcadl.ops.codes import squared_norm
from dcadl.ops.graph import laplacian, squared_distances, topology_weights
from dcadl.ops.ridge import add_to_diagonal
from dcadl.ops.threshold import hard_threshold


class Weights(NamedTuple):
    """λ1, λ2, λ3 and the width σ of the correntropy."""

    lam1: float
    lam2: float
    lam3: float
    sigma: float


class Options(NamedTuple):
    """Integers that shape the problem."""

    sparsity: int  # T0
    n_neighbors: int  # k
    inner: int  # (Ω, X) rounds in a pass


class Problem(NamedTuple):
    """What stays fixed while we iterate."""

    Y: Array
    H: Array
    W: Array
    weights: Weights
    sparsity: int
    inner: int  # (Ω, X) rounds in a pass, between two looks at the slopes


class State(NamedTuple):
    """What moves, and J after each pass so far."""

    Omega: Array
    X: Array
    p: Array
    q: Array
    R: Array
    trace: tuple[float, ...]


def pose(Y: Array, H: Array, label: Array, weights: Weights, options: Options) -> Problem:
    """The problem, with the topology weights taken once. `label` holds class numbers."""
    sparsity, n_neighbors, inner = options
    W = topology_weights(squared_distances(Y), label, n_neighbors, weights.sigma)
    return Problem(Y, H, W, weights, sparsity, inner)


def start(problem: Problem) -> State:
    """Codes at their targets, all slopes one."""
    Y, X = problem.Y, problem.H
    xp = array_namespace(Y)
    ones = xp.ones((Y.shape[0], 1), dtype=Y.dtype, device=device_of(Y))
    nothing = xp.zeros((X.shape[1], Y.shape[1]), dtype=Y.dtype, device=device_of(Y))
    return State(nothing, X, ones, ones, xp.ones_like(problem.W), ())


def step(problem: Problem, state: State) -> State:
    """One pass: atoms and codes in turn under fixed slopes, then the slopes anew."""
    Y, H, _, weights, sparsity, inner = problem
    X, p, q = state.X, state.p, state.q
    xp = array_namespace(Y)
    smooth = xp.astype(_smoother(problem, p, state.R), Y.dtype)  # (d, n): Ωᵀ = smooth·X
    response = Y @ smooth  # (n, n): YΩᵀ = response·X
    aim = weights.lam1 * q
    for _ in range(inner):
        fitted_to = X
        X = hard_threshold((p * (response @ X) + aim * H) / (p + aim), sparsity)
    return _with_slopes(problem, state, (smooth @ fitted_to).T, X)


def _smoother(problem: Problem, p: Array, R: Array) -> Array:
    """(YᵀMY + λ3I)⁻¹YᵀP with M = P + λ2L: what maps codes to the atoms that fit them best.

    Solved in float64, d × d where samples are many, else n × n by (YᵀMY + λ3I)⁻¹Yᵀ = Yᵀ(MYYᵀ + λ3I)⁻¹.
    """
    xp = array_namespace(problem.Y)
    Y, p = as_float64(problem.Y), as_float64(p)
    _, lam2, lam3, _ = problem.weights
    n, d = Y.shape
    P = p * xp.eye(n, dtype=Y.dtype, device=device_of(Y))
    M = P + lam2 * laplacian(as_float64(problem.W * R))
    if d <= n:
        return xp.linalg.solve(add_to_diagonal(Y.T @ M @ Y, lam3), Y.T * p.T)
    return Y.T @ xp.linalg.solve(add_to_diagonal(M @ (Y @ Y.T), lam3), P)


def _with_slopes(problem: Problem, state: State, Omega: Array, X: Array) -> State:
    """The state with J, and the slopes of its terms, at Ω and X."""
    xp = array_namespace(X)
    lam1, lam2, lam3, sigma = problem.weights
    A = problem.Y @ Omega.T
    fit = _correntropy(_squared_rows(X - A), sigma)
    aim = _correntropy(_squared_rows(X - problem.H), sigma)
    spread = _correntropy(squared_distances(A), sigma)
    J = (
        float(xp.sum(as_float64(fit)))
        + lam1 * float(xp.sum(as_float64(aim)))
        + 0.5 * lam2 * float(xp.sum(as_float64(problem.W * spread)))
        + lam3 / sigma**2 * float(squared_norm(Omega))
    )
    return State(Omega, X, _slope(fit), _slope(aim), _slope(spread), (*state.trace, J))


def _correntropy(squared: Array, sigma: float) -> Array:
    """ρ = 1 − exp(−e²/σ²), exact for small e too."""
    return -array_namespace(squared).expm1(-squared / sigma**2)


def _slope(rho: Array) -> Array:
    """exp(−e²/σ²), kept above zero: a sample far off weighs next to nothing, but divides."""
    xp = array_namespace(rho)
    return xp.clip(1 - rho, min=float(xp.finfo(rho.dtype).eps))


def _squared_rows(error: Array) -> Array:
    """‖e_i‖² of each row, (n, 1)."""
    return array_namespace(error).vecdot(error, error)[:, None]
