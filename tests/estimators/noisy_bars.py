"""Images that LOO-ADL is tried on."""

import numpy as np


def stripes(rng, n, shape=(20, 20), channels=None):
    """Images of noise with a short bar, upright or lying, anywhere."""
    X = rng.uniform(0, 0.3, size=(n, *shape))
    y = np.arange(n) % 2
    for image, kind in zip(X, y):
        i, j = rng.integers(2, shape[0] - 8), rng.integers(2, shape[1] - 8)
        image[(slice(i, i + 6), j) if kind else (i, slice(j, j + 6))] = 1.0
    return (X if channels is None else np.repeat(X[..., None], channels, axis=3)).astype(np.float32), y
