"""Coordinates of a few long patches in the space that they span: as many as there are patches, not values."""

from __future__ import annotations

import numpy as np

from dcadl.arrays import blas_threads_for
from dcadl.ops.floors import SPAN_FLOOR

COLUMNS = 2048  # of the patches that are in float64 at once


def span_of(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Z (N, r) and Q (d, r), columns of Q orthonormal, with rows = ZQᵀ but for rounding; N < d.

    From the eigenvectors V and eigenvalues g of the N × N products of the rows: Z = V√g, Q = rowsᵀV/√g.
    """
    N, d = rows.shape
    with blas_threads_for(N):
        K = np.zeros((N, N))
        for i in range(0, d, COLUMNS):
            part = rows[:, i : i + COLUMNS].astype(np.float64)
            K += part @ part.T
        g, V = np.linalg.eigh(K)
        used = g > SPAN_FLOOR * max(g[-1], 0.0)
        used[-1] = True  # rows that are all zero span a line as good as any
        root, V = np.sqrt(np.maximum(g[used], 0.0)), V[:, used]
        turn = V / np.where(root > 0, root, 1.0)
        Q = rows.T @ turn.astype(rows.dtype)
    return (V * root).astype(rows.dtype), Q
