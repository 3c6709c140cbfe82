"""torch and CuPy, imported when they are asked for, since all works without either; LAPACK as C functions."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from scipy import LowLevelCallable
from scipy.linalg import cython_blas, cython_lapack


def import_torch(what: str = "backend 'torch'") -> Any:
    """torch, or a ValueError that says what needs it and names the extra to install."""
    try:
        import torch
    except ImportError:
        raise ValueError(f"{what} needs PyTorch: pip install 'dcadl[torch]'.") from None
    return torch


def import_cupy() -> Any:
    """CuPy, or a ValueError that says what to install."""
    try:
        import cupy
    except ImportError:
        raise ValueError("backend 'cupy' needs CuPy: install the cupy package that fits your CUDA.") from None
    return cupy


def cholesky_factor(A: Any) -> Any:
    """The lower factor; on CUDA not a number where there is none, since an error would make us wait."""
    torch = import_torch()
    lower, trouble = torch.linalg.cholesky_ex(A)
    if not A.is_cuda and trouble:
        raise np.linalg.LinAlgError("the matrix is not positive definite")  # as NumPy's face of it does
    return torch.where(trouble == 0, lower, torch.nan)


@cache
def lapack(name: str) -> Callable[..., None]:
    """A routine of SciPy's LAPACK or BLAS; numbers are `ctypes.c_int`, arrays their addresses.

    Called so, it lets other threads go on. SciPy's own functions keep the interpreter's lock for as long as
    LAPACK works, and two fits side by side wait for each other.

    LAPACK stores columns one after the other: it takes a row-major A for its transpose, and its upper
    triangle "U" is our lower one. So potrf "U" leaves L of A = LLᵀ in our lower triangle, and above it what
    was there.
    """
    module = cython_lapack if name in cython_lapack.__pyx_capi__ else cython_blas
    function = LowLevelCallable.from_cython(module, name)
    kinds = [_kind(kind.strip()) for kind in function.signature.partition("(")[2].rstrip(")").split(",")]
    address = ctypes.pythonapi.PyCapsule_GetPointer
    address.restype, address.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return ctypes.CFUNCTYPE(None, *kinds)(address(function.function, function.signature.encode()))


def _kind(name: str) -> Any:
    """What an argument of that C type is to ctypes; integers are as wide as C's int."""
    assert name in ("char *", "int *") or name.endswith("_d *"), name
    return {"char *": ctypes.c_char_p, "int *": ctypes.POINTER(ctypes.c_int)}.get(name, ctypes.c_void_p)
