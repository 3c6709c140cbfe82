"""Contrast taken out of patches or images. It decides the accuracy: see docs/errata.md, point 15."""

from __future__ import annotations

from dcadl.arrays import Array, array_namespace
from dcadl.ops.codes import respond
from dcadl.ops.patches import Grid, take_patches

NORMALISATIONS = ("patch", "centred", "image", None)

# A flat patch is noise once its mean is gone: below this share of its own brightness it is not blown up.
CONTRAST_FLOOR = 1e-2


def normalise_images(X: Array, how: str | None) -> Array:
    """X with rows of unit length, if `how` asks for that ("image"); else X."""
    return unit_rows(X) if how == "image" else X


def normalise_patches(P: Array, how: str | None) -> Array:
    """P with every patch normalised, if `how` asks for that ("patch", "centred"); else P."""
    if how == "patch":
        return unit_rows(P)
    if how == "centred":
        return centred_rows(P)
    return P


def unit_rows(P: Array) -> Array:
    """Each vector along the last axis divided by its length; an all-zero one stays zero."""
    return _divide(P, row_norms(P))


def centred_rows(P: Array) -> Array:
    """Each vector along the last axis less its mean, then divided by its length (with a floor)."""
    xp = array_namespace(P)
    centred = P - xp.mean(P, axis=-1, keepdims=True)
    return _divide(centred, xp.maximum(row_norms(centred), CONTRAST_FLOOR * row_norms(P)))


def row_norms(P: Array) -> Array:
    """Length of each vector along the last axis, that axis kept."""
    xp = array_namespace(P)
    return xp.sqrt(xp.vecdot(P, P))[..., None]


def _divide(P: Array, lengths: Array) -> Array:
    return P * _inverse(lengths)


def _inverse(lengths: Array) -> Array:
    """1 / lengths, and 1 for 0."""
    return 1 / array_namespace(lengths).where(lengths > 0, lengths, 1.0)


def responses(X: Array, grid: Grid, how: str | None, Omega: Array) -> Array:
    """ΩX̄ of rows of pixels, (n, p, m). Lengths may divide the responses: they are fewer than the pixels."""
    if how != "patch" or Omega.shape[0] >= grid.d:
        return respond(normalised_patches(X, grid, how), Omega)
    P = take_patches(X, grid)
    found = respond(P, Omega)
    found *= _inverse(row_norms(P))
    return found


def normalised_patches(X: Array, grid: Grid, how: str | None) -> Array:
    """Rows of pixels (n, H·W·c) to patches (n, p, d), contrast taken out as `how` says."""
    return normalise_patches(take_patches(normalise_images(X, how), grid), how)
