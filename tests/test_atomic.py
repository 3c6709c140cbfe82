"""Files written whole or not at all."""

import errno
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from dcadl.atomic import check_writable, replacing, temporary_beside, write_atomically


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    path = tmp_path / "m"
    path.write_bytes(b"old")
    monkeypatch.setattr("os.replace", lambda *a: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_an_error_in_the_middle_leaves_the_old_file_and_no_other(tmp_path):
    path = tmp_path / "m"
    path.write_bytes(b"old")
    with pytest.raises(ZeroDivisionError), replacing(path) as stream:
        stream.write(b"half of %d" % (1 // 0))
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o000])
def test_the_mode_is_what_the_umask_leaves(tmp_path, mask):
    before = os.umask(mask)
    try:
        write_atomically(tmp_path / "m", b"new")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "m").stat().st_mode) == 0o666 & ~mask


def test_the_umask_is_never_changed(tmp_path, monkeypatch):
    monkeypatch.setattr("os.umask", lambda mask: pytest.fail("the umask belongs to the whole process"))
    threads = [threading.Thread(target=write_atomically, args=(tmp_path / str(i), b"new")) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(list(tmp_path.iterdir())) == 8


def test_a_full_disk_is_an_error_that_names_the_file(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match=r"No space left on device.*model\.safetensors"):
        write_atomically(tmp_path / "model.safetensors", b"new")
    assert not list(tmp_path.iterdir())


def test_a_missing_folder_is_an_error_that_names_the_file(tmp_path):
    with pytest.raises(FileNotFoundError) as raised:
        write_atomically(tmp_path / "none" / "model", b"new")
    assert raised.value.filename == str(tmp_path / "none" / "model")


def test_a_name_as_long_as_names_may_be_is_written(tmp_path):
    path = tmp_path / ("m" * 255)
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"


def test_a_place_that_can_be_written_to_is_left_as_it_is(tmp_path):
    check_writable(tmp_path / "model")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("place", [".", "none/model", "file/model"])
def test_a_place_that_cannot_be_written_to_is_named(tmp_path, place):
    (tmp_path / "file").touch()
    with pytest.raises(OSError) as raised:
        check_writable(tmp_path / place)
    assert raised.value.filename == str(tmp_path / place)


def left_by_the_dead(path):
    """A temporary name beside `path` as a process would have it that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return Path(str(temporary_beside(path)).replace(f"-{os.getpid()}-", f"-{process.pid}-"))


def test_what_a_killed_process_left_is_removed_by_the_next_write(tmp_path):
    left = left_by_the_dead(tmp_path / "model")
    left.write_bytes(b"half a model")
    mine = temporary_beside(tmp_path / "model")
    mine.write_bytes(b"another thread's")
    others = tmp_path / left.name.replace(".model.", ".other.")
    others.write_bytes(b"of another file")

    write_atomically(tmp_path / "model", b"new")

    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(["model", mine.name, others.name])


def test_what_another_machine_writes_is_left_alone(tmp_path, monkeypatch):
    foreign = left_by_the_dead(tmp_path / "model")
    foreign.write_bytes(b"half a model")
    monkeypatch.setattr("platform.node", lambda: "another")

    write_atomically(tmp_path / "model", b"new")

    assert foreign.exists()
