"""Small pictures on disk, and the shared data where it is there."""

import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from threadpoolctl import threadpool_limits


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DCADL_CACHE", str(tmp_path / "cache"))


@pytest.fixture(autouse=True)
def _one_thread():
    """Problems this small only lose time when two libraries' threads wait for each other."""
    with threadpool_limits(1):
        yield


@pytest.fixture
def shared() -> Path:
    if "DCADL_DATA" not in os.environ:
        pytest.skip("DCADL_DATA is not set: this test reads the shared data sets")
    return Path(os.environ["DCADL_DATA"])


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
