"""The paper's settings."""

from __future__ import annotations

import pytest

from dcadl import estimators
from dcadl.cli.methods import build, find_method, method_names, parse_params, parse_shape
from dcadl.cli.presets import preset, read_presets
from dcadl.ops.patches import patch_grid

CONTROLS = ("RandomAtoms", "PatchRidge")


@pytest.mark.parametrize("name", read_presets())
@pytest.mark.parametrize("method", ["DCADL", *CONTROLS])
def test_every_preset_builds_every_method_of_the_demo(name, method):
    cls = getattr(estimators, method)
    setting = preset(name, cls)

    assert setting.tuned
    assert build(cls, setting.params).get_params()["stride"] == setting.params["stride"]


@pytest.mark.parametrize(("name", "places"), [("extended_yaleb", 42), ("ar", 40)])
def test_a_face_preset_lays_the_papers_number_of_patches(name, places):
    setting = read_presets()[name]

    assert patch_grid(setting["size"], setting["patch_shape"], setting["stride"]).p == places


@pytest.mark.parametrize("name", ["caltech101", "scene15", "scene15_100"])
def test_a_feature_preset_cuts_3000_features_in_two(name):
    setting = read_presets()[name]

    assert patch_grid((3000,), setting["patch_shape"], setting["stride"]).p == 2


@pytest.mark.parametrize("name", read_presets())
def test_the_controls_ridge_is_the_ridge_of_dcadls_classifier(name):
    setting = read_presets()[name]
    ratio = setting["DCADL"]["lam3"] / setting["DCADL"]["lam2"]

    assert [setting[control]["lam"] for control in CONTROLS] == pytest.approx([ratio, ratio])
    assert setting["RandomAtoms"]["lam1"] == setting["DCADL"]["lam1"]


def test_scene15_has_the_tables_atoms_and_the_texts():
    known = read_presets()

    assert known["scene15"]["DCADL"] | {"n_atoms": 100} == known["scene15_100"]["DCADL"]
    assert known["scene15"]["DCADL"]["n_atoms"] == 50


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
