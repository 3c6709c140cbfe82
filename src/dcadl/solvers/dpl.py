"""DPL: for each class a dictionary that rebuilds its samples and a projection that gives their codes.

Minimises Σ_k ‖X_k − D_kA_k‖² + τ‖P_kX_k − A_k‖² + λ‖P_kX̄_k‖² + γ‖P_k‖² with every atom in the unit ball.

Turning the samples of a class among themselves changes nothing here, and the best atoms lie in their span.
So a class enters as r = min(n_k, d) turned samples Z_k in an orthonormal basis V_k of r directions, and a
pass costs nothing that grows with d. Arrays of all classes are stacked, padded with zeros to the largest r.
P_k = τA_kX_kᵀM_k⁻¹ with M_k = τX_kX_kᵀ + λX̄_kX̄_kᵀ + γI. All M_k are M = λXXᵀ + γI but for a term
of rank r, so that one factorisation and Woodbury's identity replace an inverse for each class.

| paper   | here             | shape                                                                      |
|---------|------------------|----------------------------------------------------------------------------|
| X_k     | `Z[k] @ V[k]`    | (r, d) samples as rows, turned; Z (C, r, r), V a list of (r_k, d)          |
| D_k     | `D[k] @ V[k]`    | (m, d) atoms as rows; D (C, m, r)                                          |
| A_k     | `A[k]`           | (m, r) codes of the turned samples, one column each                        |
| P_k     | `P[k] @ N[k]`    | (m, d) analysis atoms as rows; N_k = X_kᵀM_k⁻¹ (r_k, d), P (C, m, r)       |
| P_kX_k  | `P @ S`          | (m, r); S = N_kX_k (C, r, r)                                               |
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from dcadl.arrays import Array, array_namespace, as_float64, device_of, zeros
from dcadl.ops.codes import clip_rows, squared_norm
from dcadl.ops.ridge import add_to_diagonal

SWEEPS = 5  # over the atoms in a pass; each lowers the objective, and the next pass goes on where it ends


class Problem(NamedTuple):
    """What stays fixed while we iterate."""

    Z: Array
    V: list[Array]
    N: list[Array]
    S: Array
    tau: float


class State(NamedTuple):
    """What moves, and the objective after each block so far."""

    D: Array
    P: Array
    A: Array
    trace: tuple[float, ...]


def pose(parts: Sequence[Array], tau: float, lam: float, gamma: float) -> Problem:
    """The problem for one array of samples (n_k, d) per class; everything in float64."""
    turned = [_turned(as_float64(X)) for X in parts]
    Z, V = [z for z, _ in turned], [v for _, v in turned]
    X = [z @ v for z, v in turned]
    N = [_woodbury(x, xM, tau - lam) for x, xM in zip(X, _divided(X, lam, gamma))]
    r = max(z.shape[0] for z in Z)
    return Problem(_stacked(Z, r), V, N, _stacked([n @ x.T for n, x in zip(N, X)], r), tau)


def start(problem: Problem, D: Array, P: Array) -> State:
    """Codes that are best for the given D and P, both (C, m, d)."""
    xp = array_namespace(problem.Z)
    D, P = as_float64(D), as_float64(P)
    gram = _damped(D @ xp.matrix_transpose(D), problem.tau)
    r = problem.Z.shape[1]
    in_span = xp.stack([_widened(D[k, :, :] @ v.T, r) for k, v in enumerate(problem.V)])
    pulled = (
        problem.tau * xp.stack([_widened(P[k, :, :] @ v.T, r) for k, v in enumerate(problem.V)]) + in_span
    )
    A = xp.linalg.solve(gram, pulled @ xp.matrix_transpose(problem.Z))
    return State(in_span, zeros(A.shape, A), A, ())


def step(problem: Problem, state: State) -> State:
    """One pass: projections, dictionaries, codes, each no worse than before given the other two."""
    xp = array_namespace(state.A)
    Z, tau = problem.Z, problem.tau
    P = tau * state.A
    PX = P @ problem.S
    # λ‖PX̄‖² + γ‖P‖², from the normal equations that P has just solved
    others = float(xp.sum(PX * (state.A - PX))) * tau
    trace = (*state.trace, _value(problem, state.D, PX, state.A) + others)
    D = _ball_atoms(state.A @ xp.matrix_transpose(state.A), state.A @ Z, state.D)
    trace = (*trace, _value(problem, D, PX, state.A) + others)
    gram = _damped(D @ xp.matrix_transpose(D), tau)
    A = xp.linalg.solve(gram, tau * PX + D @ xp.matrix_transpose(Z))
    return State(D, P, A, (*trace, _value(problem, D, PX, A) + others))


def objective(problem: Problem, state: State) -> tuple[float, ...]:
    """The objective after each block of each pass: projections, dictionaries, codes, projections, …"""
    return state.trace


def pairs(problem: Problem, state: State) -> tuple[Array, Array]:
    """D and P, both (C, m, d), one row per atom."""
    xp = array_namespace(state.D)
    D = xp.stack([state.D[k, :, : v.shape[0]] @ v for k, v in enumerate(problem.V)])
    P = xp.stack([state.P[k, :, : n.shape[0]] @ n for k, n in enumerate(problem.N)])
    return clip_rows(D), P  # a basis is orthonormal but for rounding


def scores(X: Array, D: Array, P: Array) -> Array:
    """−‖y − D_kP_ky‖² for each row y of X and class k, (n, C).

    Written out it is (P_ky)·(2D_kᵀy − D_kᵀD_kP_ky) − ‖y‖²: two products with all classes' rows at once,
    and no residual of length d for every sample and class.
    """
    xp = array_namespace(X)
    C, m, d = D.shape
    E = 2 * D - (D @ xp.matrix_transpose(D)) @ P
    codes = X @ xp.reshape(P, (C * m, d)).T
    pulls = X @ xp.reshape(E, (C * m, d)).T
    explained = xp.sum(xp.reshape(codes * pulls, (X.shape[0], C, m)), axis=2)
    return explained - xp.vecdot(X, X)[:, None]


def _turned(X: Array) -> tuple[Array, Array]:
    """Z (r, r) and V (r, d), orthonormal rows, with (ZV)ᵀ(ZV) = XᵀX."""
    xp = array_namespace(X)
    n, d = X.shape
    if n > d:
        return xp.linalg.qr(X)[1], xp.eye(d, dtype=X.dtype, device=device_of(X))
    Q, R = xp.linalg.qr(X.T)
    return R.T, Q.T


def _divided(X: Sequence[Array], lam: float, gamma: float) -> list[Array]:
    """X_k(λXᵀX + γI)⁻¹ for every class, by the smaller of the two Gram matrices of all samples."""
    xp = array_namespace(X[0])
    rows = xp.concat(list(X), axis=0)
    # Not `spd_solver`: between so many small products, a second BLAS costs more in waiting than it saves.
    if rows.shape[0] <= rows.shape[1]:
        divided = xp.linalg.solve(add_to_diagonal(lam * (rows @ rows.T), gamma), rows)
    else:
        divided = xp.linalg.solve(add_to_diagonal(lam * (rows.T @ rows), gamma), rows.T).T
    ends = [0]
    for x in X:
        ends.append(ends[-1] + x.shape[0])
    return [divided[a:b, :] for a, b in pairwise(ends)]


def _woodbury(X: Array, XM: Array, weight: float) -> Array:
    """X(M + weight·XᵀX)⁻¹ from XM = XM⁻¹: (I + weight·XM⁻¹Xᵀ)⁻¹XM⁻¹."""
    return array_namespace(X).linalg.solve(add_to_diagonal(weight * (XM @ X.T), 1.0), XM)


def _ball_atoms(G: Array, B: Array, D: Array) -> Array:
    """Lower ½tr(DᵀGD) − tr(DᵀB), rows of D in the unit ball, one row exactly after the other."""
    xp = array_namespace(D)
    rows = [D[:, j, :] for j in range(D.shape[1])]
    descent = B - G @ D
    for _ in range(SWEEPS):
        for j, old in enumerate(rows):
            weight = G[:, j, j][:, None]
            free = old + descent[:, j, :] / xp.where(weight > 0, weight, xp.ones_like(weight))
            rows[j] = clip_rows(free)
            descent = descent - G[:, :, j][:, :, None] * (rows[j] - old)[:, None, :]
    return xp.stack(rows, axis=1)


def _value(problem: Problem, D: Array, PX: Array, A: Array) -> float:
    """‖X − DA‖² + τ‖PX − A‖² over all classes."""
    misfit = problem.Z - array_namespace(A).matrix_transpose(A) @ D
    return float(squared_norm(misfit)) + problem.tau * float(squared_norm(PX - A))


def _damped(G: Array, value: float) -> Array:
    """G_k + value·I for a stack of square matrices."""
    xp = array_namespace(G)
    return G + value * xp.eye(G.shape[-1], dtype=G.dtype, device=device_of(G))


def _stacked(squares: Sequence[Array], r: int) -> Array:
    """Square matrices, each padded with zeros to (r, r), in one array."""
    xp = array_namespace(squares[0])
    return xp.stack([_widened(_widened(s, r).T, r).T for s in squares])


def _widened(x: Array, r: int) -> Array:
    """x with columns of zeros added until there are r."""
    return array_namespace(x).concat([x, zeros((x.shape[0], r - x.shape[1]), x)], axis=1)
