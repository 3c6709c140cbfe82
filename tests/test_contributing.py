"""CONTRIBUTING's worked example: two files and two lines add a method."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.utils.estimator_checks import check_estimator

import dcadl
import dcadl.estimators
import dcadl.solvers
from dcadl.cli.methods import find_method

PAGE = Path(__file__).parents[1] / "CONTRIBUTING.md"
FILES = re.findall(r"```python\n# (\w+)/(\w+)\.py\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)


@pytest.fixture
def RidgeMeans(monkeypatch):
    """The class of the example, added to the package as its page says."""
    for room, name, text in FILES:
        module = ModuleType(f"dcadl.{room}.{name}")
        monkeypatch.setitem(sys.modules, module.__name__, module)
        monkeypatch.setattr(sys.modules[f"dcadl.{room}"], name, module, raising=False)
        exec(compile(text, f"{room}/{name}.py", "exec"), vars(module))
    for package in (dcadl.estimators, dcadl):
        monkeypatch.setattr(package, "RidgeMeans", module.RidgeMeans, raising=False)
        monkeypatch.setattr(package, "__all__", [*package.__all__, "RidgeMeans"])
    return module.RidgeMeans


@pytest.fixture(scope="module")
def digits():
    data = load_digits()
    return data.images.astype(np.float32) / 16, data.target


def test_the_page_holds_a_solver_and_an_estimator():
    assert [(room, name) for room, name, _ in FILES] == [
        ("solvers", "ridge_means"),
        ("estimators", "ridge_means"),
    ]


def test_only_public_names_are_imported():
    imported = re.findall(r"import (.*)", "\n".join(text for _, _, text in FILES))
    assert not [name for line in imported for name in line.split(", ") if name.startswith("_")]


@pytest.mark.filterwarnings("ignore")
def test_scikit_learn_accepts_the_example(RidgeMeans):
    check_estimator(RidgeMeans())


@pytest.mark.parametrize("backend", ["numpy", "torch"])
def test_the_example_finds_the_means_in_closed_form(RidgeMeans, digits, backend):
    pytest.importorskip(backend)
    X, y = digits
    model = RidgeMeans(lam=3.0, backend=backend).fit(X, y)

    sums = np.stack([X[y == c].sum(axis=0).ravel() for c in range(10)])
    expected = sums / (np.bincount(y)[:, None] + 3.0)

    np.testing.assert_allclose(model.means_, expected, atol=1e-5)


def test_the_example_is_saved_loaded_and_found_on_the_command_line(RidgeMeans, digits, tmp_path):
    X, y = digits
    model = RidgeMeans().fit(X[:1000], y[:1000])
    model.save(tmp_path / "m.safetensors")

    np.testing.assert_array_equal(dcadl.load(tmp_path / "m.safetensors").predict(X), model.predict(X))
    assert model.score(X[1000:], y[1000:]) > 0.8
    assert find_method("ridge-means") is RidgeMeans
