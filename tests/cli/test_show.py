"""`dcadl show`: a picture of a model."""

from __future__ import annotations

import re
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

import dcadl
from dcadl.cli.methods import method_names
from dcadl.cli.pictures import model_picture
from dcadl.plot.atoms import drawn_atoms


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


@pytest.mark.parametrize("method", [name for name in method_names() if name != "conv-net"])
def test_what_fit_advises_to_show_is_shown(call, tmp_path, folder, monkeypatch, method):
    monkeypatch.chdir(tmp_path)
    told = call("fit", folder, "-o", "m.safetensors", "--method", method, "--no-probabilities").stdout

    advised = re.findall(r"^next: dcadl (show|info) (.*)$", told, re.MULTILINE)

    assert [call(*words).exit_code for words in advised] == [0]


def test_filters_of_a_network_are_drawn_as_pictures(rng):
    network = SimpleNamespace(filters_=rng.standard_normal((5, 12)), grid_=SimpleNamespace(patch=(3, 4)))

    np.testing.assert_array_equal(drawn_atoms(network)[2, ..., 0], network.filters_[2].reshape(3, 4))
