"""Displays: what they draw is what the model holds, and no global figure is left open."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from dcadl import DCADL, PatchRidge, RandomAtoms
from dcadl.plot import AtomsDisplay, CodesDisplay, ConvergenceDisplay
from dcadl.plot.canvas import largest, mosaic, near_square
from dcadl.plot.codes import explain_codes

pytest.importorskip("matplotlib", reason="matplotlib is not installed: pip install 'dcadl[plot]'")


def digits_like(rng, shape=(10, 9)):
    X = rng.uniform(size=(24, *shape))
    y = np.arange(24) % 3
    X[y == 1, :4] += 1.0
    X[y == 2, :, :4] += 1.0
    return X, y


@pytest.fixture
def fitted(rng):
    X, y = digits_like(rng)
    settings = {"n_atoms": 6, "patch_shape": (4, 3), "stride": 2, "lam1": 0.02}
    return DCADL(**settings, max_iter=4, tol=0, random_state=0).fit(X, y), X, y


def test_tiles_lie_side_by_side_with_gaps_between(rng):
    tiles = rng.standard_normal((5, 2, 3))

    board = mosaic(tiles, columns=3)

    np.testing.assert_array_equal(board[3:5, 4:7], tiles[4])
    assert np.isnan(board[2]).all()
    assert np.isnan(board[3:, 8:]).all()


@pytest.mark.parametrize("k", range(1, 60))
def test_a_near_square_holds_every_tile_and_has_no_empty_row(k):
    rows, columns = near_square(k)

    assert (rows - 1) * columns < k <= rows * columns
    assert rows <= columns


def test_a_colour_scale_for_nothing_but_zeros_is_not_empty():
    assert largest(np.zeros((2, 2))) == 1.0


def test_atoms_are_drawn_with_their_own_values(fitted):
    model, _, _ = fitted

    display = AtomsDisplay.from_estimator(model)

    drawn = display.ax_.images[0].get_array()
    np.testing.assert_allclose(np.ma.compressed(drawn), mosaic(model.atoms_)[~np.isnan(mosaic(model.atoms_))])
    assert "6 atoms of DCADL, 4×3 pixels" in display.ax_.get_title()


@pytest.mark.parametrize("shape", [(12,), (8, 7, 3), (8, 7, 2)], ids=["signal", "colour", "two channels"])
def test_atoms_of_any_kind_of_sample_can_be_drawn(rng, shape):
    X, y = rng.uniform(size=(12, int(np.prod(shape)))), np.arange(12) % 2
    model = RandomAtoms(n_atoms=5, patch_shape=4, image_shape=shape, random_state=0).fit(X, y)

    display = AtomsDisplay.from_estimator(model)

    display.figure_.canvas.draw()
    assert len(display.ax_.images) == 1


def test_the_objective_is_drawn_block_by_block(fitted):
    model, _, _ = fitted

    display = ConvergenceDisplay.from_estimator(model)

    line = display.ax_.lines[0]
    np.testing.assert_allclose(line.get_ydata(), model.objective_)
    assert line.get_xdata()[-1] == model.n_iter_
    dots = np.concatenate([part.get_offsets() for part in display.ax_.collections])
    np.testing.assert_allclose(np.sort(dots[:, 1]), np.sort(model.objective_))
    assert display.ax_.get_title() == "Objective of DCADL: never rises"


def test_an_objective_that_rises_is_said_to_rise():
    display = ConvergenceDisplay([3.0, 2.0, 2.5], blocks=("pass",)).plot()

    assert display.ax_.get_title() == "Objective: rises at times"


def test_an_objective_over_many_magnitudes_gets_a_logarithmic_axis():
    assert ConvergenceDisplay([1e14, 5.0, 4.0]).plot().ax_.get_yscale() == "log"


def test_the_evidence_sums_to_the_score_of_the_class_chosen(fitted):
    model, X, _ = fitted

    explanation = explain_codes(model, X)

    best = explanation.scores.argmax(axis=1)
    expected = explanation.scores.max(axis=1) - model.intercept_[best]
    np.testing.assert_allclose(explanation.evidence.sum(axis=(1, 2)), expected, atol=1e-10)
    np.testing.assert_allclose(explanation.scores, model.decision_function(X), atol=1e-10)


def test_evidence_stays_within_the_patches(fitted):
    model, X, _ = fitted

    # 10×9 pixels, patches of 4×3 every 2: all ten rows and all nine columns are covered
    moved = explain_codes(model, X).evidence
    assert moved.shape == X.shape

    narrow = DCADL(n_atoms=4, patch_shape=4, stride=4, max_iter=1, tol=0, random_state=0)
    left_over = explain_codes(narrow.fit(X, np.arange(24) % 3), X).evidence
    assert not left_over[:, 8:].any()
    assert not left_over[:, :, 8:].any()


def test_codes_are_the_responses_shrunk(fitted):
    model, X, _ = fitted

    explanation = explain_codes(model, X)

    shrunk = np.sign(explanation.responses) * np.maximum(np.abs(explanation.responses) - model.lam1, 0)
    np.testing.assert_allclose(explanation.codes, shrunk, atol=1e-12)
    assert explanation.codes.shape == (24, 4, 4, 6)


def test_mistaken_images_are_marked(fitted):
    model, X, _ = fitted
    truth = model.predict(X[:2])

    display = CodesDisplay.from_estimator(model, X[:2], [truth[0], truth[1] + 1])

    assert display.ax_.shape == (2, 5)
    assert [row[0].get_xlabel().split(", ")[1] for row in display.ax_] == ["recognised", "mistaken"]


def test_displays_draw_on_what_they_are_given(fitted):
    from matplotlib.figure import Figure

    model, X, _ = fitted
    figure = Figure()
    left, right = figure.subplots(1, 2)

    assert AtomsDisplay.from_estimator(model, ax=left).figure_ is figure
    assert ConvergenceDisplay.from_estimator(model, ax=right).ax_ is right
    assert CodesDisplay.from_estimator(model, X[:1], figure=Figure()).figure_ is not figure


@pytest.mark.parametrize("display", [AtomsDisplay, ConvergenceDisplay])
def test_a_model_without_what_is_drawn_is_refused(rng, display):
    X, y = digits_like(rng)
    ridge = PatchRidge(patch_shape=4).fit(X, y)

    with pytest.raises(ValueError, match="PatchRidge"):
        display.from_estimator(ridge)
    with pytest.raises(ValueError, match="no atoms"):
        CodesDisplay.from_estimator(ridge, X)


def test_a_missing_matplotlib_is_named_with_the_extra_to_install():
    code = (
        "import sys; sys.modules['matplotlib'] = None; sys.modules['matplotlib.figure'] = None\n"
        "from dcadl.plot import AtomsDisplay\n"
        "AtomsDisplay([[[1.0]]]).plot()"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert done.stderr.splitlines()[-1].endswith("drawing needs matplotlib: pip install 'dcadl[plot]'")
    assert "pyplot" not in done.stderr
