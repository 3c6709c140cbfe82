"""LOO-ADL: atoms learned by the exact leave-one-out error of the ridge classifier behind them.

Windows Q of an image, their lengths taken out, become responses R = ΦQ, split codes max(R − t, 0) and
max(−R − t, 0), averages over the cells of a pyramid (`ops.maps`, `ops.pool`), and standardised features
(`ops.standardise`). We lower

    L(Ω, t) = Σ_i s_i‖e_i‖²/Σs   with ‖ω_j‖ = 1, t_j > 0,

e_i the residual of image i when it is left out of the ridge regression (`ops.leave_one_out`). A pass is one
step of L-BFGS on the spheres and on log t, made shorter until L falls: it never rises.

| here    | shape            |                                                        |
|---------|------------------|--------------------------------------------------------|
| `Q`     | (rows, d, b, columns) | windows of a chunk of b images, places by row and column |
| `R`     | (rows, m, b, columns) | responses                                              |
| `F`     | (n, 2·m·cells)   | features, ordered by sign, atom, cell                  |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dcadl.arrays import (
    LARGE_SYSTEM,
    Array,
    array_namespace,
    as_float64,
    batch_rows,
    blas_threads_for,
    device_of,
    fetch,
)
from dcadl.ops.codes import by_image
from dcadl.ops.leave_one_out import Rows, in_turn, loss_and_gradient, weighed
from dcadl.ops.maps import (
    WindowTransform,
    by_row,
    respond,
    responses_by_row,
    scaled_windows,
    split_averages,
    split_averages_back,
    strips,
    window_scales,
)
from dcadl.ops.patches import Grid
from dcadl.ops.pool import Pyramid
from dcadl.ops.standardise import Groups, standardise_back, standardised
from dcadl.solvers.walk import Walk, chunk_slices, even_slices

MEMORY = 12  # pairs that L-BFGS keeps
FIRST_MOVE = 0.2  # length of the first step of an atom, in units of its own
MOST_HALVINGS = 8
MAP_BYTES = 12_000_000  # of windows and maps of a chunk: with smaller ones threads wait for the interpreter's
BAND_BYTES = 20_000_000  # lock, with larger ones for memory; of strips and sums over a band, of a chunk
BLOCK_ROWS = 320  # images whose features a thread works on: few enough to share, enough for products
LOG_T = (-15.0, 5.0)  # what log t stays within
ENOUGH = 1e-4  # share of the decrease that the gradient promises


class Model(NamedTuple):
    """How images become features, but for the atoms."""

    transform: WindowTransform
    pyramid: Pyramid


class Atoms(NamedTuple):
    """Atoms of unit length and their thresholds."""

    Omega: np.ndarray  # (m, d)
    t: np.ndarray  # (m,)


class Problem(NamedTuple):
    """What stays fixed while we iterate."""

    windows: Sequence[Array]  # Q of each chunk of images, (rows, d, b, columns)
    walk: Walk
    model: Model
    Y: Array  # (n, C) labels less their weighted mean, rows times the root of their weight
    root: Array  # (n,) roots of the weights
    lam: float


class State(NamedTuple):
    """What moves: the variables in one vector, their gradient, and the last changes of both."""

    x: np.ndarray  # Ω by rows, then log t
    gradient: np.ndarray
    pairs: tuple[tuple[np.ndarray, np.ndarray], ...]
    trace: tuple[float, ...]  # L at the start and after each pass


def pose(images: Sequence[Array], walk: Walk, model: Model, Y: Array, root: Array, lam: float) -> Problem:
    """The problem, with windows cut and their lengths taken out once."""
    found, _ = walk(lambda X: (scaled_windows(X, model.transform), ()), images)
    return Problem(found, walk, model, Y, root, lam)


def start(problem: Problem, atoms: Atoms) -> State:
    """The first look at L and its gradient."""
    x = np.concatenate([atoms.Omega.ravel(), np.log(atoms.t)]).astype(np.float64)
    value, gradient = _loss_and_gradient(problem, x)
    return State(x, gradient, (), (value,))


def step(problem: Problem, state: State) -> State:
    """One L-BFGS step; where it fails, one along the gradient; where that fails too, none."""
    value = state.trace[-1]
    for pairs in (state.pairs, ()) if state.pairs else ((),):
        direction = _direction(problem, state, pairs)
        promised = float(state.gradient @ direction)
        length = 1.0
        for _ in range(MOST_HALVINGS):
            x = _on_spheres(problem, state.x + length * direction)
            new_value, gradient = _loss_and_gradient(problem, x)
            if new_value <= value + ENOUGH * length * promised:
                change = (x - state.x, gradient - state.gradient)
                kept = (*pairs, change)[-MEMORY:] if change[0] @ change[1] > 0 else pairs
                return State(x, gradient, kept, (*state.trace, new_value))
            length /= 2
    return state._replace(pairs=(), trace=(*state.trace, value))


def features_at(problem: Problem, atoms: Atoms) -> Array:
    """Features of all images under these atoms, (n, D)."""
    _, _, parts = _forward(problem, atoms)
    return array_namespace(parts[0]).concat(parts, axis=0)


def objective(state: State) -> tuple[float, ...]:
    """L at the start and after each pass."""
    return state.trace


def atoms_of(problem: Problem, state: State) -> Atoms:
    """Ω and t."""
    return _atoms_at(problem, state.x)


# --- features --------------------------------------------------------------------------------------------


def map_slices(X: Array, grid: Grid, m: int) -> list[slice]:
    """Runs of images whose windows and maps lie in the cache."""
    return chunk_slices(X, grid, MAP_BYTES * grid.d // (grid.d + m), smallest=1)


def feature_slices(X: Array, model: Model, m: int) -> list[slice]:
    """The same where only strips, and what is made of the maps of a band, are there at once."""
    grid, pyramid = model.transform.grid, model.pyramid
    tallest = max(rows.stop - rows.start for rows in pyramid.row_slices())
    values = (grid.image[0] * grid.d // grid.patch[0] + 2 * m * tallest) * grid.counts[1]
    return chunk_slices(X, grid, BAND_BYTES * grid.p * grid.d // values, smallest=1)


def features(X: Array, model: Model, filters: Array, t: Array) -> Array:
    """Features of a chunk of images, one row each, under the filter bank Φ."""
    transform, pyramid = model
    S = strips(X, transform.grid)
    scale = window_scales(X, S, transform)
    scale = None if scale is None else scale[:, None, :, :]
    rows = responses_by_row(filters, S, scale, transform.grid)
    return by_image(split_averages(rows, t, pyramid))


def groups_of(pyramid: Pyramid, m: int) -> Groups:
    """Features of a level are alike, and count by the level's side."""
    level = np.repeat(np.arange(len(pyramid.levels)), [np.prod(pyramid.sides(g)) for g in pyramid.levels])
    return Groups(np.tile(level, 2 * m), np.asarray(pyramid.levels, float))


# --- the objective ---------------------------------------------------------------------------------------


def _loss_and_gradient(problem: Problem, x: np.ndarray) -> tuple[float, np.ndarray]:
    """L, and its gradient along the spheres and log t."""
    atoms, whitener = _atoms_at(problem, x), problem.model.transform.whitener
    t, responses, parts = _forward(problem, atoms)
    value, dF = _loss_of_features(problem, array_namespace(t).concat(parts, axis=0))
    dPhi, dt = _backward(problem, responses, dF, t)
    dOmega = fetch(dPhi) @ fetch(whitener).T.astype(np.float64)
    dOmega = dOmega - (dOmega * atoms.Omega).sum(axis=1, keepdims=True) * atoms.Omega
    return value, np.concatenate([dOmega.ravel(), fetch(dt) * atoms.t])


def _forward(problem: Problem, atoms: Atoms) -> tuple[Array, Sequence[Array], list[Array]]:
    """t where images live; R and features of each chunk."""
    like, pyramid = problem.windows[0], problem.model.pyramid
    Phi, t = as_like(atoms.Omega, like) @ problem.model.transform.whitener, as_like(atoms.t, like)

    def visit(Q: Array) -> tuple[Array, tuple[list[Array]]]:
        R = respond(Phi, Q)
        return R, ([by_image(split_averages(by_row(R), t, pyramid))],)

    responses, (parts,) = problem.walk(visit, problem.windows)
    return t, responses, parts


def _backward(problem: Problem, responses: Sequence[Array], dF: Array, t: Array) -> tuple[Array, Array]:
    """dL/dΦ and dL/dt, in float64."""
    xp = array_namespace(dF)
    ends = np.cumsum([0, *(Q.shape[2] for Q in problem.windows)]).tolist()

    def visit(Q: Array, R: Array, a: int, b: int) -> tuple[None, tuple[Array, Array]]:
        D = xp.reshape(dF[a:b, :], (b - a, 2, R.shape[1], -1))
        dR, dt = split_averages_back(D, R, t, problem.model.pyramid)
        return None, (xp.sum(as_float64(_outer(_flat(dR), _flat(Q))), axis=0), dt)

    _, (dPhi, dt) = problem.walk(visit, problem.windows, responses, ends[:-1], ends[1:])
    return dPhi, dt


def _outer(A: Array, B: Array) -> Array:
    """ABᵀ, (rows, m, d): by way of its transpose where that has more rows, which BLAS is faster at."""
    transpose = array_namespace(A).matrix_transpose
    return A @ transpose(B) if A.shape[1] >= B.shape[1] else transpose(B @ transpose(A))


def _flat(maps: Array) -> Array:
    """(rows, m, b, columns) → (rows, m, b·columns)."""
    return array_namespace(maps).reshape(maps, (*maps.shape[:2], -1))


def _loss_of_features(problem: Problem, F: Array) -> tuple[float, Array]:
    """L of raw features, and dL/dF."""
    xp = array_namespace(F)
    root = problem.root
    total = float(xp.sum(as_float64(root) ** 2))
    share = root * root / total
    m = F.shape[1] // (2 * problem.model.pyramid.n_cells)
    A, standard = standardised(F, share, groups_of(problem.model.pyramid, m))
    rows = Rows(weighed(A, root), problem.Y, root / total**0.5, total)
    slices = even_slices(F.shape[0], batch_rows(F, BLOCK_ROWS))
    shared_by_blas = LARGE_SYSTEM <= F.shape[0] <= F.shape[1]  # its threads and ours would be too many
    walk = in_turn if shared_by_blas else problem.walk
    with blas_threads_for(min(F.shape)):
        value, gradient = loss_and_gradient(rows, problem.lam, slices, walk)
    return value, standardise_back(A, weighed(gradient, root), share, standard)


# --- the step --------------------------------------------------------------------------------------------


def _direction(
    problem: Problem, state: State, pairs: tuple[tuple[np.ndarray, np.ndarray], ...]
) -> np.ndarray:
    """−H·gradient by the two-loop recursion; without pairs, along the gradient by a fixed length an atom."""
    q = state.gradient.copy()
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


def _atoms_at(problem: Problem, x: np.ndarray) -> Atoms:
    Omega, log_t = _unpacked(problem, x)
    return Atoms(Omega, np.exp(log_t))


def _unpacked(problem: Problem, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    d = problem.model.transform.grid.d
    m = len(x) // (d + 1)
    return x[: m * d].reshape(m, d), x[m * d :]


def _on_spheres(problem: Problem, x: np.ndarray) -> np.ndarray:
    """Atoms of length one, but for those of no length; thresholds that responses could reach."""
    Omega, log_t = _unpacked(problem, x)
    lengths = np.linalg.norm(Omega, axis=1, keepdims=True)
    return np.concatenate([(Omega / np.where(lengths > 0, lengths, 1.0)).ravel(), np.clip(log_t, *LOG_T)])


def as_like(x: np.ndarray, like: Array) -> Array:
    """`x` in the library, dtype and device of `like`."""
    return array_namespace(like).asarray(x, dtype=like.dtype, device=device_of(like))
