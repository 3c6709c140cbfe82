"""`dcadl show`: a picture of a model."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

import dcadl
from dcadl.cli.pictures import model_picture


@pytest.fixture(scope="module")
def chooser(arrays):
    """A model that compared structures."""
    images, labels = arrays
    return dcadl.LOOADL(learn=False, random_state=0).fit(images.astype(np.float32) / 255, labels)


def test_a_picture_is_written_beside_us_under_the_models_name(call, tmp_path, monkeypatch, model):
    monkeypatch.chdir(tmp_path)

    result = call("show", model)

    assert result.exit_code == 0, result.output
    with Image.open(tmp_path / f"{model.stem}.png") as picture:
        assert picture.width > 400


def test_filters_structures_and_confusions_are_drawn(chooser):
    titles = " ".join(ax.get_title() for ax in model_picture(chooser, "stripes").axes)

    assert f"{len(chooser.atoms_)} atoms" in titles
    assert f"of {len(chooser.candidates_)} structures" in titles
    assert f"{chooser.expected_accuracy_:.1%} of new images right" in titles


def test_a_model_with_nothing_to_draw_is_refused(refused, tmp_path, rng):
    dcadl.PatchRidge().fit(rng.standard_normal((10, 6)), np.arange(10) % 2).save(tmp_path / "m")

    assert "neither atoms nor confusions" in refused("show", tmp_path / "m", "-o", tmp_path / "m.png")


def test_what_is_no_picture_by_its_name_is_refused(refused, model):
    assert "must end in .png" in refused("show", model, "-o", "model.txt")
