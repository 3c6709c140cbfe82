"""torch and CuPy, imported when they are asked for: the library works without either."""

from __future__ import annotations

from typing import Any

import numpy as np


def import_torch(what: str = "backend 'torch'") -> Any:
    """torch, or a ValueError that says what needs it and names the extra to install."""
    try:
        import torch
    except ImportError:
        raise ValueError(f"{what} needs PyTorch: pip install 'dcadl[torch]'.") from None
    return torch


def import_cupy() -> Any:
    """CuPy, or the same."""
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
