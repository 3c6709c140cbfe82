"""Files that appear under their name whole or not at all: an interrupted write leaves the old one."""

from __future__ import annotations

import errno
import os
import platform
import re
import secrets
import shutil
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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
    if durable:
        remove_leftovers(path)
    temporary = temporary_beside(path)
    try:
        with errors_naming(path, temporary):
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
    with errors_naming(path, temporary):
        open(temporary, "xb").close()
        temporary.unlink()


def temporary_beside(path: Path, ending: str = "part") -> Path:
    """A hidden name in the same folder that no other process or thread uses; it tells whose it is."""
    return path.with_name(f".{path.name[:STEM]}.{_host()}-{os.getpid()}-{secrets.token_hex(4)}.{ending}")


def remove_leftovers(path: Path, ending: str = "part") -> None:
    """Remove temporary files and folders beside `path` whose process, on this machine, was killed."""
    pattern = re.compile(rf"\.{re.escape(path.name[:STEM])}\.{_host()}-(\d+)-[0-9a-f]+\.{ending}")
    with suppress(OSError):  # a missing folder has none; one that cannot be listed says so later
        for entry in os.scandir(path.parent):
            match = pattern.fullmatch(entry.name)
            if match and not _is_running(int(match[1])):
                _remove(Path(entry.path))


def _host() -> str:
    """Eight letters that stand for this machine: a folder may be shared with others."""
    return f"{zlib.crc32(platform.node().encode()):08x}"


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it is somebody else's
        return True
    return True


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


@contextmanager
def errors_naming(path: Path, temporary: Path | None = None) -> Iterator[None]:
    """Errors of the operating system under the name the user gave, instead of the temporary one or none.

    A full disk alone says "No space left on device", and not where.
    """
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename not in (None, temporary and str(temporary)):
            raise
        raise type(error)(error.errno, error.strerror, str(path)) from error
