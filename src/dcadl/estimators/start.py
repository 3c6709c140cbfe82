"""Random starts: the one place where random numbers enter."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from dcadl.ops.patches import unit_rows


def gaussian_atoms(m: int, d: int, random_state: Any) -> np.ndarray:
    """Atoms of unit length in random directions."""
    return unit_rows(check_random_state(random_state).standard_normal((m, d)))


def uniform_start(
    m: int, d: int, n_classes: int, features: int, random_state: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Atoms and classifier as the authors started them: uniform in [0, 1), not normalised."""
    rng = check_random_state(random_state)
    return rng.uniform(size=(m, d)), rng.uniform(size=(n_classes, features))


def pca_atoms(G: np.ndarray, m: int, random_state: Any) -> np.ndarray:
    """Leading eigenvectors of X̄X̄ᵀ, filled up with random directions where m exceeds the dimension."""
    d = G.shape[0]
    leading = np.linalg.eigh(G)[1].T[::-1][:m]
    # An eigenvector's sign is arbitrary: fix it, so that every machine starts alike.
    leading = leading * np.sign(leading[np.arange(len(leading)), np.abs(leading).argmax(axis=1)])[:, None]
    return np.concatenate([leading, gaussian_atoms(max(m - d, 0), d, random_state)]) if m > d else leading
