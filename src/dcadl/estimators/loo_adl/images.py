"""Training images of LOO-ADL: wherever they lie, copies counted once, some of them drawn fairly."""

from __future__ import annotations

import math
from collections.abc import Sequence
from hashlib import blake2b
from typing import NamedTuple, Protocol

import numpy as np

from dcadl.arrays import Array, array_namespace

LARGE_PIXELS, WORKING_PIXELS = 12_000, 8_000  # beyond the first, images are reduced to about the second


class Rows(Protocol):
    """Images as rows of pixels, read when asked for (`solvers.sources.StoredImages`)."""

    @property
    def n(self) -> int: ...

    def rows(self, part: slice) -> np.ndarray: ...


class Images(NamedTuple):
    """Distinct training images with the number of their class and their weight."""

    source: Rows
    places: np.ndarray  # (n,) where they lie in the source, ascending
    numbers: np.ndarray  # (n,) class of each
    weight: np.ndarray  # (n,)
    rank: np.ndarray  # (n,) place of each within its class, in an order that pixels decide
    order: np.ndarray  # (n,) positions by rank: by turns from every class
    shape: tuple[int, ...]  # of an image as it comes
    factor: int  # by which sides are reduced

    @property
    def working_shape(self) -> tuple[int, ...]:
        """Of an image as it is worked on."""
        return reduced_shape(self.shape, self.factor)

    def take(self, positions: np.ndarray) -> np.ndarray:
        """Some images as rows, in the order of `positions`, reduced."""
        rows = [self.source.rows(slice(i, i + 1)) for i in self.places[positions].tolist()]
        return reduce_images(np.concatenate(rows), self.shape, self.factor)

    def rows(self, part: slice) -> np.ndarray:
        """A run of images as rows, reduced."""
        found = self.places[part]
        run = self.source.rows(slice(int(found[0]), int(found[-1]) + 1))
        return reduce_images(run[found - found[0]], self.shape, self.factor)


def distinct_images(
    source: Rows, numbers: np.ndarray, weight: np.ndarray | None, shape: tuple[int, ...], factor: int
) -> Images:
    """Copies of an image under one label count as one image of their added weight.

    Leaving an image out must leave out all its copies: a copy that stays behind would give the answer away.
    Images of no weight are left out. Which images are drawn depends on the pixels alone, not on their order.
    """
    digests = np.concatenate([_digests(source.rows(part)) for part in _parts(source.n)])
    keys = np.stack([digests, numbers.astype(np.uint64)], axis=1)
    _, first, copy_of = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    added = np.bincount(copy_of.ravel(), weights=weight, minlength=len(first)).astype(np.float64)
    used = added > 0
    place = np.argsort(first[used], kind="stable")
    index, sums = first[used][place], added[used][place]
    rank = _ranks(digests[index], numbers[index])
    order = np.lexsort((digests[index], rank))
    return Images(source, index, numbers[index], sums, rank, order, shape, factor)


def reduction(shape: tuple[int, ...]) -> int:
    """How much large images are reduced: places stay dense, and their number workable."""
    pixels = math.prod(shape[:2])
    root = 1 if len(shape) == 1 else 2
    return 1 if pixels <= LARGE_PIXELS else math.ceil((pixels / WORKING_PIXELS) ** (1 / root))


def reduced_shape(shape: tuple[int, ...], factor: int) -> tuple[int, ...]:
    """Sides divided by the factor, rest dropped; channels stay."""
    return (*(max(1, side // factor) for side in shape[:2]), *shape[2:])


def reduce_images(X: Array, shape: tuple[int, ...], factor: int) -> Array:
    """Rows of pixels to rows of averages over factor × factor pixels."""
    if factor == 1:
        return X
    xp = array_namespace(X)
    H, W = shape[:2] if len(shape) > 1 else (1, shape[0])
    small = reduced_shape((H, W), factor)
    down, across = min(factor, H), min(factor, W)
    images = xp.reshape(X, (X.shape[0], H, W, -1))[:, : small[0] * down, : small[1] * across, :]
    blocks = xp.reshape(images, (X.shape[0], small[0], down, small[1], across, -1))
    return xp.reshape(xp.mean(blocks, axis=(2, 4)), (X.shape[0], -1))


def _parts(n: int) -> Sequence[slice]:
    return [slice(i, min(i + 1024, n)) for i in range(0, n, 1024)]


def _digests(rows: np.ndarray) -> np.ndarray:
    whole = np.ascontiguousarray(rows)
    return np.array([int.from_bytes(blake2b(row, digest_size=8).digest()) for row in whole], np.uint64)


def _ranks(digests: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """The place of each image in its class, in the order of digests."""
    by_digest = np.argsort(digests, kind="stable")
    rank = np.empty(len(numbers), int)
    for number in np.unique(numbers):
        members = by_digest[numbers[by_digest] == number]
        rank[members] = np.arange(len(members))
    return rank
