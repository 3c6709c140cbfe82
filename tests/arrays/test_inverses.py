"""Inverses by LAPACK, through ctypes: of positive definite matrices, in row-major memory."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from dcadl.arrays.inverses import BLOCK, spd_inverse


def definite(rng, n):
    A = rng.standard_normal((n, n))
    return A @ A.T / n + np.eye(n)


@pytest.mark.parametrize("n", [1, 2, BLOCK - 1, BLOCK, BLOCK + 1, 200])
def test_an_inverse_undoes_the_matrix(rng, n):
    A = definite(rng, n)
    given = A.copy()

    inverse = spd_inverse(A)

    np.testing.assert_allclose(inverse @ A, np.eye(n), atol=1e-12)
    np.testing.assert_array_equal(inverse, inverse.T)
    np.testing.assert_array_equal(A, given)
    assert inverse.flags.c_contiguous


def test_a_matrix_that_is_not_positive_definite_is_refused(rng):
    with pytest.raises(np.linalg.LinAlgError, match="positive definite"):
        spd_inverse(-definite(rng, 5))


def test_other_threads_go_on_meanwhile(rng):
    """SciPy's own functions keep the interpreter's lock: then the longest pause is the whole call."""
    A = definite(rng, 900)

    assert any(longest_pause_during(lambda: spd_inverse(A)) < 0.5 for _ in range(10))


def longest_pause_during(work):
    """As a share of the time that the work takes in another thread."""
    begin, pauses = threading.Event(), []
    other = threading.Thread(target=lambda: (begin.wait(), work()))
    other.start()
    begin.set()
    start = before = time.perf_counter()
    while other.is_alive():
        now = time.perf_counter()
        pauses.append(now - before)
        before = now
    other.join()
    return max(pauses, default=1.0) / (time.perf_counter() - start)
