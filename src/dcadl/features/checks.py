"""What a pyramid refuses: parameters that are no numbers, and learned arrays that are not its own."""

from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np

from dcadl.features.pca import Directions

if TYPE_CHECKING:
    from dcadl.features.pyramid import SpatialPyramid

DESCRIPTOR = 128  # values of a SIFT descriptor
MOST_FEATURES, MOST_PATCHES = 10_000_000, 1_000_000  # of a picture: a file may come from anywhere


def check_integer(name: str, value: Any) -> None:
    """Refuse what is no integer of at least 1."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name} must be an integer of at least 1; got {value!r}.")


def check_learned(pyramid: "SpatialPyramid", codebook: Any, directions: Directions | None) -> None:
    """Refuse arrays that are not those of the pyramid's parameters."""
    pooled = sum(level * level for level in pyramid.levels) * pyramid.n_words
    if pooled > MOST_FEATURES or (pyramid.max_side / pyramid.step) ** 2 > MOST_PATCHES:
        raise ValueError(
            f"a picture must have at most {MOST_FEATURES} features and {MOST_PATCHES} patches; "
            "levels, n_words, max_side and step say more."
        )
    wanted: list[tuple[str, Any, tuple[int, ...]]] = [("codebook", codebook, (pyramid.n_words, DESCRIPTOR))]
    if directions is not None:
        count = len(directions.components)
        wanted += [
            ("mean", directions.mean, (pooled,)),
            ("components", directions.components, (count, pooled)),
        ]
    for name, array, shape in wanted:
        if array.shape != shape or array.dtype.kind != "f" or not np.isfinite(array).all():
            raise ValueError(f"{name} must hold finite numbers of shape {shape}; got {array.shape}.")
    if (directions is None) != (pyramid.n_components is None):
        raise ValueError("n_components and the directions of a PCA belong together; got one of the two.")
