"""Waiting for a Dask cluster that may be gone: Dask itself waits for ever."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from time import monotonic
from typing import Any

LOOK = 2.0  # seconds between two looks at the cluster
PATIENCE = 20.0  # seconds without a sign of life from any worker


def active_client() -> Any:
    """The client that dask arrays are computed by."""
    try:
        from distributed import default_client
    except ImportError:
        raise ValueError("Dask arrays need dask and distributed: pip install 'dcadl[dask]'.") from None
    try:
        return default_client()
    except ValueError:
        raise ValueError(
            "X is a dask array, and no client is active: make one with dask.distributed.Client()."
        ) from None


def results(client: Any, futures: Sequence[Any]) -> list[Any]:
    """What the futures give; a cluster that has lost scheduler or workers, or is silent, is an error."""
    from distributed import wait

    with in_words(client):
        watch = _Watch(client)
        while True:
            try:
                wait(futures, timeout=LOOK)
                return [future.result(timeout=PATIENCE) for future in futures]
            except TimeoutError:
                watch.look()


@contextmanager
def in_words(client: Any) -> Iterator[None]:
    """Dask's own errors of a cluster that is lost, as ours."""
    from distributed import KilledWorker
    from distributed.client import ClosedClientError
    from distributed.comm import CommClosedError

    try:
        yield
    except KilledWorker as error:
        raise MemoryError(
            "A chunk brought down one worker after the other, most likely out of memory. Use smaller chunks "
            f"(X.rechunk) or workers with more memory. Dask says: {error}"
        ) from None
    except (CancelledError, ClosedClientError, CommClosedError):
        raise _lost(client) from None


class _Watch:
    """Notes when a worker was last heard of; by the scheduler's clock, which need not be ours."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._heard: Any = None
        self._since = monotonic()

    def look(self) -> None:
        """Raise where the scheduler is lost, or nothing was heard for too long."""
        if self._client.status != "running":
            raise _lost(self._client)
        workers = self._workers()
        heard = None if not workers else max(worker["last_seen"] for worker in workers.values())
        if heard is not None and heard != self._heard:
            self._heard, self._since = heard, monotonic()
        if monotonic() - self._since > PATIENCE:
            where = _address(self._client)
            if workers is None:
                raise ConnectionError(f"Dask's scheduler at {where} has not answered for {PATIENCE:g} s.")
            if not workers:
                raise ConnectionError(f"The Dask cluster at {where} has had no worker for {PATIENCE:g} s.")
            raise ConnectionError(
                f"None of the {len(workers)} workers of the Dask cluster at {where} has been heard of for "
                f"{PATIENCE:g} s: they hang, or their machine is gone."
            )

    def _workers(self) -> dict[str, Any] | None:
        """What the scheduler knows of its workers, or None where it does not answer."""
        try:
            return self._client.sync(self._client.scheduler.identity, callback_timeout=LOOK)["workers"]
        except (TimeoutError, OSError):
            return None


def _lost(client: Any) -> ConnectionError:
    return ConnectionError(
        f"The connection to Dask's scheduler at {_address(client)} is lost; start the fit anew."
    )


def _address(client: Any) -> str:
    return getattr(client.scheduler, "address", None) or "its address"
