"""What may not be read, as somebody who is not root meets it."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager

import pytest

pytestmark = pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
NOBODY = 65534


@contextmanager
def unprivileged():
    """For this block not root, whom no permission stops."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


@pytest.fixture
def place(tmp_path):
    """A folder that everybody may enter; pytest's own are the user's alone."""
    for path in (tmp_path, *tmp_path.parents):
        if path.stat().st_uid == os.geteuid():
            path.chmod(path.stat().st_mode | 0o755)
    return tmp_path


@pytest.fixture
def data(folder, place):
    """The pictures where everybody may read them."""
    root = shutil.copytree(folder, place / "data")
    for path in (root, *root.iterdir()):
        path.chmod(0o755)
    return root


@pytest.mark.parametrize("command", ["info", "predict", "evaluate"])
def test_a_model_that_may_not_be_read_is_said_to_be_that(call, refused, model, data, place, command):
    words = {"info": [], "predict": [data / "down"], "evaluate": [data]}[command]
    assert call(command, model, *words).exit_code == 0  # all that is imported is imported now
    locked = place / "locked.safetensors"
    shutil.copy(model, locked)
    locked.chmod(0)

    with unprivileged():
        line = refused(command, locked, *words)

    assert f"cannot be read: {locked}: Permission denied" in line


def test_a_class_folder_that_may_not_be_read_is_named(refused, data, place):
    place.chmod(0o777)
    (data / "down").chmod(0)

    try:
        with unprivileged():
            line = refused("fit", data, "-o", place / "m")
    finally:
        (data / "down").chmod(0o755)

    assert str(data / "down") in line
    assert "Permission denied" in line


def test_a_folder_of_pictures_to_predict_that_may_not_be_read_is_named(call, refused, model, data):
    assert call("predict", model, data).exit_code == 0  # all that is imported is imported now
    (data / "down").chmod(0)

    try:
        with unprivileged():
            line = refused("predict", model, data)
    finally:
        (data / "down").chmod(0o755)

    assert f"cannot read the folder {data / 'down'}: Permission denied" in line


def test_a_place_that_may_not_be_written_to_is_said_before_the_fit(refused, data, place):
    closed = place / "closed"
    closed.mkdir(mode=0o555)

    with unprivileged():
        line = refused("fit", data, "-o", closed / "m")

    assert str(closed / "m") in line
    assert "Permission denied" in line
