"""Locks: one holder at a time, however others come and go."""

import os

import pytest

from dcadl import locks

pytest.importorskip("fcntl", reason="no such locks here")


def test_a_lock_that_is_held_is_refused(tmp_path):
    with (
        locks.locked(tmp_path / "a"),
        pytest.raises(ValueError, match="in use by another"),
        locks.locked(tmp_path / "a"),
    ):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_lock_on_a_file_that_was_replaced_meanwhile_is_none(tmp_path, monkeypatch):
    """Its owner ended, and somebody else holds a new file of that name."""

    def replaced(stream, _):
        os.unlink(stream.name)
        open(stream.name, "wb").close()

    monkeypatch.setattr(locks.fcntl, "flock", replaced)
    with pytest.raises(ValueError, match="in use by another"), locks.locked(tmp_path / "a"):
        pass
