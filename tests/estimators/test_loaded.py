"""Model files from anywhere: one ValueError of one line, little memory, never a score that is no number."""

from __future__ import annotations

import json
import tracemalloc
from functools import partial

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file
from small_models import NAMES

import dcadl

DAMAGE = {
    "another backend": ("params", {"backend": 5}),
    "no normalisation": ("params", {"normalize": "sideways"}),
    "a negative weight": ("params", {"lam1": -1.0, "lam": -1.0, "tau": -1.0, "alpha": -1.0, "C": -1.0}),
    "a zero stride": ("params", {"stride": 0, "block_shape": 0, "max_iter": 0}),
    "an endless stride": ("params", {"stride": 1e400, "max_iter": 1e400}),
    "patches that do not fit": ("params", {"patch_shape": 99, "filter_shape": [9, 9, 9], "max_iter": 2**63}),
    "many filters": ("params", {"n_filters": 64, "max_iter": -1}),
    "an unknown parameter": ("params", {"n_atomz": 3}),
    "many values": ("values", {"n_features_in_": 10**6}),
    "no values": ("values", {"n_features_in_": 0}),
    "half a value": ("values", {"n_features_in_": 6.4}),
    "large images": ("values", {"_image_shape": [30000, 30000], "n_features_in_": 900_000_000}),
    "images of no shape": ("values", {"_image_shape": 64}),
    "images without height": ("values", {"_image_shape": [0, 64]}),
    "a method replaced": ("values", {"predict": 1}),
    "a parameter replaced": ("values", {"max_iter": 1, "lam": 1}),
    "labels out of order": ("classes", {"labels": list(range(9, -1, -1))}),
    "labels that are none": ("classes", {"labels": {}}),
    "labels of many kinds": ("classes", {"labels": [0, 1, 2, 3, 4, 5, 6, 7, 8, "9"]}),
    "labels that are no numbers": ("classes", {"dtype": "<f8", "labels": [float("nan")] * 10}),
    "labels of no kind": ("classes", {"dtype": "(,)i8"}),
    "a label too many": ("classes", {"labels": list(range(11))}),
    "long labels": (
        "classes",
        {"dtype": "str", "labels": [f"{i:04}" for i in range(3000)] + ["x" * 300_000]},
    ),
}


@pytest.fixture(scope="module")
def files(fitted, tmp_path_factory):
    """Every method's file: its header and its arrays."""
    found = {}
    for name, model in fitted.items():
        path = tmp_path_factory.mktemp("models") / name
        model.save(path)
        with safe_open(path, framework="numpy") as file:
            arrays = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
            found[name] = json.loads(file.metadata()["dcadl"]), arrays
    return found


@pytest.fixture
def write(tmp_path):
    """A model file of a header, or of any text in its place."""

    def written(header, arrays):
        text = header if isinstance(header, str) else json.dumps(header)
        save_file(arrays, tmp_path / "model", metadata={"dcadl": text})
        return tmp_path / "model"

    return written


def refused(path, words="not a usable dcadl model"):
    """The file is refused in one line, and with little memory."""
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=words) as caught:
            dcadl.load(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert "\n" not in str(caught.value)
    assert peak < 100_000_000


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_header_is_refused(files, write, name, damage):
    header, arrays = files[name]
    where, changes = DAMAGE[damage]
    refused(write({**header, where: {**header[where], **changes}}, arrays))


STRUCTURES = {
    "a stride of zero": {"params": {"stride": 0}},
    "a patch that is none": {"params": {"patch_shape": "x"}},
    "a ridge that is no number": {"values": {"lam_": "x"}},
    "learning that is neither": {"values": {"learned_": [1]}},
    "a comparison of no patches": {"values": {"_compared": [[[0, 0], None, [1], 0.1, 0.9, 10]]}},
    "a comparison of nothing known": {"values": {"_compared": [[[3, 3], "x", [1], 0.1, 0.9, 10]]}},
    "a comparison of no pools": {"values": {"_compared": [[[3, 3], None, 7, 0.1, 0.9, 10]]}},
    "a comparison without a loss": {"values": {"_compared": [[[3, 3], None, [1], "x", 0.9, 10]]}},
    "a comparison without images": {"values": {"_compared": [[[3, 3], None, [1], 0.1, 0.9, None]]}},
}


@pytest.mark.parametrize("name", STRUCTURES)
def test_a_structure_that_no_fit_of_loo_adl_chooses_is_refused(files, write, name):
    header, arrays = files["LOOADL"]
    changed = {where: {**header[where], **changes} for where, changes in STRUCTURES[name].items()}
    refused(write({**header, **changed}, arrays))


@pytest.mark.parametrize("name", ["DCADL", "PatchRidge", "RandomAtoms"])
@pytest.mark.parametrize(
    "grid", [[[8, 8, 1], [4, 4], [0, 0]], [[8, 8, 1], [4, 4], [1, 1]], [[8, 8, 1], [4, 4]], 7], ids=str
)
def test_a_grid_that_the_parameters_do_not_lay_is_refused(files, write, name, grid):
    header, arrays = files[name]
    refused(write({**header, "values": {**header["values"], "grid_": grid}}, arrays))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "change", [np.zeros_like, partial(np.full_like, fill_value=1)], ids=["all zero", "all one"]
)
def test_any_finite_arrays_of_the_right_shape_are_refused_or_give_finite_scores(
    files, write, digits, name, change
):
    header, arrays = files[name]
    path = write(header, {key: change(value) for key, value in arrays.items()})
    try:
        model = dcadl.load(path)
    except ValueError:
        return
    assert np.isfinite(model.decision_function(digits[0][:5])).all()


@pytest.mark.parametrize("name", sorted(set(NAMES) - {"LCKSVD"}))  # whose pursuit stops, at codes of zero
def test_weights_beyond_the_range_of_numbers_are_a_value_error(files, write, digits, name):
    header, arrays = files[name]
    floats = {key: value for key, value in arrays.items() if value.dtype.kind == "f"}
    huge = {key: np.where(value != 0, np.float32(3e38), value) for key, value in floats.items()}
    path = write(header, {**arrays, **huge})
    with pytest.raises(ValueError, match=r"overflowed|not a usable|infinity"):
        dcadl.load(path).decision_function(digits[0][:5])


def test_codes_beyond_the_range_of_numbers_are_a_value_error(files, write, digits):
    header, arrays = files["SADL"]
    path = write(header, {**arrays, "structure_": np.full_like(arrays["structure_"], 3e38)})
    with pytest.raises(ValueError, match="Codes overflowed"):
        dcadl.load(path).transform(digits[0][:5])


@pytest.mark.parametrize("classes", [[-1], [10], [0]], ids=["negative", "too high", "one class"])
def test_codes_of_classes_that_are_none_are_refused(files, write, classes):
    header, arrays = files["DADL"]
    numbers = np.resize(classes, arrays["code_classes_"].shape)
    refused(write(header, {**arrays, "code_classes_": numbers}), "code_classes_ must hold")


@pytest.mark.parametrize("name", ["DADL", "LCKSVD"])
def test_whole_numbers_that_are_halves_are_refused(files, write, name):
    header, arrays = files[name]
    key = {"DADL": "code_classes_", "LCKSVD": "atom_classes_"}[name]
    refused(write(header, {**arrays, key: arrays[key] + 0.5}), key)


def test_codes_and_their_classes_must_be_as_many(files, write):
    header, arrays = files["DADL"]
    refused(write(header, {**arrays, "code_classes_": arrays["code_classes_"][:-1]}), "must have shape")


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "{" * 5000, '{"a":' * 50_000, "[]", "null", "NaN", '"x"', ""]
)
def test_a_header_that_is_no_object_is_refused(files, write, text):
    refused(write(text, files["PatchRidge"][1]))


def test_a_model_fitted_on_a_device_is_loaded_where_there_is_none(files, write, digits):
    header, arrays = files["PatchRidge"]
    there = {**header, "params": {**header["params"], "backend": "torch:cuda:7"}}
    model = dcadl.load(write(there, arrays)).set_params(backend="numpy")
    assert model.predict(digits[0][:3]).shape == (3,)


@pytest.mark.parametrize(
    "changes",
    [{"_compared": 5}, {"_compared": [[1, 2]]}, {"expected_accuracy_": -0.5}, {"n_judged_": 0}],
    ids=lambda changes: next(iter(changes)),
)
def test_what_a_file_tells_of_its_fit_is_checked_before_info_tells_it(files, write, changes):
    header, arrays = files["LOOADL"]
    refused(write({**header, "values": {**header["values"], **changes}}, arrays))
