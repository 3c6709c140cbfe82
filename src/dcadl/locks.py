"""One command or fit at a time on a file: two would do everything twice, or lose each other's work."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

try:
    import fcntl
except ImportError:
    fcntl = None  # type: ignore[assignment]


@contextmanager
def locked(path: str | os.PathLike[str]) -> Iterator[None]:
    """While it lasts, no other command or fit of ours writes to `path`.

    The lock is on a hidden file beside it: a file that is replaced whole cannot carry its own. The system
    lets go of it when the process ends, however it ends.
    """
    lock = Path(path).with_name(f".{Path(path).name}.lock")
    if not lock.parent.is_dir():
        raise ValueError(f"{path} must be a file in a folder that exists.")
    with open(lock, "a+b") as stream:
        _lock(stream, path)
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)  # before the lock goes: nobody else holds it


def _lock(stream: Any, path: str | os.PathLike[str]) -> None:
    if fcntl is None:  # Windows has no such lock
        return
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Gone, or another one, where its owner ended between our opening and our locking it.
        ours = os.path.samestat(os.fstat(stream.fileno()), os.stat(stream.name))
    except (BlockingIOError, FileNotFoundError):
        ours = False
    if not ours:
        raise ValueError(f"{path} is in use by another command or fit: wait, or name another file.") from None
