"""`dcadl export`: files that run without Python."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import dcadl


def library_scores(model, arrays):
    return dcadl.load(model).decision_function(arrays[0].astype(np.float32) / np.float32(255))


def run_onnx(path, X):
    onnxruntime = pytest.importorskip(
        "onnxruntime", reason="onnxruntime is not installed: pip install 'dcadl[onnx]'"
    )
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"pictures": X})


def test_onnx_takes_raw_bytes_as_the_command_reads_them(call, model, arrays, tmp_path):
    path = tmp_path / "model.onnx"

    result = call("export", model, "--onnx", path, "--pixels", "uint8")

    assert result.exit_code == 0, result.output
    assert result.stdout.startswith(f"written: {path}")
    np.testing.assert_allclose(run_onnx(path, arrays[0])[1], library_scores(model, arrays), atol=1e-4)


def test_onnx_takes_values_from_zero_to_one_unless_asked_otherwise(call, model, arrays, tmp_path):
    path = tmp_path / "model.onnx"

    call("export", model, "--onnx", path)

    X = arrays[0].astype(np.float32) / np.float32(255)
    np.testing.assert_allclose(run_onnx(path, X)[1], library_scores(model, arrays), atol=1e-4)


def test_with_nothing_to_write_the_command_says_so(refused, model):
    assert "nothing to write" in refused("export", model)


def test_a_method_that_cannot_be_exported_is_refused(call, refused, folder, tmp_path):
    path = tmp_path / "dpl.safetensors"
    call("fit", folder, "-o", path, "--method", "dpl", "--param", "n_atoms=3", "--param", "max_iter=2")

    assert "DPL cannot be exported" in refused("export", path, "--onnx", tmp_path / "model.onnx")


def test_a_c_header_is_written_and_with_8_bits_its_loss_is_measured(call, model, folder, tmp_path):
    path = tmp_path / "stripes.h"

    result = call("export", model, "--c", path, "--int8", "--data", folder)

    assert result.exit_code == 0, result.output
    assert "int stripes_predict(const unsigned char *pixels, float *scores)" in path.read_text()
    assert "of 18 samples right" in result.stdout


def test_8_bits_need_data_to_measure_their_loss_on(refused, model, tmp_path):
    assert "needs --data" in refused("export", model, "--c", tmp_path / "m.h", "--int8")


def test_an_export_does_not_overwrite_its_model(refused, model):
    assert "would overwrite MODEL" in refused("export", model, "--onnx", model)


def test_a_web_page_is_written_with_calibrated_probabilities(call, model, folder, tmp_path):
    path = tmp_path / "page.html"

    result = call("export", model, "--web", path, "--data", folder, "--ink", "light")

    assert result.exit_code == 0, result.output
    text = path.read_text()
    assert "Calibrated probabilities." in text
    assert 'data-ink="light"' in text
    assert "<h1>stripes</h1>" in text


@pytest.mark.parametrize("ending", ["md", "html"])
def test_a_card_tells_what_the_fit_knew(call, model, folder, tmp_path, ending):
    path = tmp_path / f"card.{ending}"

    result = call("card", model, "-o", path, "--data", folder)

    assert result.exit_code == 0, result.output
    text = path.read_text()
    for words in ("stripes", "smallest class", "across", "Measured on 36 samples", "BSD-3-Clause"):
        assert words in text


def test_a_card_is_markdown_or_html(refused, model, tmp_path):
    assert ".md or .html" in refused("card", model, "-o", tmp_path / "card.pdf")


def test_the_accuracy_of_a_holdout_is_in_the_model_file(call, folder, tmp_path):
    path = tmp_path / "m.safetensors"

    result = call("fit", folder, "-o", path, "--method", "patch-ridge", "--patch", 6, "--holdout", 0.25)

    training = dcadl.load(path).training_
    assert f"accuracy: {training['accuracy']:.2%} of {training['tested_on']} samples" in result.stdout
    assert training["samples"] + training["tested_on"] == 36


def test_another_fit_forgets_what_was_known_of_the_first(model, arrays):
    loaded = dcadl.load(model)
    assert loaded.training_["samples"] == 36

    loaded.set_params(max_iter=1).fit(arrays[0], arrays[1])

    assert not hasattr(loaded, "training_")


@pytest.mark.parametrize(
    "words",
    [("export", "{model}", "--onnx", "{out}"), ("serve", "{model}")],
    ids=lambda words: words[0],
)
def test_features_before_a_classifier_are_refused_in_one_line(refused, tmp_path, words):
    golden = Path(__file__).parents[1] / "estimators" / "golden" / "format2.safetensors"
    typed = [word.format(model=golden, out=tmp_path / "out") for word in words]

    assert "nor exported nor served" in refused(*typed)
    assert not list(tmp_path.iterdir())
