"""`normalize="auto"`: chosen on training images alone, the same behind every door, kept in files."""

from __future__ import annotations

import json

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from sklearn.base import clone

import dcadl
from dcadl import DCADL, PatchRidge, RandomAtoms
from dcadl.bench.controls import PCAAtoms
from dcadl.deploy.reference import run
from dcadl.deploy.translate import operations_of

FAST = {"patch_shape": 4, "stride": 4}
SMALL = DCADL(n_atoms=6, max_iter=3, tol=0, random_state=0, **FAST)
MODELS = [SMALL, RandomAtoms(n_atoms=6, random_state=0, **FAST), PatchRidge(**FAST)]


def lamps(n=120):
    """Three textures of 8×8; every 4×4 quarter is raised by chance, and much."""
    rng = np.random.default_rng(0)
    y = np.arange(n) % 3
    texture = rng.standard_normal((3, 8, 8))[y] + 0.5 * rng.standard_normal((n, 8, 8))
    return texture + np.kron(rng.uniform(5, 50, (n, 2, 2)), np.ones((4, 4))), y


def shades(n=120):
    """Nothing but noise within a quarter; one of them is brighter than the others, by the class."""
    rng = np.random.default_rng(0)
    y = np.arange(n) % 3
    light = 5 + 5 * np.eye(4)[y].reshape(n, 2, 2)
    return 0.1 * rng.standard_normal((n, 8, 8)) + np.kron(light, np.ones((4, 4))), y


@pytest.mark.parametrize("model", [*MODELS, PCAAtoms(n_atoms=6, **FAST)], ids=lambda m: type(m).__name__)
def test_under_changing_light_means_are_removed(model):
    assert clone(model).fit(*lamps()).normalize_ == "centred"


@pytest.mark.parametrize("model", MODELS, ids=lambda m: type(m).__name__)
def test_where_light_is_the_class_patches_keep_it(model):
    assert clone(model).fit(*shades()).normalize_ == "image"


def test_the_choice_is_the_model_that_names_it():
    X, y = lamps()
    chosen, named = (clone(SMALL).set_params(normalize=how).fit(X, y) for how in ("auto", "centred"))
    np.testing.assert_array_equal(chosen.coef_, named.coef_)


def test_memory_and_disk_choose_alike(tmp_path):
    X, y = lamps()
    np.save(tmp_path / "X.npy", X)
    on_disk = clone(SMALL).fit(tmp_path / "X.npy", y)
    limited = clone(SMALL).set_params(max_memory="1GB").fit(X, y)
    assert on_disk.normalize_ == limited.normalize_ == "centred"


def test_a_stream_chooses_on_its_first_batch_and_stays_with_it():
    (X, y), (bright, z) = lamps(), shades()
    model = DCADL(n_atoms=6, **FAST).partial_fit(X, y, classes=[0, 1, 2])
    assert model.normalize_ == "centred"
    assert model.partial_fit(bright, z).normalize_ == "centred"


def test_the_papers_solver_keeps_the_papers():
    assert DCADL(n_atoms=6, solver="paper", max_iter=2, **FAST).fit(*lamps()).normalize_ == "patch"


@pytest.mark.parametrize("model", MODELS, ids=lambda m: type(m).__name__)
def test_files_and_exports_keep_the_choice(model, tmp_path):
    X, y = lamps()
    model = clone(model).fit(X, y)
    model.save(tmp_path / "m.safetensors")
    loaded = dcadl.load(tmp_path / "m.safetensors")
    assert loaded.normalize_ == "centred"
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))
    np.testing.assert_allclose(run(operations_of(loaded), X).scores, model.decision_function(X), atol=1e-6)


def test_a_file_without_a_choice_is_as_it_was_before_there_was_one(tmp_path):
    model = PatchRidge(normalize="image", **FAST).fit(*lamps())
    model.save(tmp_path / "m.safetensors")
    with safe_open(tmp_path / "m.safetensors", "numpy") as file:
        assert "normalize_" not in json.loads(file.metadata()["dcadl"])["values"]
    assert dcadl.load(tmp_path / "m.safetensors").normalize_ == "image"


def test_a_file_with_another_word_is_refused(tmp_path):
    PatchRidge(**FAST).fit(*lamps()).save(tmp_path / "m.safetensors")
    with safe_open(tmp_path / "m.safetensors", "numpy") as file:
        header = json.loads(file.metadata()["dcadl"])
    header["values"]["normalize_"] = "auto"
    save_file(
        load_file(tmp_path / "m.safetensors"), tmp_path / "m.safetensors", {"dcadl": json.dumps(header)}
    )
    with pytest.raises(ValueError, match="normalize_ must be one of 'patch'"):
        dcadl.load(tmp_path / "m.safetensors")
