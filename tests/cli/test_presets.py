"""The paper's settings."""

from __future__ import annotations

import pytest

from dcadl import estimators
from dcadl.cli.methods import build, find_method, method_names, parse_params, parse_shape
from dcadl.cli.presets import PRESETS, preset
from dcadl.ops.patches import patch_grid

CONTROLS = ("RandomAtoms", "PatchRidge")


def of(name, method="DCADL"):
    return preset(name, getattr(estimators, method))


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("method", estimators.__all__)
def test_every_preset_builds_every_method(name, method):
    cls = getattr(estimators, method)
    setting = preset(name, cls)

    built = build(cls, setting.params).get_params()

    assert {key: built[key] for key in setting.params} == setting.params


@pytest.mark.parametrize(("name", "places"), [("extended_yaleb", 42), ("ar", 40)])
def test_a_face_preset_lays_the_papers_number_of_patches(name, places):
    setting = of(name)

    assert patch_grid(setting.size, setting.params["patch_shape"], setting.params["stride"]).p == places


@pytest.mark.parametrize("name", ["caltech101", "scene15", "scene15_100"])
def test_a_feature_preset_cuts_3000_features_in_two(name):
    setting = of(name)

    assert setting.size is None
    assert patch_grid((3000,), setting.params["patch_shape"], setting.params["stride"]).p == 2


@pytest.mark.parametrize("name", PRESETS)
def test_the_controls_ridge_is_chosen_like_dcadls(name):
    """By leave-one-out: no setting gives one."""
    assert "refit_lam" not in of(name, "DCADL").params
    assert not [control for control in CONTROLS if "lam" in of(name, control).params]


def test_scene15_has_the_tables_atoms_and_the_texts():
    assert of("scene15").params["n_atoms"] == 50
    assert of("scene15").params | {"n_atoms": 100} == of("scene15_100").params


def test_a_method_without_settings_still_gets_the_patches():
    class Stranger(estimators.PatchRidge):
        pass

    assert preset("ar", Stranger) == ((55, 40), {"patch_shape": 12, "stride": 6}, False)


def test_every_estimator_can_be_named():
    assert [find_method(name).__name__ for name in method_names()] == list(estimators.__all__)


def test_values_are_read_as_python_reads_them_and_words_as_words():
    typed = ["a=1", "b=2e-3", "c=None", "d=true", "e=(4, 2)", "f=centred", "g=x=y"]

    assert parse_params(typed) == {
        "a": 1, "b": 2e-3, "c": None, "d": True, "e": (4, 2), "f": "centred", "g": "x=y"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "shape"), [("12", 12), ("48x42", (48, 42)), ("48×42", (48, 42)), (None, None)]
)
def test_shapes_are_a_number_or_height_by_width(text, shape):
    assert parse_shape(text, "--size") == shape


@pytest.mark.parametrize("text", ["", "x", "12x", "-3", "1x2x3", "0", "4x0", "1.5"])
def test_other_shapes_are_refused(text):
    with pytest.raises(ValueError, match="--size must be"):
        parse_shape(text, "--size")
