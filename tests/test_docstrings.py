"""Examples in docstrings give what they say."""

from __future__ import annotations

import doctest
import importlib
import warnings
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"
MODULES = [
    ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
    for path in sorted(SOURCE.rglob("*.py"))
    if ">>>" in path.read_text()
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_give_what_they_say(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a short example need not converge
        found = doctest.testmod(importlib.import_module(name))

    assert found.attempted > 0
    assert found.failed == 0
