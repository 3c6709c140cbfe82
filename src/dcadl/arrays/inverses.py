"""Inverses of symmetric positive definite matrices in float64, and of their factors.

On the host by LAPACK, while other threads go on. SciPy's own functions keep the interpreter's lock for as
long as LAPACK works, so that two fits side by side wait for each other. Called through ctypes, the same
routines (`scipy.linalg.cython_lapack`) do not.

LAPACK stores columns one after the other: it takes a row-major A for its transpose, and its upper triangle
"U" is our lower one. So potrf "U" leaves L of A = LLᵀ in our lower triangle, and above it what was there.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from array_api_compat import is_numpy_namespace, is_torch_namespace
from scipy import LowLevelCallable
from scipy.linalg import cython_lapack

from dcadl.arrays import Array, array_namespace, cholesky_factor, device_of, import_torch

BLOCK = 64  # rows whose upper part is cleared at once


def spd_inverse(A: Array) -> Array:
    """A⁻¹, for half the operations of a general inverse."""
    xp = array_namespace(A)
    if is_torch_namespace(xp):
        return import_torch().cholesky_inverse(cholesky_factor(A))
    return _lapack_inverse(A.copy()) if is_numpy_namespace(xp) else xp.linalg.inv(A)


def spd_inverse_root(A: Array) -> Array:
    """L⁻¹ for A = LLᵀ: A⁻¹ = L⁻ᵀL⁻¹, for two thirds of its price."""
    xp = array_namespace(A)
    if is_torch_namespace(xp):
        eye = xp.eye(A.shape[0], dtype=A.dtype, device=device_of(A))
        return import_torch().linalg.solve_triangular(cholesky_factor(A), eye, upper=False)
    if not is_numpy_namespace(xp):
        return xp.linalg.inv(xp.linalg.cholesky(A))
    return _lapack_inverse_root(A.copy())


def _lapack_inverse_root(A: np.ndarray) -> np.ndarray:
    """L⁻¹; A itself is overwritten."""
    L = _factored(A)
    _call("dtrtri", b"U", b"N", L)
    for i in range(0, len(L), BLOCK):
        L[i : i + BLOCK, i + BLOCK :] = 0.0
        L[i : i + BLOCK, i : i + BLOCK] = np.tril(L[i : i + BLOCK, i : i + BLOCK])
    return L


def _lapack_inverse(A: np.ndarray) -> np.ndarray:
    """A⁻¹; A itself is overwritten."""
    L = _factored(A)
    _call("dpotri", b"U", L)
    for i in range(0, len(L), BLOCK):  # the upper triangle from the lower one
        L[i : i + BLOCK, i + BLOCK :] = L[i + BLOCK :, i : i + BLOCK].T
        corner = np.tril(L[i : i + BLOCK, i : i + BLOCK])
        L[i : i + BLOCK, i : i + BLOCK] = corner + np.tril(corner, -1).T
    return L


def _factored(A: np.ndarray) -> np.ndarray:
    """L of A = LLᵀ in the lower triangle of a row-major float64 A."""
    L = np.require(A, np.float64, ["C", "W"])
    _call("dpotrf", b"U", L)
    return L


def _call(name: str, *arguments: bytes | np.ndarray) -> None:
    """A LAPACK routine on a square matrix, which is the last of its arguments; LinAlgError where it fails."""
    *options, A = arguments
    n, info = ctypes.c_int(len(A)), ctypes.c_int(0)
    _routine(name, len(options))(*options, n, A.ctypes.data, n, info)  # type: ignore[union-attr]
    if info.value:
        raise np.linalg.LinAlgError("the matrix is not positive definite")


@cache
def _routine(name: str, n_options: int) -> Callable[..., None]:
    """`name(options…, n, a, lda, info)` of SciPy's LAPACK."""
    function = LowLevelCallable.from_cython(cython_lapack, name)
    assert function.signature.count("int *") == 3, function.signature  # as wide as C's int
    address = ctypes.pythonapi.PyCapsule_GetPointer
    address.restype, address.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    number = ctypes.POINTER(ctypes.c_int)
    kinds: list[Any] = [ctypes.c_char_p] * n_options + [number, ctypes.c_void_p, number, number]
    return ctypes.CFUNCTYPE(None, *kinds)(address(function.function, function.signature.encode()))
