"""The temperature of probabilities."""

from __future__ import annotations

import numpy as np
import pytest
from deploy_models import case, unseen_digits
from sklearn.metrics import log_loss

from dcadl.deploy.calibration import with_temperature
from dcadl.deploy.operations import Softmax
from dcadl.deploy.reference import run
from dcadl.deploy.translate import operations_of


def test_no_other_temperature_has_a_lower_log_loss():
    X, y = unseen_digits()
    program = with_temperature(operations_of(case("dcadl").model), X, y)

    def loss(temperature):
        other = program._replace(operations=(*program.operations[:-1], Softmax(temperature)))
        return log_loss(y, run(other, X).probabilities)

    assert loss(program.temperature) < min(loss(program.temperature * factor) for factor in (0.9, 1.1))
    assert program.facts["calibrated"]


def test_labels_stay_as_they_were():
    X, y = unseen_digits()
    program = operations_of(case("dcadl").model)

    np.testing.assert_array_equal(run(with_temperature(program, X, y), X).labels, run(program, X).labels)


def test_labels_that_the_model_does_not_have_are_refused():
    X, _ = unseen_digits()

    with pytest.raises(ValueError, match="the model's classes; got 10, 11"):
        with_temperature(operations_of(case("dcadl").model), X[:4], np.array([10, 11, 10, 11]))
