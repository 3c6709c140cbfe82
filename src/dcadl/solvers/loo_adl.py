"""LOO-ADL: atoms learned by the exact leave-one-out error of the ridge classifier behind them.

Windows of an image become responses R = scale·ΦP (`ops.maps`), split codes max(R − t, 0) and max(−R − t, 0),
averages over the cells of a pyramid (`ops.pool`), and standardised features (`ops.standardise`). We lower

    L(Ω, t) = Σ_i s_i‖e_i‖²/Σs   with ‖ω_j‖ = 1, t_j > 0,

e_i the residual of image i when it is left out of the ridge regression (`ops.leave_one_out`). A pass is one
step of L-BFGS on the spheres and on log t, made shorter until L falls: it never rises.

| here    | shape            |                                                        |
|---------|------------------|--------------------------------------------------------|
| `P`     | (b, d, p)        | windows of a chunk of images                           |
| `scale` | (b, p)           | one over their lengths                                 |
| `R`     | (b, m, p)        | responses                                              |
| `F`     | (n, 2·m·cells)   | features, ordered by sign, atom, cell                  |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dcadl.arrays import Array, array_namespace, as_float64, device_of, fetch
from dcadl.ops.leave_one_out import Rows, loss_and_gradient
from dcadl.ops.maps import Front, positive_part, respond_maps, window_scales, windows
from dcadl.ops.pool import Pyramid, pool, spread, unpool
from dcadl.ops.standardise import Groups, standard_of, standardise, standardise_back
from dcadl.solvers.walk import Walk

MEMORY = 12  # pairs that L-BFGS keeps
FIRST_MOVE = 0.2  # length of the first step of an atom, in units of its own
MOST_HALVINGS = 8
ENOUGH = 1e-4  # share of the decrease that the slope promises


class Model(NamedTuple):
    """How images become features, but for the atoms."""

    front: Front
    pyramid: Pyramid


class Atoms(NamedTuple):
    """Atoms of unit length and their thresholds."""

    Omega: np.ndarray  # (m, d)
    t: np.ndarray  # (m,)


class Chunk(NamedTuple):
    """Some of the images. Windows are cut when they are needed; their lengths do not change."""

    X: Array  # (b, H·W·c)
    scale: Array  # (b, p)


class Problem(NamedTuple):
    """What stays fixed while we iterate."""

    chunks: Sequence[Chunk]
    walk: Walk
    model: Model
    Y: Array  # (n, C) labels less their weighted mean, rows times the root of their weight
    root: Array  # (n,) roots of the weights
    lam: float


class State(NamedTuple):
    """What moves: the variables in one vector, their slope, and the last changes of both."""

    x: np.ndarray  # Ω by rows, then log t
    slope: np.ndarray
    pairs: tuple[tuple[np.ndarray, np.ndarray], ...]
    trace: tuple[float, ...]  # L at the start and after each pass


def pose(images: Sequence[Array], walk: Walk, model: Model, Y: Array, root: Array, lam: float) -> Problem:
    """The problem, with the windows' lengths taken once."""

    def seen(X: Array) -> tuple[Chunk, tuple[()]]:
        return Chunk(X, window_scales(X, windows(X, model.front.grid), model.front)), ()

    chunks, _ = walk(seen, images)
    return Problem(chunks, walk, model, Y, root, lam)


def start(problem: Problem, atoms: Atoms) -> State:
    """The first look at L and its slope."""
    x = np.concatenate([atoms.Omega.ravel(), np.log(atoms.t)]).astype(np.float64)
    value, slope = _loss_and_slope(problem, x)
    return State(x, slope, (), (value,))


def step(problem: Problem, state: State) -> State:
    """One L-BFGS step; where it fails, one along the slope; where that fails too, none."""
    value = state.trace[-1]
    for pairs in (state.pairs, ()) if state.pairs else ((),):
        direction = _direction(problem, state, pairs)
        promised = float(state.slope @ direction)
        length = 1.0
        for _ in range(MOST_HALVINGS):
            x = _on_spheres(problem, state.x + length * direction)
            new_value, slope = _loss_and_slope(problem, x)
            if new_value <= value + ENOUGH * length * promised:
                change = (x - state.x, slope - state.slope)
                kept = (*pairs, change)[-MEMORY:] if change[0] @ change[1] > 0 else pairs
                return State(x, slope, kept, (*state.trace, new_value))
            length /= 2
    return state._replace(pairs=(), trace=(*state.trace, value))


def objective(state: State) -> tuple[float, ...]:
    """L at the start and after each pass."""
    return state.trace


def atoms_of(problem: Problem, state: State) -> Atoms:
    """Ω and t."""
    Omega, log_t = _unpacked(problem, state.x)
    return Atoms(Omega, np.exp(log_t))


# --- features --------------------------------------------------------------------------------------------


def features(X: Array, model: Model, filters: Array, t: Array) -> Array:
    """Pooled split codes of a chunk of images, one row each, under the filter bank Φ."""
    P = windows(X, model.front.grid)
    return pooled(respond_maps(P, window_scales(X, P, model.front), filters), t, model.pyramid)


def groups_of(pyramid: Pyramid, m: int) -> Groups:
    """Features of a level are alike, and count by the level's side."""
    level = np.repeat(np.arange(len(pyramid.levels)), [np.prod(pyramid.sides(g)) for g in pyramid.levels])
    return Groups(np.tile(level, 2 * m), np.asarray(pyramid.levels, float))


def pooled(R: Array, t: Array, pyramid: Pyramid) -> Array:
    """Split codes of responses R, averaged over the pyramid's cells: one row per image."""
    xp = array_namespace(R)
    halves = pool(positive_part(R, t), pyramid), pool(positive_part(-R, t), pyramid)
    return xp.reshape(xp.stack(halves, axis=1), (R.shape[0], -1))


def _responses_back(dF: Array, R: Array, t: Array, pyramid: Pyramid) -> tuple[Array, Array]:
    """dL/dR (b, m, p) and −dL/dt (m,): the pooling's transpose through the masks r > t and −r > t."""
    xp = array_namespace(R)
    dF = xp.reshape(dF, (R.shape[0], 2, R.shape[1], -1))
    t = xp.reshape(t, (-1, 1))
    above = spread(unpool(dF[:, 0, :, :], pyramid), pyramid)
    below = spread(unpool(dF[:, 1, :, :], pyramid), pyramid)
    above *= xp.astype(t < R, R.dtype)
    below *= xp.astype(-t > R, R.dtype)
    raised = xp.sum(as_float64(xp.sum(above, axis=2) + xp.sum(below, axis=2)), axis=0)
    above -= below
    return above, raised


# --- the objective ---------------------------------------------------------------------------------------


def _loss_and_slope(problem: Problem, x: np.ndarray) -> tuple[float, np.ndarray]:
    """L, and its slope along the spheres and log t."""
    like, front = problem.chunks[0].X, problem.model.front
    Omega, log_t = _unpacked(problem, x)
    Phi, t = sent(Omega, like) @ front.whitener, sent(np.exp(log_t), like)
    responses, parts = _forward(problem, Phi, t)
    F = array_namespace(like).concat(parts, axis=0)
    value, dF = _loss_and_gradient(problem, F)
    dPhi, dt = _backward(problem, responses, dF, t)
    dOmega = fetch(dPhi) @ fetch(front.whitener).T.astype(np.float64)
    dOmega = dOmega - (dOmega * Omega).sum(axis=1, keepdims=True) * Omega
    return value, np.concatenate([dOmega.ravel(), fetch(dt) * np.exp(log_t)])


def _forward(problem: Problem, Phi: Array, t: Array) -> tuple[Sequence[Any], list[Array]]:
    def visit(chunk: Chunk) -> tuple[Any, tuple[list[Array]]]:
        R = respond_maps(windows(chunk.X, problem.model.front.grid), chunk.scale, Phi)
        return R, ([pooled(R, t, problem.model.pyramid)],)

    responses, (parts,) = problem.walk(visit, problem.chunks)
    return responses, parts


def _backward(problem: Problem, responses: Sequence[Any], dF: Array, t: Array) -> tuple[Array, Array]:
    """dL/dΦ and dL/dt, in float64."""
    xp = array_namespace(dF)
    ends = np.cumsum([0, *(chunk.X.shape[0] for chunk in problem.chunks)]).tolist()

    def visit(chunk: Chunk, R: Array, a: int, b: int) -> tuple[None, tuple[Array, Array]]:
        P = windows(chunk.X, problem.model.front.grid)
        dR, raised = _responses_back(dF[a:b, :], R, t, problem.model.pyramid)
        dR *= chunk.scale[:, None, :]
        return None, (xp.sum(as_float64(dR @ xp.permute_dims(P, (0, 2, 1))), axis=0), raised)

    _, (dPhi, raised) = problem.walk(visit, problem.chunks, responses, ends[:-1], ends[1:])
    return dPhi, -raised


def _loss_and_gradient(problem: Problem, F: Array) -> tuple[float, Array]:
    """L of raw features, and dL/dF."""
    xp = array_namespace(F)
    root = problem.root
    total = float(xp.sum(as_float64(root) ** 2))
    share = root * root / total
    m = F.shape[1] // (2 * problem.model.pyramid.n_cells)
    standard = standard_of(F, share, groups_of(problem.model.pyramid, m))
    A = standardise(F, standard)
    rows = Rows(A * root[:, None], problem.Y, root / total**0.5, total)
    value, gradient = loss_and_gradient(rows, problem.lam)
    return value, standardise_back(F, A, gradient * root[:, None], share, standard)


# --- the step --------------------------------------------------------------------------------------------


def _direction(
    problem: Problem, state: State, pairs: tuple[tuple[np.ndarray, np.ndarray], ...]
) -> np.ndarray:
    """−H·slope by the two-loop recursion; without pairs, along the slope by a fixed length an atom."""
    q = state.slope.copy()
    if not pairs:
        Omega, _ = _unpacked(problem, q)
        longest = np.linalg.norm(Omega, axis=1).max()
        return -q * (FIRST_MOVE / max(longest, np.finfo(float).tiny))
    shares = []
    for s, y in reversed(pairs):
        shares.append((s @ q) / (s @ y))
        q -= shares[-1] * y
    s, y = pairs[-1]
    q *= (s @ y) / (y @ y)
    for (s, y), share in zip(pairs, reversed(shares)):
        q += (share - (y @ q) / (s @ y)) * s
    return -q


def _unpacked(problem: Problem, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    d = problem.model.front.grid.d
    m = len(x) // (d + 1)
    return x[: m * d].reshape(m, d), x[m * d :]


def _on_spheres(problem: Problem, x: np.ndarray) -> np.ndarray:
    Omega, log_t = _unpacked(problem, x)
    return np.concatenate([(Omega / np.linalg.norm(Omega, axis=1, keepdims=True)).ravel(), log_t])


def sent(x: np.ndarray, like: Array) -> Array:
    """`x` in the library, dtype and device of `like`."""
    return array_namespace(like).asarray(x, dtype=like.dtype, device=device_of(like))
