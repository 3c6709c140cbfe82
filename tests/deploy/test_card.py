"""Model cards: what they say is what was measured, and nothing in them becomes markup."""

from __future__ import annotations

import numpy as np
import pytest
from deploy_models import case, unseen_digits
from sklearn.metrics import accuracy_score

from dcadl import DPL
from dcadl.deploy.calibration import expected_calibration_error
from dcadl.deploy.card import as_html, card, measure
from dcadl.deploy.translate import facts_of


@pytest.fixture(scope="module")
def measured():
    return measure(case("dcadl").model, *unseen_digits(), "digits")


def test_the_measured_accuracy_is_the_share_of_right_answers(measured):
    X, y = unseen_digits()

    assert measured.accuracy == pytest.approx(accuracy_score(y, case("dcadl").model.predict(X)))
    assert measured.n == len(y)


def test_confused_classes_are_counted_most_frequent_first(measured):
    X, y = unseen_digits()
    found = case("dcadl").model.predict(X)

    truth, answer, times = measured.confused[0]
    assert times == np.sum((y == int(truth)) & (found == int(answer)))
    assert [entry[2] for entry in measured.confused] == sorted(
        (e[2] for e in measured.confused), reverse=True
    )


def test_a_perfect_forecast_has_no_calibration_error_and_a_boast_has_one():
    right = np.array([True, False, True, False])

    assert expected_calibration_error(np.full(4, 0.5), right) == 0
    assert expected_calibration_error(np.ones(4), right) == pytest.approx(0.5)


def test_a_card_says_classes_parameters_accuracy_and_limits(measured):
    text = card(case("dcadl").model, "digits", size=1234, measured=measured)

    assert text.startswith("# digits\n")
    assert f"{100 * measured.accuracy:.2f} % right" in text
    for words in (
        "0, 1, 2, 3",
        "| n\\_atoms | 6 |",
        "1234 bytes",
        "![6 filters](data:image/png",
        "Calibration: the probability of an answer",
    ):
        assert words in text
    assert "Not recorded" in text


def test_what_a_fit_chose_by_itself_is_on_the_card():
    model = case("loo").model

    text = card(model, "digits", size=1)

    assert f"| n\\_atoms | auto: {len(model.atoms_)} |" in text
    assert f"| pool | auto: {model.pool_} |" in text
    assert "| max\\_iter | 2 |" in text


def test_shares_that_are_no_probabilities_are_called_so(measured):
    text = card(case("pcanet").model, "digits", size=1234, measured=measured)

    assert "not calibrated" in text
    assert "not as probabilities" in text


def test_what_the_training_run_knew_is_on_the_card():
    model = case("random-atoms").model
    known = {"data": "faces", "samples": 90, "cross_validated_accuracy": 0.875, "control_accuracy": 0.5}
    model.training_ = known

    text = card(model, "faces", size=1, licence="CC0")
    facts = facts_of(model)

    del model.training_
    assert "| samples | 90 |" in text
    assert "| control accuracy | 50.00 % |" in text
    assert "trained on: 87.50 %, by 90 samples left out." in text
    assert "Training data: CC0." in text
    assert facts["expected_accuracy"] == 0.875
    assert facts["training"] == known


@pytest.mark.parametrize(("form", "words"), [("grey", "8 × 8 in grey"), ("colour", "8 × 8 × 3 in colour")])
def test_a_card_says_whether_colour_is_seen(form, words):
    assert f"| takes | pictures of {words} |" in card(case("patch-ridge", form).model, "x", size=1)


@pytest.mark.parametrize("accuracy", ["0.9", [0.9], {}, "x", 1e300, -1, None], ids=str)
def test_an_accuracy_that_is_none_is_not_on_the_card(accuracy):
    """What a model file says of its training may be anything."""
    model = case("random-atoms").model
    model.training_ = {"cross_validated_accuracy": accuracy}

    text = card(model, "faces", size=1)

    del model.training_
    assert "Expected on new samples" not in text


def test_names_become_no_markup():
    X = case("dcadl").real
    labels = np.where(np.arange(len(X)) % 2, "<script>alert(1)</script>", "a|b`c\nd\x1b[31m")
    model = DPL(n_atoms=2, max_iter=1, random_state=0).fit(X, labels)

    page = as_html(card(model, "<b>", size=1, measured=measure(model, X, labels[::-1], "x|y")), "<b>")

    assert "<script" not in page
    assert "\x1b" not in page
    assert "<b>" not in page
    assert "&lt;script&gt;" in page
    assert "<td>x|y" not in page
