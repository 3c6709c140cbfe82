"""LOO-ADL's solver: its slope against finite differences, passes that never climb, any chunks."""

import numpy as np
import pytest

from dcadl.arrays import fetch
from dcadl.ops.leave_one_out import Rows, gram, left_out
from dcadl.ops.maps import by_row, respond, split_averages
from dcadl.ops.patches import patch_grid
from dcadl.ops.pool import Pyramid
from dcadl.ops.ridge import loss
from dcadl.ops.standardise import standard_of, standardise
from dcadl.solvers import loo_adl
from dcadl.solvers.loo_adl import Atoms, Model
from dcadl.solvers.structure import first_looks
from dcadl.solvers.walk import SerialWalk
from finite_differences import rise_of

LAM = 0.05
HOWS = pytest.mark.parametrize("how", ["whitened", "whitened-once", "centred", None])
POOLS = pytest.mark.parametrize("levels", [(1,), (2, 4)], ids=["primal", "dual"])


def make(xp, rng, how="whitened", levels=(2, 4), chunks=3, dtype=np.float64):
    """24 small images in chunks, with weights, and first atoms."""
    X = rng.uniform(size=(24, 81)).astype(dtype)
    grid = patch_grid((9, 9), 3, 1)
    [(transform, atoms)] = first_looks(X, grid, [how], 3, np.random.RandomState(0))
    atoms = atoms._replace(t=1.001 * atoms.t)  # not on a response, where L has a kink
    transform = transform._replace(whitener=xp.asarray(transform.whitener))
    Y = np.eye(3)[np.arange(24) % 3].astype(dtype)
    weight = rng.uniform(0.5, 2, size=24)
    root = np.sqrt(weight).astype(dtype)
    Y = (Y - np.average(Y, axis=0, weights=weight)).astype(dtype) * root[:, None]
    images = [xp.asarray(part) for part in np.array_split(X, chunks)]
    model = Model(transform, Pyramid(grid.counts, levels))
    return loo_adl.pose(images, SerialWalk(), model, xp.asarray(Y), xp.asarray(root), LAM), atoms


def error_of(problem, atoms):
    """L from features of all images at once."""
    Q = np.concatenate([fetch(part) for part in problem.windows], axis=2)
    model = problem.model
    R = respond(atoms.Omega @ fetch(model.transform.whitener), Q)
    F = split_averages(by_row(R), atoms.t, model.pyramid).reshape(Q.shape[2], -1)
    root = fetch(problem.root)
    total = root @ root
    share = root * root / total
    A = standardise(F, standard_of(F, share, loo_adl.groups_of(model.pyramid, len(atoms.t))))
    rows = Rows(A * root[:, None], fetch(problem.Y), root / np.sqrt(total), total)
    return loss(left_out(rows, gram(rows), LAM).e, total)


@HOWS
@POOLS
def test_the_slope_is_that_of_finite_differences(xp, rng, how, levels):
    problem, atoms = make(xp, rng, how, levels)
    state = loo_adl.start(problem, atoms)
    direction = rng.standard_normal(state.x.shape)
    Omega = atoms.Omega
    moves = direction[: Omega.size].reshape(Omega.shape)
    moves -= (moves * Omega).sum(axis=1, keepdims=True) * Omega  # along the spheres

    def value(step):
        moved = Omega + step * moves
        moved /= np.linalg.norm(moved, axis=1, keepdims=True)
        return error_of(problem, Atoms(moved, atoms.t * np.exp(step * direction[Omega.size :])))

    assert state.trace[0] == pytest.approx(error_of(problem, atoms), rel=1e-10)
    assert state.gradient @ direction == pytest.approx(rise_of(value, 1e-5), rel=1e-8)


@HOWS
def test_the_error_never_rises_and_atoms_keep_their_length(rng, how):
    problem, atoms = make(np, rng, how)

    state = loo_adl.start(problem, atoms)
    for _ in range(6):
        state = loo_adl.step(problem, state)

    learned = loo_adl.atoms_of(problem, state)
    assert np.all(np.diff(state.trace) <= 0)
    assert state.trace[-1] < 0.95 * state.trace[0]
    assert state.trace[-1] == pytest.approx(error_of(problem, learned), rel=1e-10)
    np.testing.assert_allclose(np.linalg.norm(learned.Omega, axis=1), 1)
    assert np.all(learned.t > 0)


def test_a_state_that_cannot_fall_stays(rng):
    problem, atoms = make(np, rng)
    state = loo_adl.start(problem, atoms)
    wrong = state._replace(gradient=-state.gradient)  # every step climbs

    after = loo_adl.step(problem, wrong)

    assert after.trace == (state.trace[0], state.trace[0])
    np.testing.assert_array_equal(after.x, state.x)


def test_chunks_do_not_matter(rng):
    seed = rng.integers(1000)
    one, three = (loo_adl.start(*make(np, np.random.default_rng(seed), chunks=chunks)) for chunks in (1, 3))

    assert one.trace[0] == pytest.approx(three.trace[0], rel=1e-12)
    np.testing.assert_allclose(one.gradient, three.gradient, atol=1e-12)


@HOWS
def test_the_first_step_turns_atoms_by_a_few_degrees_and_is_taken(rng, how):
    """The length of a gradient says nothing of how far it holds."""
    problem, atoms = make(np, rng, how)

    state = loo_adl.step(problem, loo_adl.start(problem, atoms))

    turned = np.linalg.norm(loo_adl.atoms_of(problem, state).Omega - atoms.Omega, axis=1)
    assert 0.02 < turned.max() < 0.25


@HOWS
def test_most_steps_are_taken_as_they_come(rng, how, monkeypatch):
    """A step that is tried at half its length costs another look at all images."""
    problem, atoms = make(np, rng, how)
    state, looks = loo_adl.start(problem, atoms), []
    look = loo_adl._loss_and_gradient
    monkeypatch.setattr(loo_adl, "_loss_and_gradient", lambda *given: looks.append(1) or look(*given))

    for _ in range(10):
        state = loo_adl.step(problem, state)

    assert len(looks) <= 20


@pytest.mark.parametrize("how", ["whitened", "whitened-once", "centred"])
def test_most_responses_to_the_first_atoms_pass_their_thresholds(rng, how):
    """What no response passes has no gradient, and is never learned."""
    problem, atoms = make(np, rng, how)
    R = respond(
        atoms.Omega @ fetch(problem.model.transform.whitener), np.concatenate(problem.windows, axis=2)
    )

    assert 0.5 < np.mean(np.abs(R) > atoms.t[0]) < 0.98
