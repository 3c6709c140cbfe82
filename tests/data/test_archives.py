"""Archives: what is inside comes out; nothing climbs out, outgrows its limit or stays half done."""

import errno
import io
import os
import subprocess
import sys
import tarfile
import zipfile

import pytest

from dcadl.atomic import temporary_beside
from dcadl.data.archives import unpack, unpacked


def make_tar(path, members, mode="w"):
    with tarfile.open(path, mode) as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def make_zip(path, members, **options):
    with zipfile.ZipFile(path, "w", **options) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


GOOD = {"a/1.txt": b"one", "a/b/2.txt": b"two"}
BAD_NAMES = ["../evil.txt", "/evil.txt", "a/../../evil.txt", "C:\\evil.txt", "..\\evil.txt"]


@pytest.mark.parametrize(
    ("suffix", "mode"), [("tar", "w"), ("tar.gz", "w:gz"), ("tar.bz2", "w:bz2"), ("tgz", "w:gz")]
)
def test_tar_archives_are_unpacked(tmp_path, suffix, mode):
    folder = unpack(make_tar(tmp_path / f"x.{suffix}", GOOD, mode), tmp_path / "out")
    assert {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*.txt")} == GOOD


def test_zip_archives_are_unpacked(tmp_path):
    folder = unpack(make_zip(tmp_path / "x.zip", GOOD), tmp_path / "out")
    assert {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*.txt")} == GOOD


@pytest.mark.parametrize("name", BAD_NAMES)
@pytest.mark.parametrize("make", [make_tar, make_zip], ids=["tar", "zip"])
def test_members_that_climb_out_are_refused_and_nothing_is_left(tmp_path, make, name):
    archive = make(tmp_path / "x.archive", {"fine.txt": b"x", name: b"evil"})
    with pytest.raises(ValueError, match="not safe"):
        unpack(archive, tmp_path / "deep" / "er" / "out")
    assert list((tmp_path / "deep" / "er").iterdir()) == []
    assert list(tmp_path.rglob("evil*")) == []


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
def test_links_and_devices_in_a_tar_are_refused(tmp_path, kind):
    with tarfile.open(tmp_path / "x.tar", "w") as archive:
        info = tarfile.TarInfo("link")
        info.type, info.linkname = kind, "/etc/passwd"
        archive.addfile(info)
    with pytest.raises(ValueError, match="link or a device"):
        unpack(tmp_path / "x.tar", tmp_path / "out")


def test_links_in_a_zip_are_refused(tmp_path):
    info = zipfile.ZipInfo("link")
    info.external_attr = 0o120777 << 16
    make_zip(tmp_path / "x.zip", {info: b"/etc/passwd"})
    with pytest.raises(ValueError, match="is a link"):
        unpack(tmp_path / "x.zip", tmp_path / "out")


def test_a_zip_bomb_stops_at_the_limit_and_leaves_nothing(tmp_path):
    bomb = make_zip(tmp_path / "x.zip", {"zeros": bytes(5_000_000)}, compression=zipfile.ZIP_DEFLATED)
    assert bomb.stat().st_size < 10_000
    with pytest.raises(ValueError, match="more than the limit of 1000000 bytes"):
        unpack(bomb, tmp_path / "out" / "x", max_bytes=1_000_000)
    assert list((tmp_path / "out").iterdir()) == []


def test_many_small_files_count_together(tmp_path):
    archive = make_tar(tmp_path / "x.tar", {f"{i}": b"0123456789" for i in range(20)})
    with pytest.raises(ValueError, match="limit of 150 bytes"):
        unpack(archive, tmp_path / "out", max_bytes=150)
    with pytest.raises(ValueError, match="limit of 19 files"):
        unpack(archive, tmp_path / "out", max_files=19)


@pytest.mark.parametrize("cut", [0.3, 0.6, 0.95])
def test_a_truncated_archive_is_named_and_leaves_nothing(tmp_path, rng, cut):
    archive = make_tar(tmp_path / "cut.tar.gz", {"noise": rng.bytes(20_000)}, "w:gz")
    content = archive.read_bytes()
    archive.write_bytes(content[: int(len(content) * cut)])
    with pytest.raises(ValueError, match=r"cut\.tar\.gz"):
        unpack(archive, tmp_path / "out" / "x")
    assert list((tmp_path / "out").iterdir()) == []


def test_a_file_that_is_no_archive_is_named(tmp_path):
    (tmp_path / "x.tar").write_text("hello")
    with pytest.raises(ValueError, match=r"x\.tar"):
        unpack(tmp_path / "x.tar", tmp_path / "out")


def test_an_existing_folder_is_never_unpacked_into(tmp_path):
    (tmp_path / "out").mkdir()
    with pytest.raises(ValueError, match="already"):
        unpack(make_zip(tmp_path / "x.zip", GOOD), tmp_path / "out")


def test_an_archive_is_unpacked_once_until_it_changes(tmp_path):
    archive = make_zip(tmp_path / "x.zip", GOOD)
    first = unpacked(archive)
    assert unpacked(archive) == first
    make_zip(archive, {"other.txt": b"changed now"})
    assert (unpacked(archive) / "other.txt").is_file()


def test_the_folder_of_a_killed_run_is_removed_by_the_next(tmp_path):
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("a.txt", "content")
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    left = temporary_beside(tmp_path / "out", "unpacking")
    left = left.with_name(left.name.replace(f"-{os.getpid()}-", f"-{process.pid}-"))
    (left / "deep").mkdir(parents=True)

    unpack(tmp_path / "x.zip", tmp_path / "out")

    assert sorted(p.name for p in tmp_path.iterdir()) == ["out", "x.zip"]


def test_a_full_disk_is_said_with_the_folder(tmp_path, monkeypatch):
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("a.txt", "content")

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("dcadl.data.archives._write_members", full)
    with pytest.raises(OSError, match="No space left on device") as raised:
        unpack(tmp_path / "x.zip", tmp_path / "out")
    assert raised.value.filename == str(tmp_path / "out")
    assert [p.name for p in tmp_path.iterdir()] == ["x.zip"]


def test_a_long_name_does_not_make_a_long_message(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("../" + "n" * 5000, b"x")
    with pytest.raises(ValueError, match="outside the folder") as caught:
        unpack(tmp_path / "a.zip", tmp_path / "out")
    assert len(str(caught.value)) < 500
