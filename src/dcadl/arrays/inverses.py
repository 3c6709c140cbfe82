"""Inverses of symmetric positive definite matrices in float64, and of their factors: `libraries.lapack`."""

from __future__ import annotations

import ctypes

import numpy as np
from array_api_compat import is_numpy_namespace, is_torch_namespace

from dcadl.arrays import BLOCK, Array, SpdFactor, array_namespace, device_of
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
    L, n = SpdFactor(A).L, ctypes.c_int(len(A))
    lapack("dtrtri")(b"U", b"N", n, L.ctypes.data, n, ctypes.c_int(0))
    for i in range(0, len(L), BLOCK):
        L[i : i + BLOCK, i + BLOCK :] = 0.0
        L[i : i + BLOCK, i : i + BLOCK] = np.tril(L[i : i + BLOCK, i : i + BLOCK])
    return L


def _lapack_inverse(A: np.ndarray) -> np.ndarray:
    """A⁻¹; A itself is overwritten."""
    L, n = SpdFactor(A).L, ctypes.c_int(len(A))
    lapack("dpotri")(b"U", n, L.ctypes.data, n, ctypes.c_int(0))
    for i in range(0, len(L), BLOCK):  # the upper triangle from the lower one
        L[i : i + BLOCK, i + BLOCK :] = L[i + BLOCK :, i : i + BLOCK].T
        corner = np.tril(L[i : i + BLOCK, i : i + BLOCK])
        L[i : i + BLOCK, i : i + BLOCK] = corner + np.tril(corner, -1).T
    return L
