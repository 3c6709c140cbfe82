"""LC-KSVD: K-SVD on samples with their labels attached.

LC-KSVD2 minimises ‖Y − DX‖² + α‖Q − AX‖² + β‖H − WX‖² with at most T atoms in a code; LC-KSVD1 has no
third term. Q says which atoms belong to a sample's class: Q = EH with E (K, C) the classes of the atoms.
The start A = EW stays so for ever: every new atom is a combination of residuals, whose label parts all have
this form. So A and W are one thing, and α‖Q − AX‖² + β‖H − WX‖² = Σ_c (αK_c + β)‖h_c − w_cX‖², K_c atoms
having class c: C extra rows stand for the K + C of the paper, with the same result [1].

K-SVD does not notice either when samples and atoms are turned together: samples of more values than there
are samples are first written in an orthonormal basis of their span.

| paper | here    | shape    |                                                          |
|-------|---------|----------|----------------------------------------------------------|
| Y     | `Y`     | (n, p)   | samples as rows; with weighted labels (n, p + C)         |
| D     | `D`     | (K, p)   | atoms as rows; with the weighted classifier (K, p + C)   |
| X     | `X`     | (n, K)   | codes as rows                                            |
| H     | `H`     | (n, C)   | one-hot labels                                           |
| W     | `W`     | (C, K)   | classifier                                               |
| T     | `sparsity` |       | most atoms in a code                                     |

[1] I. Kviatkovsky, M. Gabel, E. Rivlin, I. Shimshoni, "On the equivalence of the LC-KSVD and the D-KSVD
algorithms", IEEE TPAMI 39(2), 2017.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dcadl.arrays import Array, array_namespace, batch_rows
from dcadl.ops.closed_form import ridge
from dcadl.ops.codes import squared_norm
from dcadl.ops.ksvd import refit_atoms, replace_atoms
from dcadl.ops.omp import batch_omp, dense_codes
from dcadl.ops.patches import row_norms, unit_rows
from dcadl.solvers.walk import SerialWalk, Walk, walker

SAMPLES_PER_VISIT = 128  # that one thread codes at a time
CLASSIFIER_RIDGE = 1.0  # of the first classifier, and of LC-KSVD1's last


class Problem(NamedTuple):
    """What stays fixed while we iterate."""

    Y: Array
    sparsity: int
    walk: Walk  # over slices of the samples


class State(NamedTuple):
    """What moves, and the objective after each pass so far."""

    D: Array
    X: Array | None
    trace: tuple[float, ...]


def pose(Y: Array, sparsity: int, walk: Walk) -> Problem:
    """K-SVD on the rows of Y."""
    return Problem(Y, sparsity, walk)


def start(problem: Problem, D: Array) -> State:
    """The given atoms, scaled to unit length."""
    return State(unit_rows(D), None, ())


def step(problem: Problem, state: State) -> State:
    """One pass of K-SVD: codes, atoms, replacement. The codes kept are those before the replacement."""
    Y, D = problem.Y, state.D
    X = sparse_codes(Y, D, problem.sparsity, problem.walk)
    R, X, D = refit_atoms(Y - X @ D, X, D)
    errors = array_namespace(R).vecdot(R, R)
    trace = (*state.trace, float(squared_norm(R)))
    return State(replace_atoms(D, Y, X, errors), X, trace)


def objective(problem: Problem, state: State) -> tuple[float, ...]:
    """‖Y − XD‖² after each pass; nothing guarantees that it falls."""
    return state.trace


def ksvd(problem: Problem, D: Array, passes: int) -> State:
    """Atoms and codes after some passes of K-SVD."""
    state = start(problem, D)
    for _ in range(passes):
        state = step(problem, state)
    return state


def sample_slices(Y: Array) -> list[slice]:
    """Runs of samples that are coded together; one run on a device, which needs no threads."""
    n, size = int(Y.shape[0]), batch_rows(Y, SAMPLES_PER_VISIT)
    return [slice(i, min(i + size, n)) for i in range(0, n, size)]


def sparse_codes(Y: Array, D: Array, sparsity: int, walk: Walk) -> Array:
    """Codes (n, K) of the rows of Y over the rows of D."""
    xp = array_namespace(Y)
    G = D @ D.T

    def visit(part: slice) -> tuple[Array, tuple[()]]:
        rows = Y[part, :]
        codes = batch_omp(G, rows @ D.T, xp.vecdot(rows, rows), sparsity)
        return dense_codes(codes, D.shape[0]), ()

    parts, _ = walk(visit, sample_slices(Y))
    return xp.concat(list(parts), axis=0)


def in_span(Y: Array) -> tuple[Array, Array | None]:
    """Coordinates of the rows of Y in an orthonormal basis of their span, and the basis; or Y itself."""
    if Y.shape[0] >= Y.shape[1]:
        return Y, None
    Q, R = array_namespace(Y).linalg.qr(Y.T)
    return R.T, Q.T


def first_atoms(parts: Sequence[tuple[Array, int]], sparsity: int, passes: int, walk: Walk) -> Array:
    """K-SVD on each class alone, from its first samples; `parts` are samples and number of atoms."""

    def visit(part: tuple[Array, int]) -> tuple[Array, tuple[()]]:
        Y, k = part
        coordinates, basis = in_span(Y)
        D = ksvd(pose(coordinates, sparsity, SerialWalk()), coordinates[:k, :], passes).D
        return D if basis is None else D @ basis, ()

    atoms, _ = walk(visit, parts)
    return array_namespace(parts[0][0]).concat(list(atoms), axis=0)


def attach_labels(plain: Problem, H: Array, D: Array, weight: Array, passes: int) -> tuple[Problem, State]:
    """The problem with labels, each weighted by its class's `weight` (C,), from the one without.

    The first classifier is a ridge regression on codes from K-SVD on all samples, whose atoms are dropped.
    """
    xp = array_namespace(D)
    X = ksvd(plain, D, passes).X
    W = fitted_classifier(X, H).T
    problem = plain._replace(Y=xp.concat([plain.Y, H * weight], axis=1))
    return problem, start(problem, xp.concat([D, W * weight], axis=1))


def detach_labels(D: Array, weight: Array) -> tuple[Array, Array]:
    """Atoms of unit length and the classifier W (C, K), from atoms with weighted labels."""
    p = D.shape[1] - weight.shape[0]
    atoms, W = D[:, :p], D[:, p:] / weight
    lengths = row_norms(atoms)
    xp = array_namespace(D)
    lengths = xp.where(lengths > 0, lengths, xp.ones_like(lengths))
    return atoms / lengths, (W / lengths).T


def fitted_classifier(X: Array, H: Array) -> Array:
    """LC-KSVD1's classifier (C, K): a ridge regression on the codes."""
    return ridge(X, H, CLASSIFIER_RIDGE).T


def codes(Y: Array, D: Array, sparsity: int) -> Array:
    """Sparse codes (n, K) of new samples, the rows of Y."""
    with walker(Y, sample_slices(Y)) as walk:
        return sparse_codes(Y, D, sparsity, walk)
