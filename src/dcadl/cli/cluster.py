"""`--dask` and `--workers`: data spread over a Dask cluster for the time of a fit."""

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

Spread = Callable[[Any, Any], tuple[Any, Any]]  # X, y -> the same on the cluster
CONNECT = 10  # seconds that a scheduler has to answer in
BLOCKS = 4  # for each worker: when one dies, the others can share its work


def check_cluster(method: type, address: str | None, workers: int | None) -> None:
    """Refuse words that contradict each other, and methods that know one machine only."""
    if address is not None and workers is not None:
        raise ValueError("give --dask or --workers, not both.")
    if (address is not None or workers is not None) and method.__name__ not in ("DCADL", "LOOADL"):
        raise ValueError(f"{method.__name__} fits on one machine; leave out --dask and --workers.")


@contextmanager
def on_cluster(address: str | None, workers: int | None) -> Iterator[Spread]:
    """Connect to a cluster, or start one on this machine; without either nothing is spread."""
    if address is None and workers is None:
        yield lambda X, y: (X, y)
        return
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        raise ValueError("--dask and --workers need Dask: pip install 'dcadl[dask]'.") from None
    with ExitStack() as opened:
        logging.disable()  # Dask logs tracebacks of what we say in a line
        opened.callback(logging.disable, logging.NOTSET)
        if workers is not None:
            cluster = opened.enter_context(LocalCluster(n_workers=workers, threads_per_worker=1))
            opened.enter_context(Client(cluster))
            yield _spread(workers)
            return
        try:
            client = opened.enter_context(Client(address, timeout=CONNECT))
            found = client.sync(client.scheduler.ncores, callback_timeout=CONNECT)
        except (OSError, ValueError) as error:
            raise ValueError(f"no Dask scheduler answers at {address}: {error}") from None
        yield _spread(max(1, len(found)))


def _spread(workers: int) -> Spread:
    def spread(X: Any, y: Any) -> tuple[Any, Any]:
        import dask.array as da

        size = -(-len(X) // (BLOCKS * workers))
        return da.from_array(X, chunks=(size, *X.shape[1:])), da.from_array(y, chunks=size)

    return spread
