"""Model files: what goes in comes out; anything else is one clear ValueError."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

import dcadl
from dcadl import DCADL, PatchRidge, RandomAtoms
from dcadl.estimators import files
from dcadl.estimators.files import read_header

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture(scope="module")
def images():
    rng = np.random.default_rng(3)
    return rng.random((30, 6, 6)).astype(np.float32), np.array(["cat", "dog", "eel"])[np.arange(30) % 3]


@pytest.fixture(scope="module")
def model(images):
    return DCADL(n_atoms=4, patch_shape=3, stride=3, max_iter=2, tol=0, random_state=0).fit(*images)


@pytest.fixture
def saved(model, tmp_path):
    model.save(tmp_path / "model.safetensors")
    return tmp_path / "model.safetensors"


@pytest.mark.bits
@pytest.mark.parametrize("cls", [DCADL, PatchRidge, RandomAtoms])
def test_a_loaded_model_predicts_to_the_bit_alike(cls, images, tmp_path):
    X, y = images
    model = cls(patch_shape=(3, 2), stride=2).fit(X, y)
    model.save(tmp_path / "m.safetensors")
    loaded = dcadl.load(tmp_path / "m.safetensors")
    assert loaded.get_params() == model.get_params()
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


@pytest.mark.parametrize("labels", [[-5, 7], [1.0, 2.0], [False, True], ["ä", "日本"]], ids=str)
def test_labels_of_any_type_come_back(labels, images, tmp_path):
    y = np.array(labels)[np.arange(30) % 2]
    model = PatchRidge(class_weight=dict.fromkeys(np.array(labels).tolist(), 1.0))
    with np.errstate(all="ignore"):
        model.fit(images[0], y.astype(object) if isinstance(labels[0], str) else y.astype(y.dtype))
    model.save(tmp_path / "m.safetensors")
    loaded = dcadl.load(tmp_path / "m.safetensors")
    assert loaded.classes_.tolist() == labels
    assert loaded.class_weight == model.class_weight


def test_numbers_of_numpy_are_numbers(images, tmp_path):
    """As GridSearchCV over arrays sets them."""
    params = {"n_atoms": np.int64(4), "patch_shape": (np.int64(3), 2), "max_iter": np.int32(2), "tol": 0}
    model = DCADL(**params, lam2=np.float32(0.25), random_state=np.int64(7)).fit(*images)
    model.save(tmp_path / "m.safetensors")
    loaded = dcadl.load(tmp_path / "m.safetensors")
    assert loaded.get_params() == model.get_params()
    assert loaded.random_state == 7


def test_a_model_whose_parameters_were_set_after_its_fit_is_not_saved(images, tmp_path):
    model = DCADL(n_atoms=4, patch_shape=3, max_iter=2, tol=0).fit(*images)
    with pytest.raises(ValueError, match=r"atoms_ must have shape.*set after fit"):
        model.set_params(n_atoms=5).save(tmp_path / "m.safetensors")
    assert not list(tmp_path.iterdir())


def test_a_header_can_be_read_by_people(saved):
    header = read_header(saved)
    assert (header["format"], header["class"], header["classes"]["labels"]) == (
        1,
        "DCADL",
        ["cat", "dog", "eel"],
    )


def test_an_unfitted_model_is_not_saved(tmp_path):
    with pytest.raises(ValueError, match="not fitted yet: call fit before save"):
        DCADL().save(tmp_path / "m.safetensors")
    assert not list(tmp_path.iterdir())


def rewrite(path, header=None, **arrays):
    """The file at `path` with some of its header or arrays changed."""
    from safetensors import safe_open

    with safe_open(path, framework="numpy") as file:
        old = json.loads(file.metadata()["dcadl"])
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    tensors = {k: v for k, v in {**tensors, **arrays}.items() if v is not None}
    save_file(tensors, path, metadata={"dcadl": json.dumps({**old, **(header or {})})})


@pytest.mark.parametrize(
    ("header", "arrays", "message"),
    [
        ({"format": 99}, {}, "has format 99; this dcadl reads up to 2. Upgrade dcadl"),
        ({"format": "one"}, {}, "format must be an integer"),
        ({"class": "Oracle"}, {}, "holds a 'Oracle', which this dcadl does not know"),
        ({"params": {"n_atomz": 3}}, {}, "header is damaged"),
        ({"classes": {"dtype": "str", "labels": ["dog", "cat"]}}, {}, "sorted"),
        ({"classes": {"dtype": "O", "labels": [1, 2]}}, {}, "dtype 'O' are not supported"),
        ({"values": {}}, {}, "not a usable dcadl model"),
        ({}, {"coef_": np.zeros((3, 5), np.float32)}, r"coef_ must have shape \(3, 16\); got \(3, 5\)"),
        ({}, {"coef_": np.full((3, 16), np.nan, np.float32)}, "coef_ holds NaN or infinity"),
        ({}, {"coef_": None}, "must hold the arrays"),
        ({}, {"extra": np.zeros(2)}, "must hold the arrays"),
    ],
)
def test_a_file_that_lies_is_refused(saved, header, arrays, message):
    rewrite(saved, header, **arrays)
    with pytest.raises(ValueError, match=message):
        dcadl.load(saved)


def test_a_foreign_safetensors_file_is_refused(tmp_path):
    save_file({"w": np.zeros(3)}, tmp_path / "other.safetensors")
    with pytest.raises(ValueError, match="not one of dcadl's models"):
        dcadl.load(tmp_path / "other.safetensors")


def test_a_missing_file_says_so(tmp_path):
    with pytest.raises(ValueError, match="Model file not found"):
        dcadl.load(tmp_path / "nowhere.safetensors")


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_file_is_a_value_error_or_still_a_model(saved, data):
    whole = saved.read_bytes()
    at = data.draw(st.integers(0, len(whole) - 1))
    damaged = data.draw(
        st.sampled_from([whole[:at], whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :], whole + b"x"])
    )
    path = saved.with_name("damaged.safetensors")
    path.write_bytes(damaged)
    try:
        model = dcadl.load(path)
    except ValueError:
        return
    assert model.coef_.shape == (3, 16)


def test_the_golden_file_of_format_1_still_loads():
    """Written when format 1 was made; it must be readable for ever."""
    model = dcadl.load(GOLDEN / "format1.safetensors")
    expected = np.load(GOLDEN / "format1_expected.npz")
    np.testing.assert_allclose(
        model.decision_function(expected["images"]), expected["scores"], rtol=1e-5, atol=1e-6
    )
    assert model.classes_.tolist() == ["cat", "dog", "eel"]


@pytest.mark.parametrize("name", sorted(set(dcadl.estimators.__all__) - {"ConvNet"}))
def test_fitted_arrays_lie_in_memory_as_a_file_holds_them(name, images):
    """In another order BLAS may take another kernel: the model that was saved would predict otherwise."""
    model = getattr(dcadl, name)().fit(*images)
    arrays = {key: value for key, value in vars(model).items() if isinstance(value, np.ndarray)}
    assert [key for key, value in arrays.items() if not value.flags.c_contiguous] == []


@pytest.mark.parametrize(
    ("name", "told"), [("DCADL", "refit_lam_"), ("DCADL", "best_iter_"), ("PatchRidge", "lam_")]
)
def test_what_a_fit_found_is_told_by_its_file(fitted, tmp_path, name, told):
    fitted[name].save(tmp_path / "m")
    assert getattr(dcadl.load(tmp_path / "m"), told) == getattr(fitted[name], told)


def test_a_file_of_before_tells_less(fitted, tmp_path):
    header, arrays = files.contents(fitted["PatchRidge"])
    del header["told"]
    files.write(tmp_path / "m", header, arrays)
    assert not hasattr(dcadl.load(tmp_path / "m"), "lam_")


@pytest.mark.parametrize("told", [{"lam_": -1.0}, {"lam_": "much"}, {"lam_": True}, {"predict": 1.0}, [1.0]])
def test_what_no_fit_would_tell_is_refused(fitted, tmp_path, told):
    header, arrays = files.contents(fitted["PatchRidge"])
    files.write(tmp_path / "m", header | {"told": told}, arrays)
    with pytest.raises(ValueError, match="must be"):
        dcadl.load(tmp_path / "m")
