"""Contrasts: a change of coordinates that loses nothing of centred labels."""

from __future__ import annotations

import numpy as np
import pytest

from dcadl.ops.contrasts import from_contrasts, to_contrasts


@pytest.mark.parametrize("C", [2, 3, 38])
def test_centred_labels_come_back_and_keep_their_lengths(rng, C):
    labels = rng.standard_normal((20, C))
    labels -= labels.mean(axis=1, keepdims=True)

    short = to_contrasts(labels)

    assert short.shape == (20, C - 1)
    np.testing.assert_allclose(from_contrasts(short), labels, atol=1e-12)
    np.testing.assert_allclose(short @ short.T, labels @ labels.T, atol=1e-12)


def test_they_keep_the_precision_and_sum_to_zero(rng):
    scores = from_contrasts(rng.standard_normal((5, 9)).astype(np.float32))
    assert scores.dtype == np.float32
    np.testing.assert_allclose(scores.sum(axis=1), 0, atol=1e-6)
