"""Fixtures that every room's tests share."""

from __future__ import annotations

import importlib
import os
from pathlib import Path

import numpy as np
import pytest

LIBRARIES = {
    "numpy": "array_api_compat.numpy",
    "strict": "array_api_strict",
    "torch": "array_api_compat.torch",
}


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
