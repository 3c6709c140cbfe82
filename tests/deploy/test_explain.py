"""Evidence adds up to the scores, by pixels and by atoms, and lies where the reason lies."""

from __future__ import annotations

import numpy as np
import pytest
from deploy_models import CASES, case
from sklearn.datasets import load_digits

from dcadl import DPL, LOOADL
from dcadl.plot import EvidenceDisplay


def scores_of(model, X):
    """One score for each class, two classes included."""
    scores = np.asarray(model.decision_function(X))
    return scores if scores.ndim == 2 else np.stack([-scores / 2, scores / 2], axis=1)


def margins(scores):
    return scores[:, 1:] - scores[:, :1]


@pytest.mark.parametrize(("name", "form"), CASES, ids=[" ".join(names) for names in CASES])
def test_evidence_and_intercept_add_up_to_the_score(name, form):
    model, real, _ = case(name, form)

    found = model.explain(real[:6])

    np.testing.assert_allclose(found.evidence.sum(axis=(1, 2)) + found.intercept, found.scores, atol=1e-9)
    np.testing.assert_allclose(
        margins(found.scores), margins(scores_of(model, real[:6])), rtol=1e-5, atol=1e-4
    )


@pytest.mark.parametrize("name", ["loo", "loo-whitened", "dcadl", "dcadl-centred", "random-atoms"])
def test_the_atoms_parts_add_up_to_the_score_too(name):
    model, real, _ = case(name)

    found = model.explain(real[:6])

    assert found.by_atom.shape[1] == len(model.atoms_)
    np.testing.assert_allclose(found.by_atom.sum(axis=1) + found.intercept, found.scores, atol=1e-9)


def scratched(rng, n):
    """Smooth noise, every second picture with a bright dot somewhere; and where it lies."""
    X = 0.15 * rng.standard_normal((n, 24, 24))
    places = rng.integers(3, 18, size=(n, 2))
    for i, (row, column) in enumerate(places):
        X[i, row : row + 3, column : column + 3] += 1.5 * (i % 2)
    return X.astype(np.float32), np.array(["fine", "damaged"])[np.arange(n) % 2], places


def test_the_evidence_for_a_planted_defect_lies_on_it(rng):
    X, y, _ = scratched(rng, 160)
    model = LOOADL(random_state=0, max_iter=5).fit(X, y)
    new, truth, places = scratched(rng, 40)

    found = model.explain(new)

    damaged = np.flatnonzero((truth == "damaged") & (model.predict(new) == truth))
    k = model.classes_.tolist().index("damaged")
    strongest = [np.unravel_index(found.evidence[i, ..., k].argmax(), (24, 24)) for i in damaged]
    gaps = np.abs(np.array(strongest) - (places[damaged] + 1)).max(axis=1)
    assert len(damaged) >= 15
    assert np.mean(gaps <= 4) > 0.9


def test_a_method_without_sums_over_places_says_so():
    digits = load_digits()
    model = DPL(n_atoms=3, max_iter=2, random_state=0).fit(digits.data[:200], digits.target[:200])

    with pytest.raises(ValueError, match="DPL has no evidence maps"):
        model.explain(digits.data[:2])


@pytest.mark.parametrize(
    ("name", "form"), [("loo", "grey"), ("loo-whitened", "colour"), ("pcanet-two", "two")]
)
def test_the_display_shows_two_leading_classes_and_what_parts_them(name, form):
    model, real, _ = case(name, form)
    found = model.explain(real[:2])
    best = np.sort(found.scores[0])[::-1]

    display = EvidenceDisplay.from_estimator(model, real[:2])

    titles = [ax.get_title() for ax in display.ax_[0]]
    assert display.ax_.shape == (2, 5)
    assert titles[1].endswith(f"{best[0]:.2f}")
    assert titles[3].endswith(f"{best[0] - best[1]:+.2f}")
