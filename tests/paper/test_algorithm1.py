"""The literal transcription of Algorithm 1 against solver="paper"."""

from __future__ import annotations

import numpy as np
import pytest

from algorithm1 import R1, R1_inverse, objective, one_pass, patches_as_columns
from dcadl import DCADL
from dcadl.arrays import fetch
from dcadl.ops.patches import normalised_patches, patch_grid
from dcadl.solvers import paper

LAMS = (0.01, 0.2, 0.1, 0.3)


@pytest.fixture
def problem(rng):
    """Nine 6×5 images of three classes, 3×3 patches, stride 2; four atoms."""
    images, m, C, p = rng.random((9, 6, 5)), 4, 3, 4
    Y = np.eye(C)[np.arange(9) % C].T
    return images, Y, rng.random((m, 9)), rng.random((C, m * p)) / 4


def ours(xp, images, Y, Omega, W, rho=1.0, w_ridge=None):
    X = xp.asarray(images.reshape(len(images), -1))
    P = normalised_patches(X, patch_grid((6, 5), 3, 2), "patch")
    posed = paper.pose(P, xp.asarray(Y.T.copy()), LAMS, rho, w_ridge)
    return posed, paper.start(posed, xp.asarray(Omega), xp.asarray(W))


def test_patches_are_the_papers_columns(xp, problem):
    posed, _ = ours(xp, *problem)

    columns = patches_as_columns(problem[0], 3, 2)

    np.testing.assert_allclose(fetch(posed.P).reshape(-1, 9), columns.T, atol=1e-15)


@pytest.mark.parametrize("w_ridge", [None, LAMS[2]], ids=["printed ridge", "released ridge"])
@pytest.mark.parametrize("rho", [1.0, 0.3])
def test_three_passes_agree_with_the_transcription(xp, problem, rho, w_ridge):
    images, Y, Omega, W = problem
    X_bar = patches_as_columns(images, 3, 2)
    posed, state = ours(xp, *problem, rho, w_ridge)
    expected = (Omega, Omega @ X_bar, W)

    for _ in range(3):
        expected = one_pass(X_bar, Y, *expected, LAMS, rho, released_ridge=w_ridge is not None)
        state = paper.step(posed, state)
        np.testing.assert_allclose(fetch(state.Omega), expected[0], rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(fetch(state.U).reshape(-1, 4).T, expected[1], rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(fetch(state.W), expected[2], rtol=1e-10, atol=1e-10)
        assert state.trace[-1] == pytest.approx(objective(X_bar, Y, *expected, LAMS), rel=1e-10)


@pytest.mark.parametrize("w_ridge", ["paper", "release"])
def test_a_fit_of_two_passes_is_the_transcription_from_the_same_start(problem, w_ridge):
    """max_iter=1 makes two passes, as the authors' loop does."""
    images, Y, *_ = problem
    names = dict(zip(("lam1", "lam2", "lam3", "lam4"), LAMS))
    model = DCADL(n_atoms=4, patch_shape=3, stride=2, solver="paper", max_iter=1, random_state=0, **names)
    model.set_params(w_ridge=w_ridge, normalize="patch").fit(images, np.arange(9) % 3)

    X_bar, drawn = patches_as_columns(images, 3, 2), np.random.RandomState(0)
    Omega, W = drawn.uniform(size=(4, 9)), drawn.uniform(size=(3, 16))
    U_bar = Omega @ X_bar
    for _ in range(2):
        Omega, U_bar, W = one_pass(X_bar, Y, Omega, U_bar, W, LAMS, 1.0, released_ridge=w_ridge == "release")

    np.testing.assert_allclose(model.atoms_.reshape(4, -1), Omega, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(model.coef_, W, rtol=1e-7, atol=1e-7)


def test_the_printed_sign_climbs(problem):
    images, Y, Omega, W = problem
    X_bar = patches_as_columns(images, 3, 2)
    U = Omega @ X_bar

    def label_term_after_codes(printed_sign):
        _, codes, _ = one_pass(X_bar, Y, Omega, U, W, LAMS, 0.5, printed_sign)
        return np.sum((Y - W @ R1(codes, 9, 4)) ** 2)

    at_start = np.sum((Y - W @ R1(U, 9, 4)) ** 2)
    assert label_term_after_codes(printed_sign=False) < at_start < label_term_after_codes(printed_sign=True)


def test_reshapings_are_the_papers(rng):
    U_bar, m, n, p = rng.random((3, 8)), 3, 2, 4
    U_tilde = R1(U_bar, n, p)
    for i, j, k in np.ndindex(m, n, p):
        assert U_tilde[k * m + i, j] == U_bar[i, j * p + k]
    np.testing.assert_array_equal(R1_inverse(U_tilde, m, p), U_bar)
