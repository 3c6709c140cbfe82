"""Inverses of symmetric positive definite matrices in float64, and of their factors: `libraries.lapack`."""

from __future__ import annotations

import ctypes

import numpy as np
from array_api_compat import is_numpy_namespace, is_torch_namespace

from dcadl.arrays import BLOCK, Array, array_namespace, device_of
from dcadl.arrays.libraries import cholesky_factor, import_torch, lapack


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
    lapack(name)(*options, n, A.ctypes.data, n, info)  # type: ignore[union-attr]
    if info.value:
        raise np.linalg.LinAlgError("the matrix is not positive definite")
