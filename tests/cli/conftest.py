"""A small folder of pictures, a model of it, and a way to run the command."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from dcadl.cli import app

CLASSES = {"across": (1, 0), "down": (0, 1), "slant": (1, 1)}
SIDE = 12


def stripes(direction, phase, rng):
    """A noisy uint8 picture of stripes that run one way."""
    rows, columns = np.mgrid[:SIDE, :SIDE]
    wave = np.sin(rows * direction[0] + columns * direction[1] + phase)
    return np.clip(127 + 90 * wave + 8 * rng.standard_normal((SIDE, SIDE)), 0, 255).astype(np.uint8)


@pytest.fixture(scope="session")
def arrays():
    """Pictures (n, H, W) and their class names."""
    rng = np.random.default_rng(0)
    images = [stripes(d, phase, rng) for d in CLASSES.values() for phase in np.linspace(0, 6, 12)]
    return np.stack(images), np.repeat(list(CLASSES), 12)


@pytest.fixture(scope="session")
def folder(tmp_path_factory, arrays):
    """The same as files, one sub-folder per class."""
    root = tmp_path_factory.mktemp("stripes")
    for i, (image, label) in enumerate(zip(*arrays)):
        (root / label).mkdir(exist_ok=True)
        Image.fromarray(image).save(root / label / f"{i:02}.png")
    return root


@pytest.fixture(scope="session")
def call():
    """Run the command in this process."""
    runner = CliRunner()
    return lambda *words: runner.invoke(app, [str(word) for word in words])


@pytest.fixture(scope="session")
def model(tmp_path_factory, call, folder):
    """A model of the folder."""
    path = tmp_path_factory.mktemp("models") / "stripes.safetensors"
    words = ("--method", "dcadl", "--patch", 6, "--atoms", 8, "--param", "max_iter=5", "--param", "tol=0")
    result = call("fit", folder, "-o", path, *words)
    assert result.exit_code == 0, result.output
    return path


@pytest.fixture
def refused(call):
    """Run the command and give the one line on stderr with which it refuses."""

    def run(*words):
        result = call(*words)
        assert result.exit_code == 2, result.output
        assert result.stderr.count("\n") == 1
        assert result.stderr.startswith("error: ")
        return result.stderr

    return run
