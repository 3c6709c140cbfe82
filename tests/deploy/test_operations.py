"""The list of operations against the library, and what cannot be such a list."""

from __future__ import annotations

from copy import copy

import numpy as np
import pytest
from deploy_models import EVERY_CASE, case, centred, class_scores, digits

from dcadl import DADL, DPL, LCKSVD
from dcadl.deploy.operations import GridPool, Program, Softmax, Split, is_identity
from dcadl.deploy.reference import apply, run
from dcadl.deploy.translate import operations_of


@EVERY_CASE
def test_the_operations_give_what_the_model_gives(name, form):
    model, *batches = case(name, form)
    program = operations_of(model)

    for X in batches:
        answer = run(program, X)
        np.testing.assert_array_equal(answer.labels, model.predict(X))
        np.testing.assert_allclose(centred(answer.scores), class_scores(model, X), rtol=1e-5, atol=1e-4)


@EVERY_CASE
def test_shapes_are_known_before_anything_is_computed(name, form):
    model, real, _ = case(name, form)
    program = operations_of(model)
    maps = real[:2].reshape(2, *program.image)

    for operation, before, after in program.steps():
        assert maps.shape[1:] == before
        maps = apply(operation, maps)
        assert maps.shape[1:] == after


def test_atoms_behind_a_whitening_have_length_one():
    """They act on what whitening leaves: nothing of the mean, by whose rounding they could be any length."""
    bank = operations_of(case("loo-whitened").model).operations[1]

    np.testing.assert_allclose(
        np.linalg.norm(bank.filters.reshape(len(bank.filters), -1), axis=1), 1, atol=1e-5
    )


def test_a_scale_multiplies_the_pixels_first():
    model, real, _ = case("dcadl-raw")

    answer = run(operations_of(model, scale=1 / 255), real * 255)

    np.testing.assert_allclose(answer.scores, model.decision_function(real), atol=1e-5)


def test_probabilities_are_a_softmax_of_the_scores_over_the_temperature():
    model, real, _ = case("dcadl")
    program = operations_of(model)
    program = program._replace(operations=(*program.operations[:-1], Softmax(0.1)))

    answer = run(program, real)

    np.testing.assert_allclose(answer.probabilities.sum(axis=1), 1)
    ratio = np.log(answer.probabilities[:, 0] / answer.probabilities[:, 1])
    np.testing.assert_allclose(ratio, (answer.scores[:, 0] - answer.scores[:, 1]) / 0.1)


def test_split_codes_are_the_positive_and_the_negative_part_beyond_each_threshold():
    maps = np.array([[[[0.5, -0.3]]]])

    np.testing.assert_allclose(apply(Split(np.array([0.1, 0.2])), maps)[0, 0, 0], [0.4, 0, 0, 0.1])


def test_pooling_averages_each_cell_grid_by_grid(rng):
    maps = rng.random((1, 3, 4, 2))
    pool = GridPool(((((0, 3),), ((0, 4),)), (((0, 1), (1, 3)), ((0, 2), (2, 4)))))

    cells = apply(pool, maps)[0, 0]

    np.testing.assert_allclose(cells[0], maps[0].mean(axis=(0, 1)))
    np.testing.assert_allclose(cells[3], maps[0, 1:3, 0:2].mean(axis=(0, 1)))


def test_the_patches_themselves_are_an_identity_bank():
    banks = [operations_of(case(name).model).operations[0] for name in ("patch-ridge", "dcadl")]

    assert [is_identity(bank) for bank in banks] == [True, False]


@pytest.mark.parametrize("method", [LCKSVD, DADL, DPL], ids=lambda method: method.__name__)
def test_what_cannot_be_exported_says_why_in_one_line(method):
    with pytest.raises(ValueError, match=f"^{method.__name__} cannot be exported: .*[.]$"):
        operations_of(method())


def test_a_model_changed_after_its_fit_is_refused():
    model = copy(case("dcadl").model)
    model.coef_ = model.coef_[:, 1:]

    with pytest.raises(ValueError, match="takes 53 features, but there are 54"):
        operations_of(model)


def test_strangers_are_refused_by_name():
    from sklearn.linear_model import RidgeClassifier

    with pytest.raises(ValueError, match=r"RidgeClassifier cannot be exported"):
        operations_of(RidgeClassifier().fit(digits()[0].reshape(600, -1), digits()[1]))


def test_a_sample_has_one_to_three_dimensions():
    with pytest.raises(ValueError, match="1 to 3 numbers"):
        _ = Program("", (1, 2, 3, 4), np.empty(0), (), {}).image
