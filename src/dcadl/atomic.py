"""Files that appear under their name whole or not at all: an interrupted write leaves the old one."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

STEM = 100  # characters of the name that its temporary file keeps: names end at 255 bytes


def write_atomically(path: str | os.PathLike[str], data: bytes) -> None:
    """`data` at `path`, or nothing new there."""
    with replacing(path) as stream:
        stream.write(data)


@contextmanager
def replacing(path: str | os.PathLike[str], *, durable: bool = True) -> Iterator[BinaryIO]:
    """A new file beside `path` to write to, which takes its place when the block ends without an error.

    A full disk and the like are an OSError that names `path`. What is not `durable` may be lost in a power
    cut; writing thousands of small files is then much faster.
    """
    path = Path(path)
    temporary = temporary_beside(path)
    try:
        with _errors_naming(path, temporary):
            # The kernel applies the umask to 0o666. Neither mkstemp, whose files nobody else may read, nor
            # os.umask, which can be read only by changing it for every thread.
            with open(temporary, "xb") as stream:
                yield stream
                stream.flush()
                if durable:
                    os.fsync(stream.fileno())
            os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def check_writable(path: str | os.PathLike[str]) -> None:
    """Before hours of work: an OSError that names `path` where a file could not be written there."""
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    temporary = temporary_beside(path)
    with _errors_naming(path, temporary):
        open(temporary, "xb").close()
        temporary.unlink()


def temporary_beside(path: Path) -> Path:
    """A hidden name in the same folder that no other process or thread uses."""
    return path.with_name(f".{path.name[:STEM]}.{secrets.token_hex(6)}.part")


@contextmanager
def _errors_naming(path: Path, temporary: Path) -> Iterator[None]:
    """Errors of the operating system under the name the user gave, instead of the temporary one or none."""
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename not in (None, str(temporary)):
            raise
        raise type(error)(error.errno, error.strerror, str(path)) from error
