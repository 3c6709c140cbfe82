"""Principal directions of few long rows, through the smaller of the two Gram matrices."""

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import eigh

from dcadl.ops.floors import VARIANCE_FLOOR


class Directions(NamedTuple):
    """Centre and orthonormal directions, the one with most variance first."""

    mean: Any  # (D,)
    components: Any  # (k, D)


def principal_directions(X: Any, most: int) -> Directions:
    """
    At most `most` principal directions of the rows of X, fewer where the rows span fewer.

    scikit-learn's PCA takes the singular values of the whole matrix; with D ≫ n the n × n matrix
    of products costs a fraction of that.
    """
    mean = X.mean(axis=0)
    centred = X - mean
    wide = X.shape[1] > X.shape[0]
    products = centred @ centred.T if wide else centred.T @ centred
    variances, vectors = eigh(products.astype(np.float64))
    variances, vectors = variances[::-1][:most], vectors[:, ::-1][:, :most]
    kept = variances > VARIANCE_FLOOR * max(variances[0], 0.0)
    variances, vectors = variances[kept], vectors[:, kept]
    if wide:
        components = (vectors / np.sqrt(variances)).T.astype(X.dtype) @ centred
    else:
        components = vectors.T.astype(X.dtype)
    return Directions(mean, components * _signs(components)[:, None])


def project(X: Any, directions: Directions) -> Any:
    """Coordinates (n, k) of the rows of X along the directions."""
    offset = directions.mean @ directions.components.T
    return X @ directions.components.T - offset


def _signs(components: Any) -> Any:
    """Signs that make each direction's largest entry positive: a direction has none of its own."""
    largest = np.abs(components).argmax(axis=1)
    return np.sign(components[np.arange(len(components)), largest])
