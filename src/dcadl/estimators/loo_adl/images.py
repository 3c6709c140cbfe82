"""Training images of LOO-ADL: wherever they lie, copies counted once, some of them drawn fairly."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from dcadl.arrays import Array, array_namespace
from dcadl.estimators.prediction import along_samples
from dcadl.estimators.validation import (
    checked_labels,
    class_numbers,
    fit_rows,
    is_dask,
    open_npy,
    sample_weights,
    stored_rows,
)
from dcadl.solvers.dask_images import ClusterImages
from dcadl.solvers.dask_walk import DaskWalk
from dcadl.solvers.dask_watch import active_client, in_words
from dcadl.solvers.sources import StoredImages
from dcadl.solvers.walk import SerialWalk, Walk

if TYPE_CHECKING:
    from dcadl.estimators.base import Classifier

_NONE = np.empty(0, int)
LARGE_PIXELS, WORKING_PIXELS = 12_000, 8_000  # beyond the first, images are reduced to about the second


class ImageSource(Protocol):
    """Images as rows of pixels, read when asked for: `StoredImages`, `ClusterImages`."""

    def rows(self, part: slice) -> np.ndarray: ...

    def take(self, places: np.ndarray) -> np.ndarray: ...

    def digests(self) -> np.ndarray: ...


class Images(NamedTuple):
    """Distinct training images with the number of their class and their weight."""

    source: ImageSource
    places: np.ndarray  # (n,) where they lie in the source, ascending
    numbers: np.ndarray  # (n,) class of each
    weight: np.ndarray  # (n,) in units of their mean: λ would depend on the unit
    rank: np.ndarray  # (n,) place of each within its class, in an order that pixels decide
    order: np.ndarray  # (n,) positions such that every stretch of them has the shares of classes of the whole
    shape: tuple[int, ...]  # of an image as it comes
    factor: int  # by which sides are reduced
    mark: str = ""  # by which a checkpoint knows them again
    unit: float = 1.0  # mean weight as it was given

    @property
    def working_shape(self) -> tuple[int, ...]:
        """Of an image as it is worked on."""
        return reduced_shape(self.shape, self.factor)

    def take(self, positions: np.ndarray) -> np.ndarray:
        """Some images as rows, in the order of `positions`, reduced."""
        return reduce_images(self.source.take(self.places[positions]), self.shape, self.factor)

    def rows(self, part: slice) -> np.ndarray:
        """A run of images as rows, reduced."""
        found = self.places[part]
        run = self.source.rows(slice(int(found[0]), int(found[-1]) + 1))
        return reduce_images(run[found - found[0]], self.shape, self.factor)

    def part(self, which: slice) -> Images:
        """A run of them."""
        return self._replace(
            places=self.places[which], numbers=self.numbers[which], weight=self.weight[which]
        )


class Runs:
    """Images cut into runs of at most `size`, as a walk visits them."""

    def __init__(self, images: Images, size: int) -> None:
        n = len(images.places)
        self.chunks = [images.part(slice(i, min(i + size, n))) for i in range(0, n, size)]
        self._bytes = n * math.prod(images.shape) * 4

    def __sizeof__(self) -> int:
        return self._bytes  # Dask moves what is small: images must not look so


@contextmanager
def walked(images: Images, size: int) -> Iterator[tuple[Sequence[Images], Walk]]:
    """Runs of images, and the walk over them: here one after the other, on a cluster where they lie."""
    source = images.source
    if not isinstance(source, ClusterImages):
        yield Runs(images, size).chunks, SerialWalk()
        return
    places = source.by_block(images.places)
    ends = np.cumsum([len(here) for here in places])[:-1]
    numbers, weights = np.split(images.numbers, ends), np.split(images.weight, ends)
    make = partial(_block, images._replace(source=None, rank=_NONE, order=_NONE), size)  # type: ignore[arg-type]
    with in_words(source.client):
        yield source.spread(make, places, numbers, weights), DaskWalk(source.client)


def _block(
    like: Images, size: int, source: StoredImages, places: np.ndarray, numbers: np.ndarray, weight: np.ndarray
) -> Runs:
    """The images of one block on its worker."""
    return Runs(like._replace(source=source, places=places, numbers=numbers, weight=weight), size)


def training_images(
    model: Classifier, X: Any, y: Any, sample_weight: Any, factor: int | None
) -> tuple[Images, np.ndarray]:
    """Training images, checked, and the class labels in order; `factor` None: reduced by their size."""
    door = cluster_rows if is_dask(X) else stored_rows
    source, y, shape = door(model, open_npy(X), y)
    sample_weight = sample_weight.compute() if is_dask(sample_weight) else sample_weight
    weight = sample_weights(sample_weight, model.class_weight, y, np.float64)
    classes, numbers, _ = class_numbers(y, weight, np.float64)
    vector = model.image_shape is None and len(shape) == 1  # whose neighbours are not to be averaged
    factor = factor or (1 if vector else reduction(shape))
    return distinct_images(source, numbers, weight, shape, factor), classes


def cluster_rows(model: Classifier, X: Any, y: Any) -> tuple[ClusterImages, np.ndarray, tuple[int, ...]]:
    """Blocks of X on the workers of the active client; labels come home."""
    if (model.backend, model.max_memory) != ("numpy", None):
        raise ValueError(
            "Dask arrays are fitted with backend='numpy', without checkpoint and without max_memory: workers "
            "have their own limit."
        )
    client, X = active_client(), along_samples(X)
    first, _, shape = fit_rows(model, np.zeros((1, *X.shape[1:]), X.dtype), [0])
    y = checked_labels(X.shape[0], y.compute() if is_dask(y) else y)
    return ClusterImages(client, X, first.dtype), y, shape


def distinct_images(
    source: ImageSource, numbers: np.ndarray, weight: np.ndarray | None, shape: tuple[int, ...], factor: int
) -> Images:
    """Copies of an image under one label count as one image of their added weight.

    Leaving an image out must leave out all its copies: a copy that stays behind would give the answer away.
    Images of no weight are left out. Which images are drawn depends on the pixels alone, not on their order.
    """
    digests = source.digests()
    keys = np.stack([digests, numbers.astype(np.uint64)], axis=1)
    _, first, copy_of = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    added = np.bincount(copy_of.ravel(), weights=weight, minlength=len(first)).astype(np.float64)
    used = added > 0
    place = np.argsort(first[used], kind="stable")
    index, sums = first[used][place], added[used][place]
    rank = _ranks(digests[index], numbers[index])
    order = _even_order(digests[index], numbers[index], rank)
    mark = blake2b(digests.tobytes(), digest_size=16).hexdigest()
    unit = float(sums.mean())
    return Images(source, index, numbers[index], sums / unit, rank, order, shape, factor, mark, unit)


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


def _even_order(digests: np.ndarray, numbers: np.ndarray, rank: np.ndarray) -> np.ndarray:
    """Each class spread evenly; by turns where all are of one size.

    Some images are learned from and those behind them judge: were rare classes drawn first, none of them
    would be left to judge by, and what is expected of new images would hold for common classes only.
    """
    sizes = np.bincount(numbers)[numbers]
    return np.lexsort((digests, (rank + 0.5) / sizes))


def _ranks(digests: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """The place of each image in its class, in the order of digests."""
    by_digest = np.argsort(digests, kind="stable")
    rank = np.empty(len(numbers), int)
    for number in np.unique(numbers):
        members = by_digest[numbers[by_digest] == number]
        rank[members] = np.arange(len(members))
    return rank
