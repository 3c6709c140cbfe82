"""Fixtures that every room's tests share."""

from __future__ import annotations

import importlib
import os
import signal
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from threadpoolctl import threadpool_limits

LIBRARIES = {
    "numpy": "array_api_compat.numpy",
    "strict": "array_api_strict",
    "torch": "array_api_compat.torch",
}

# A shell starts what it runs in the background with Ctrl-C ignored, which commands under test would inherit.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(params=LIBRARIES)
def xp(request):
    """An array library: NumPy, one that refuses what the standard lacks, and torch where installed."""
    if request.param == "torch":
        pytest.importorskip("torch", reason="torch is not installed: pip install 'dcadl[torch]'")
    return importlib.import_module(LIBRARIES[request.param])


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture(scope="session")
def data_root():
    """The folder of real data sets, or a skip with its reason."""
    root = os.environ.get("DCADL_DATA")
    if not root:
        pytest.skip("DCADL_DATA is not set: real data sets are not at hand")
    return Path(root)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    """No test reads or fills the user's cache."""
    monkeypatch.setenv("DCADL_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def one_thread():
    """Problems this small only lose time when two libraries' threads wait for each other."""
    with threadpool_limits(1):
        yield


@pytest.fixture
def draw(rng):
    """Writes a picture of random values and returns them."""

    def write(path: Path, shape=(12, 10), **options):
        path.parent.mkdir(parents=True, exist_ok=True)
        values = rng.integers(0, 256, shape, dtype=np.uint8)
        Image.fromarray(values).save(path, **options)
        return values

    return write


@pytest.fixture
def pets(tmp_path, draw) -> Path:
    """A folder of two classes with three pictures each."""
    for name in ("cat", "dog"):
        for i in range(3):
            draw(tmp_path / "pets" / name / f"{i}.png")
    return tmp_path / "pets"
