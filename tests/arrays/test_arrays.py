"""The array room: what is sent comes home, factorisations solve, and devices that are missing are named."""

from __future__ import annotations

import numpy as np
import pytest

from dcadl import arrays
from dcadl.arrays import (
    as_float64,
    check_backend,
    fetch,
    free_memory,
    inverse_factor,
    is_device_array,
    is_numpy,
    on_host,
    row_major,
    send,
    spd_solver,
    sync,
    tiny,
    zeros,
)


def positive_definite(rng, n):
    A = rng.standard_normal((n, n))
    return A @ A.T + n * np.eye(n)


@pytest.mark.parametrize("backend", ["numpy", "torch"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_what_is_sent_comes_home_with_its_dtype(backend, dtype):
    pytest.importorskip("torch", reason="torch is not installed: pip install 'dcadl[torch]'")
    x = np.arange(12, dtype=dtype).reshape(3, 4).T
    home = fetch(send(x, backend))
    assert isinstance(home, np.ndarray)
    assert home.dtype == dtype
    np.testing.assert_array_equal(home, x)


def test_what_lies_on_the_backend_stays_where_it_is():
    torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'dcadl[torch]'")
    x = torch.ones(3)
    assert send(x, "torch") is x
    assert is_device_array(x)
    assert not is_device_array(np.ones(3))


@pytest.mark.parametrize(
    ("backend", "message"),
    [
        ("jax", "backend must be 'numpy'"),
        ("numpy:0", "backend must be 'numpy'"),
        ("torch:tpu", "must name a torch device"),
        ("", "backend must be 'numpy'"),
    ],
)
def test_an_unknown_backend_is_refused(backend, message):
    pytest.importorskip("torch", reason="torch is not installed: pip install 'dcadl[torch]'")
    with pytest.raises(ValueError, match=message):
        check_backend(backend)


def test_a_missing_device_is_named(monkeypatch):
    torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'dcadl[torch]'")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match="needs a CUDA device, and torch sees none"):
        check_backend("torch:cuda")


@pytest.mark.parametrize(("name", "words"), [("torch", r"dcadl\[torch\]"), ("cupy", "needs CuPy")])
def test_a_missing_library_says_what_to_install(monkeypatch, name, words):
    monkeypatch.setitem(__import__("sys").modules, name, None)
    with pytest.raises(ValueError, match=words):
        check_backend(name)


def test_arrays_of_the_processor_lie_on_the_host(xp):
    x = xp.zeros(3)
    assert on_host(x)
    assert free_memory(x) is None
    assert is_numpy(x) == isinstance(x, np.ndarray)
    sync(x)


@pytest.mark.parametrize("n", [5, 40])
@pytest.mark.parametrize("small", [0, 600], ids=["factored", "solved"])
def test_a_solver_solves(xp, rng, monkeypatch, n, small):
    monkeypatch.setattr(arrays, "SMALL_SYSTEM", small)
    A, B = positive_definite(rng, n), rng.standard_normal((n, 3))
    solve = spd_solver(xp.asarray(A))
    for _ in range(2):
        np.testing.assert_allclose(A @ fetch(solve(xp.asarray(B))), B, atol=1e-10)


def test_a_matrix_that_is_not_positive_definite_is_an_error_not_a_number():
    torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'dcadl[torch]'")
    with pytest.raises(np.linalg.LinAlgError):
        spd_solver(torch.asarray([[1.0, 2.0], [2.0, 1.0]]))


def test_an_inverse_factor_inverts_the_factor(xp, rng):
    A = positive_definite(rng, 6)
    K = fetch(inverse_factor(xp.asarray(A), xp.asarray(np.eye(6))))
    np.testing.assert_allclose(K @ A @ K.T, np.eye(6), atol=1e-12)
    np.testing.assert_allclose(np.triu(K, 1), 0, atol=1e-15)


def test_rows_lie_one_after_the_other(xp, rng):
    x = rng.standard_normal((3, 5))
    found = fetch(row_major(xp.asarray(x).T))
    np.testing.assert_array_equal(found, x.T)


def test_a_transposed_array_is_copied_into_row_order(rng):
    assert row_major(rng.standard_normal((3, 5)).T).flags.c_contiguous
    torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'dcadl[torch]'")
    assert row_major(torch.ones(3, 5).T).is_contiguous()


def test_small_helpers_keep_library_and_dtype(xp):
    x = xp.ones((2, 2), dtype=xp.float32)
    assert as_float64(x).dtype == xp.float64
    assert zeros((3,), x).dtype == xp.float32
    assert 0 < tiny(x) < 1e-37
    assert 1 + tiny(x) == 1
