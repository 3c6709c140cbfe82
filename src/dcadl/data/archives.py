"""Archives unpacked once into a cache folder: nothing escapes it or outgrows a limit; whole or not at all."""

import bz2
import errno
import gzip
import hashlib
import lzma
import os
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO, Any, NamedTuple

from platformdirs import user_cache_path

from dcadl.atomic import remove_leftovers, temporary_beside
from dcadl.data.errors import shortened

MAX_BYTES = 8 * 2**30  # unpacked; the largest set we know of needs a fiftieth
MAX_FILES = 200_000
COPY_BYTES = 2**20
SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")
BROKEN = (
    tarfile.TarError,
    zipfile.BadZipFile,
    lzma.LZMAError,
    zlib.error,
    EOFError,
    OSError,
    RuntimeError,  # an encrypted member
    NotImplementedError,  # an unknown compression
    MemoryError,  # a dictionary of gigabytes
)
OPENERS = {b"\x1f\x8b": gzip.open, b"BZ": bz2.open, b"\xfd7": lzma.open}  # by the first two bytes


class Member(NamedTuple):
    """One file of an archive, open for reading."""

    name: str
    content: IO[bytes]


def is_archive(path: Path) -> bool:
    """Whether the name ends like an archive's."""
    return path.name.lower().endswith(SUFFIXES)


def cache_folder() -> Path:
    """Where unpacked archives and features are kept: DCADL_CACHE, or the user's cache folder."""
    if "DCADL_CACHE" in os.environ:
        return Path(os.environ["DCADL_CACHE"])
    return user_cache_path("dcadl", appauthor=False)


def unpacked(archive: Path) -> Path:
    """Folder with the content of an archive; unpacked on the first call, found again on the next."""
    status = archive.stat()
    key = f"{archive.resolve()} {status.st_size} {status.st_mtime_ns}"
    stem = archive.name.split(".")[0]
    target = cache_folder() / "unpacked" / f"{stem}-{hashlib.sha256(key.encode()).hexdigest()[:16]}"
    return target if target.is_dir() else unpack(archive, target)


def unpack(archive: Path, target: Path, *, max_bytes: int = MAX_BYTES, max_files: int = MAX_FILES) -> Path:
    """
    Unpack a zip or tar archive into the new folder `target`, whole or not at all.

    A member that would leave the folder, a link, a device, more than `max_files` files or more than
    `max_bytes` bytes (counted while unpacking, whatever the archive says of itself) is a ValueError.
    """
    if target.exists():
        raise ValueError(f"{target} already exists; give a new folder to unpack {archive.name} into.")
    target.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(target, "unpacking")
    fresh = temporary_beside(target, "unpacking")
    fresh.mkdir()
    try:
        _write_members(archive, fresh, max_bytes, max_files)
        fresh.rename(target)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise OSError(error.errno, error.strerror, str(target)) from error
        if not target.is_dir():  # otherwise another process was first, with the same content
            raise ValueError(f"cannot unpack {archive}: {shortened(error)}") from error
    except BROKEN as error:
        raise ValueError(f"cannot unpack {archive}: {shortened(error) or type(error).__name__}") from error
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return target


def _write_members(archive: Path, folder: Path, max_bytes: int, max_files: int) -> None:
    left = max_bytes
    members = _zip_members(archive) if zipfile.is_zipfile(archive) else _tar_members(archive)
    for count, (name, content) in enumerate(members, start=1):
        if count > max_files:
            raise ValueError(f"{archive} holds more than the limit of {max_files} files.")
        place = folder / _inside(name, archive)
        place.parent.mkdir(parents=True, exist_ok=True)
        with content, place.open("wb") as file:
            while block := content.read(COPY_BYTES):
                left -= len(block)
                if left < 0:
                    raise ValueError(f"{archive} unpacks to more than the limit of {max_bytes} bytes.")
                file.write(block)


def _inside(name: str, archive: Path) -> Path:
    """The member's path, refused if it is absolute or climbs out."""
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or PureWindowsPath(name).drive or "\0" in name:
        raise ValueError(
            f"{archive} is not safe: its member {shortened(repr(name))} would be written outside the folder."
        )
    return Path(*path.parts)


def _zip_members(archive: Path) -> Iterator[Member]:
    with zipfile.ZipFile(archive) as opened:
        for info in opened.infolist():
            if stat.S_ISLNK(info.external_attr >> 16):
                raise ValueError(
                    f"{archive} is not safe: its member {shortened(repr(info.filename))} is a link."
                )
            if not info.filename:  # ZipInfo.is_dir would look at its last letter
                raise ValueError(f"{archive} is not safe: it has a member without a name.")
            if not info.is_dir():
                yield Member(info.filename, opened.open(info))


def _tar_members(archive: Path) -> Iterator[Member]:
    with archive.open("rb") as file:
        opener: Any = OPENERS.get(file.read(2), open)
    with opener(archive, "rb") as content:
        pieces: Any = _InPieces(content, archive)
        with tarfile.open(fileobj=pieces, mode="r:") as opened:
            for info in opened:
                if not info.isdir():
                    yield _tar_member(opened, info, archive)


def _tar_member(opened: tarfile.TarFile, info: tarfile.TarInfo, archive: Path) -> Member:
    content = opened.extractfile(info) if info.isreg() else None
    if content is None:
        raise ValueError(
            f"{archive} is not safe: its member {shortened(repr(info.name))} is a link or a device."
        )
    return Member(info.name, content)


class _InPieces:
    """A file that is read a piece at a time: tarfile reads a name whole, of whatever length it is."""

    def __init__(self, content: Any, archive: Path) -> None:
        self._content, self._archive = content, archive
        self.tell, self.seek = content.tell, content.seek

    def read(self, size: int) -> bytes:
        """The next bytes."""
        if size > COPY_BYTES:
            raise ValueError(f"{self._archive} is not safe: a header in it has {size} bytes.")
        data: bytes = self._content.read(size)
        return data
