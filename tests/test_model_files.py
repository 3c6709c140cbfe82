"""`dcadl.save` and `dcadl.load`: from pictures to labels in one file; what a hostile file says is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save as to_bytes
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

import dcadl
from dcadl import PatchRidge
from dcadl.features import SpatialPyramid

GOLDEN = Path(__file__).parent / "estimators" / "golden"


def scenes(n=24):
    """Pictures of differing sizes, of two kinds."""
    rng = np.random.default_rng(0)
    y = np.arange(n) % 2
    return [_scene(rng, kind) for kind in y], np.array(["across", "down"])[y]


def _scene(rng, kind):
    shape = tuple(rng.integers(24, 40, 2))
    wave = np.sin(np.mgrid[: shape[0], : shape[1]][kind] * 0.9 + rng.uniform(0, 6))
    return np.clip(128 + 90 * wave + 12 * rng.standard_normal(shape), 0, 255).astype(np.uint8)


@pytest.fixture(scope="module")
def pipeline():
    pyramid = SpatialPyramid(n_words=8, levels=(1, 2), n_components=6, n_jobs=1, progress=False)
    return Pipeline([("words", pyramid), ("ridge", PatchRidge())]).fit(*scenes())


@pytest.fixture
def file(pipeline, tmp_path):
    dcadl.save(pipeline, tmp_path / "scenes.safetensors")
    return tmp_path / "scenes.safetensors"


def test_a_pipeline_comes_back_with_the_same_scores_and_step_names(pipeline, file):
    X, y = scenes()

    loaded = dcadl.load(file)

    np.testing.assert_array_equal(loaded.decision_function(X), pipeline.decision_function(X))
    np.testing.assert_array_equal(loaded.predict_proba(X), pipeline.predict_proba(X))
    assert list(loaded.named_steps) == ["words", "ridge"]
    assert loaded.score(X, y) > 0.9


def test_a_classifier_is_saved_as_by_itself(pipeline, tmp_path):
    dcadl.save(pipeline[-1], tmp_path / "a")
    pipeline[-1].save(tmp_path / "b")

    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_the_golden_file_of_format_2_still_loads():
    loaded = dcadl.load(GOLDEN / "format2.safetensors")

    scores = loaded.decision_function(scenes()[0])

    np.testing.assert_allclose(scores, np.load(GOLDEN / "format2_expected.npz")["scores"], atol=1e-4)


@pytest.mark.parametrize(
    "steps", [(StandardScaler(), PatchRidge()), (SpatialPyramid(), StandardScaler()), (PatchRidge(),)]
)
def test_other_pipelines_are_refused_by_name(tmp_path, steps):
    with pytest.raises(ValueError, match=type(steps[0]).__name__):
        dcadl.save(make_pipeline(*steps), tmp_path / "m")
    assert not (tmp_path / "m").exists()


def test_a_pyramid_that_is_not_fitted_is_refused(tmp_path, pipeline):
    with pytest.raises(ValueError, match="not fitted"):
        dcadl.save(make_pipeline(SpatialPyramid(), pipeline[-1]), tmp_path / "m")


def changed(file, header=None, arrays=None):
    """The file with other entries in its header, or other arrays."""
    with safe_open(file, framework="numpy") as opened:
        kept = {key: opened.get_tensor(key) for key in opened.keys()}  # noqa: SIM118
        text = json.loads(opened.metadata()["dcadl"])
    return to_bytes(kept | (arrays or {}), metadata={"dcadl": json.dumps(_merged(text, header or {}))})


def _merged(old, new):
    both = {key: _merged(old[key], value) if isinstance(value, dict) else value for key, value in new.items()}
    return old | both


@pytest.mark.parametrize(
    "header",
    [
        {"features": {"class": "Popen"}},
        {"features": {"params": {"n_words": 9}}},
        {"features": {"params": {"n_words": "8"}}},
        {"features": {"params": {"levels": [10**9]}}},
        {"features": {"params": {"levels": []}}},
        {"features": {"params": {"max_side": 10**12}}},
        {"features": {"params": {"step": 0.5}}},
        {"features": {"params": {"contrast": "much"}}},
        {"features": {"params": {"n_components": None}}},
        {"features": {"params": {"cache_dir": "/etc"}}},
        {"features": {"params": {"nonsense": 1}}},
        {"features": 3},
        {"features": {"params": []}},
        {"steps": "ab"},
        {"steps": ["a", "a"]},
        {"steps": ["a", "b__c"]},
        {"class": "Pipeline"},
        {"format": 3},
        {"format": 1},
    ],
)
def test_what_a_header_says_is_not_believed(file, header):
    file.write_bytes(changed(file, header))

    with pytest.raises(ValueError, match=file.name) as refusal:
        dcadl.load(file)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    "arrays",
    [
        {"features.codebook": np.full((8, 128), np.nan, np.float32)},
        {"features.codebook": np.zeros((8, 127), np.float32)},
        {"features.mean": np.zeros(3, np.float32)},
        {"features.components": np.zeros((5, 40), np.float32)},
        {"features.more": np.zeros(3, np.float32)},
        {"classifier.more": np.zeros(3, np.float32)},
    ],
)
def test_arrays_that_do_not_belong_are_refused(file, arrays):
    file.write_bytes(changed(file, arrays=arrays))

    with pytest.raises(ValueError, match=file.name):
        dcadl.load(file)
