"""ONNX files against the library, in onnxruntime."""

from __future__ import annotations

import importlib
import json
import sys

import numpy as np
import pytest
from deploy_models import EVERY_CASE, case, centred, class_scores, digits, pooled_program
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from dcadl import DCADL, DPL
from dcadl.deploy.onnx_file import onnx_model, register_skl2onnx_converters
from dcadl.deploy.onnx_graph import OPSET
from dcadl.deploy.reference import run
from dcadl.deploy.translate import operations_of

onnxruntime = pytest.importorskip(
    "onnxruntime", reason="onnxruntime is not installed: pip install 'dcadl[onnx]'"
)
onnx = pytest.importorskip("onnx", reason="onnx is not installed: pip install 'dcadl[onnx]'")


def session(proto):
    return onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])


@EVERY_CASE
def test_onnxruntime_gives_what_the_model_gives(name, form):
    model, *batches = case(name, form)
    program = operations_of(model)
    runtime = session(onnx_model(program))

    for X in batches:
        label, scores, probabilities = runtime.run(None, {"pictures": X})
        np.testing.assert_array_equal(label, model.predict(X))
        np.testing.assert_allclose(centred(scores), class_scores(model, X), atol=1e-4)
        # Scores in float32, divided by a temperature of a tenth or less.
        np.testing.assert_allclose(probabilities, run(program, X).probabilities, atol=2e-4)


def test_pooling_and_split_codes_are_in_the_graph():
    X = digits()[0][:50]

    _, scores, probabilities = session(onnx_model(pooled_program())).run(None, {"pictures": X})

    np.testing.assert_allclose(scores, run(pooled_program(), X).scores, atol=1e-5)
    np.testing.assert_allclose(probabilities, run(pooled_program(), X).probabilities, atol=1e-5)


def test_raw_pixels_of_eight_bits_come_in_with_their_scale(tmp_path):
    model, real, _ = case("dcadl-raw")
    pixels = np.rint(real * 255).astype(np.uint8)

    model.to_onnx(tmp_path / "model.onnx", dtype="uint8", scale=1 / 255)
    _, scores, _ = session(onnx.load(tmp_path / "model.onnx")).run(None, {"pictures": pixels})

    expected = model.decision_function(pixels.astype(np.float32) / np.float32(255))
    np.testing.assert_allclose(scores, expected, atol=1e-5)


def test_outputs_stand_in_order_and_any_number_of_pictures_comes_in():
    runtime = session(onnx_model(operations_of(case("dcadl").model)))

    assert [output.name for output in runtime.get_outputs()] == ["label", "scores", "probabilities"]
    assert runtime.get_inputs()[0].shape == ["n", 8, 8]
    assert [len(runtime.run(None, {"pictures": np.zeros((n, 8, 8), np.float32)})[0]) for n in (1, 7)] == [
        1,
        7,
    ]


def test_the_file_says_what_the_model_is():
    model = case("dcadl-centred", "two").model
    proto = onnx_model(operations_of(model))
    found = {entry.key: entry.value for entry in proto.metadata_props}

    assert json.loads(found["classes"]) == ["high", "low"]
    assert json.loads(found["parameters"])["normalize"] == "centred"
    assert found["method"] == "DCADL"
    assert proto.producer_version == found["dcadl_version"]
    assert proto.opset_import[0].version == OPSET


def test_no_node_makes_an_array_of_patches():
    program = operations_of(case("dcadl-centred").model)
    proto = onnx.shape_inference.infer_shapes(onnx_model(program))
    sizes = [[d.dim_value for d in value.type.tensor_type.shape.dim] for value in proto.graph.value_info]
    m, (rows, columns) = 6, (3, 3)

    assert max(int(np.prod(size[1:])) for size in sizes) <= max(8 * 8, m * rows * columns)


def pipeline_of(name, kind=int):
    """A scaler and that model, fitted to rows; and the rows."""
    pytest.importorskip("skl2onnx", reason="skl2onnx is not installed: pip install 'dcadl[onnx]'")
    model, real, _ = case(name)
    rows, labels = real.reshape(len(real), -1), model.predict(real).astype(kind)
    shaped = {"image_shape": (8, 8)} if "image_shape" in model.get_params() else {}
    register_skl2onnx_converters()
    return make_pipeline(MinMaxScaler(), clone(model).set_params(**shaped)).fit(rows, labels), rows


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", ["loo-whitened", "dcadl-centred", "pcanet", "adlsvm"])
@pytest.mark.parametrize("kind", [int, str, bool, float])
def test_pipelines_export_through_skl2onnx(name, kind):
    pipeline, rows = pipeline_of(name, kind)

    runtime = session(importlib.import_module("skl2onnx").to_onnx(pipeline, rows[:1]))

    label, shares = runtime.run(None, {"X": rows})
    np.testing.assert_array_equal(label, pipeline.predict(rows))
    assert [max(share, key=share.get) for share in shares] == label.tolist()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("raw", "method"),
    [(True, "decision_function"), (False, "predict_proba")],
    ids=["scores", "probabilities"],
)
def test_pipelines_give_the_scores_or_the_probabilities_as_one_array(raw, method):
    pipeline, rows = pipeline_of("dcadl-centred")
    options = {DCADL: {"zipmap": False, "raw_scores": raw}}

    runtime = session(importlib.import_module("skl2onnx").to_onnx(pipeline, rows[:1], options=options))

    np.testing.assert_allclose(runtime.run(None, {"X": rows})[1], getattr(pipeline, method)(rows), atol=2e-4)


def test_a_pipeline_that_cannot_be_exported_says_so_in_one_line():
    skl2onnx = pytest.importorskip("skl2onnx", reason="skl2onnx is not installed: pip install 'dcadl[onnx]'")
    X, y = digits()
    rows = X.reshape(len(X), -1)
    pipeline = make_pipeline(MinMaxScaler(), DPL(n_atoms=3, max_iter=2, random_state=0)).fit(rows, y)
    register_skl2onnx_converters()

    with pytest.raises(ValueError, match=r"^DPL cannot be exported: .*[.]$"):
        skl2onnx.to_onnx(pipeline, rows[:1])


def test_other_kinds_of_numbers_are_refused():
    with pytest.raises(ValueError, match="dtype must be one of 'float32', 'uint8'; got 'int4'"):
        onnx_model(operations_of(case("dcadl").model), "int4")


def test_a_missing_package_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ValueError, match=r"pip install 'dcadl\[onnx\]'"):
        onnx_model(operations_of(case("dcadl").model))

    monkeypatch.setitem(sys.modules, "skl2onnx", None)
    with pytest.raises(ValueError, match=r"pip install 'dcadl\[onnx\]'"):
        register_skl2onnx_converters()
