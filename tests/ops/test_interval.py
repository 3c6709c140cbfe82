"""Intervals of an accuracy."""

from __future__ import annotations

import numpy as np
import pytest

from dcadl.ops.interval import interval


@pytest.mark.parametrize(("accuracy", "n"), [(0.0, 5), (0.5, 40), (0.93, 300), (1.0, 12)])
def test_at_the_ends_of_the_interval_the_accuracy_lies_two_deviations_off(accuracy, n):
    ends = np.array(interval(accuracy, n))

    deviation = np.sqrt(ends * (1 - ends) / n)

    inside = (ends > 0) & (ends < 1)
    np.testing.assert_allclose(np.abs(accuracy - ends)[inside], 1.959964 * deviation[inside], rtol=1e-5)
    assert ends[0] <= accuracy <= ends[1]
