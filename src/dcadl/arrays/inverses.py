"""Inverses of symmetric positive definite matrices in float64: `libraries.lapack`."""

from __future__ import annotations

import ctypes

import numpy as np
from array_api_compat import is_numpy_namespace, is_torch_namespace

from dcadl.arrays import BLOCK, Array, SpdFactor, array_namespace
from dcadl.arrays.libraries import cholesky_factor, import_torch, lapack


def spd_inverse(A: Array) -> Array:
    """A⁻¹, for half the operations of a general inverse."""
    xp = array_namespace(A)
    if is_torch_namespace(xp):
        return import_torch().cholesky_inverse(cholesky_factor(A))
    return _lapack_inverse(A.copy()) if is_numpy_namespace(xp) else xp.linalg.inv(A)


def _lapack_inverse(A: np.ndarray) -> np.ndarray:
    """A⁻¹; A itself is overwritten."""
    L, n = SpdFactor(A).L, ctypes.c_int(len(A))
    lapack("dpotri")(b"U", n, L.ctypes.data, n, ctypes.c_int(0))
    for i in range(0, len(L), BLOCK):  # the upper triangle from the lower one
        L[i : i + BLOCK, i + BLOCK :] = L[i + BLOCK :, i : i + BLOCK].T
        corner = np.tril(L[i : i + BLOCK, i : i + BLOCK])
        L[i : i + BLOCK, i : i + BLOCK] = corner + np.tril(corner, -1).T
    return L
