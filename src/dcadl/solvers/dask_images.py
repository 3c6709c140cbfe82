"""Images on the workers of a Dask cluster, of which some are asked for and all are summed over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dcadl.solvers.dask_walk import Remote
from dcadl.solvers.dask_watch import results
from dcadl.solvers.sources import StoredImages


class ClusterImages:
    """Blocks of a dask array, computed where they will stay. Only images that are asked for come home."""

    def __init__(self, client: Any, X: Any, dtype: Any) -> None:
        self.client, self.n, self._dtype = client, int(X.shape[0]), dtype
        self._blocks = client.compute(list(X.to_delayed().ravel()))
        self._ends = np.cumsum((0, *X.chunks[0]))

    def rows(self, part: slice) -> np.ndarray:
        """A run of images as rows."""
        return self.take(np.arange(part.start, part.stop))

    def take(self, places: np.ndarray) -> np.ndarray:
        """Images as rows, in the order of `places`."""
        order = np.argsort(places, kind="stable")
        wanted = self.by_block(places[order])
        asked = [(block, here) for block, here in zip(self._stored(), wanted) if len(here)]
        found = results(
            self.client, [self.client.submit(StoredImages.take, *one, pure=False) for one in asked]
        )
        rows = np.concatenate(found)
        return rows[np.argsort(order, kind="stable")]

    def digests(self) -> np.ndarray:
        """A number for each image, the same for the same pixels."""
        made = self.client.map(StoredImages.digests, self._stored(), pure=False)
        return np.concatenate(results(self.client, made))

    def by_block(self, places: np.ndarray) -> list[np.ndarray]:
        """Ascending places as places within each block."""
        cuts = np.searchsorted(places, self._ends)
        return [places[a:b] - begin for a, b, begin in zip(cuts, cuts[1:], self._ends)]

    def spread(self, make: Callable[..., Any], places: list[np.ndarray], *columns: Sequence[Any]) -> Remote:
        """`make` of each block that has a place, and of its entries in the columns, on the workers."""
        rows = [row for row in zip(self._stored(), places, *columns) if len(row[1])]
        return Remote([self.client.submit(make, *row, pure=False) for row in rows])

    def _stored(self) -> list[Any]:
        firsts = self._ends[:-1].tolist()
        given = zip(self._blocks, firsts)
        return [self.client.submit(StoredImages, X, self._dtype, first, pure=False) for X, first in given]
