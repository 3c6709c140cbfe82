"""C headers against the library: compiled by gcc and clang without a warning, run under sanitizers."""

from __future__ import annotations

import re
import shutil
import subprocess

import numpy as np
import pytest
from deploy_models import (
    CASES,
    EVERY_CASE,
    case,
    centred,
    class_scores,
    digits,
    pooled_program,
    unseen_digits,
)

from dcadl.deploy import quantise
from dcadl.deploy.c_header import c_header, to_c
from dcadl.deploy.quantise import Int8Loss, in_8_bits, quantised
from dcadl.deploy.reference import run
from dcadl.deploy.translate import operations_of

STRICT = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-Wconversion", "-O0"]
SANITIZED = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
INT8 = [
    ("loo-whitened", "grey"),
    ("dcadl-centred", "grey"),
    ("patch-ridge", "grey"),
    ("pcanet-two", "grey"),
    ("adlsvm", "grey"),
]
MAIN = """
#include <stdio.h>
#include <stdlib.h>
INCLUDES
static int (*const on_floats[])(const float *, float *) = {FLOATS};
static int (*const on_bytes[])(const unsigned char *, float *) = {BYTES};
static const int sizes[][2] = {SIZES};

int main(int argc, char **argv) {
    static float values[16384], scores[64];
    static unsigned char bytes[16384];
    const int which = argc > 1 ? atoi(argv[1]) : 0;
    const size_t size = (size_t)sizes[which][0], classes = (size_t)sizes[which][1];
    while (argc > 2 ? fread(bytes, 1, size, stdin) == size : fread(values, 4, size, stdin) == size) {
        const int best = argc > 2 ? on_bytes[which](bytes, scores) : on_floats[which](values, scores);
        const float label = (float)best;
        fwrite(&label, sizeof label, 1, stdout);
        fwrite(scores, sizeof(float), classes, stdout);
    }
    return 0;
}
"""


def programs():
    """One for each case, the pooled one after them; and those to be kept in 8 bits."""
    plain = [operations_of(case(*which).model) for which in CASES]
    return [*plain, pooled_program()], [rounded_program(*which) for which in INT8]


def rounded_program(name, form):
    model, real, _ = case(name, form)
    return quantised(operations_of(model), real[::2])


@pytest.fixture(scope="module", params=["gcc", "clang"])
def executable(request, tmp_path_factory):
    """One program with every model's header in it."""
    compiler = shutil.which(request.param)
    if compiler is None:
        pytest.skip(f"{request.param} is not installed")
    folder = tmp_path_factory.mktemp(request.param)
    plain, small = programs()
    headers = [c_header(p, f"m{i}") for i, p in enumerate(plain)]
    headers += [c_header(p, f"m{len(plain) + i}", Int8Loss(1, 1, 1)) for i, p in enumerate(small)]
    for i, header in enumerate(headers):
        (folder / f"m{i}.h").write_text(header)
    names = [f"m{i}" for i in range(len(headers))]
    sizes = [f"{{{name}_PIXELS, {name}_CLASSES}}" for name in names]
    text = MAIN.replace("INCLUDES", "\n".join(f'#include "{name}.h"' for name in names))
    text = text.replace("FLOATS", ", ".join(f"{name}_predict_float" for name in names))
    text = text.replace("BYTES", ", ".join(f"{name}_predict" for name in names))
    (folder / "main.c").write_text(text.replace("SIZES", ", ".join(sizes)))
    command = [compiler, *STRICT, *SANITIZED, "main.c", "-o", "main", "-lm"]
    built = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    return folder / "main"


def answers(executable, which, X, *, as_bytes=False):
    """Indices of classes and scores from the compiled program."""
    words = [executable, str(which), *(["bytes"] if as_bytes else [])]
    done = subprocess.run(words, input=X.tobytes(), capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    rows = np.frombuffer(done.stdout, dtype=np.float32).reshape(len(X), -1)
    return rows[:, 0].astype(int), rows[:, 1:]


@EVERY_CASE
def test_compiled_code_gives_what_the_model_gives(executable, name, form):
    model, *batches = case(name, form)

    for X in batches:
        best, scores = answers(executable, CASES.index((name, form)), X)
        np.testing.assert_array_equal(model.classes_[best], model.predict(X))
        np.testing.assert_allclose(centred(scores), class_scores(model, X), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("which", range(len(INT8)), ids=["-".join(names) for names in INT8])
def test_weights_in_8_bits_give_what_the_rounded_operations_give(executable, which):
    model, real, _ = case(*INT8[which])

    best, scores = answers(executable, len(CASES) + 1 + which, real)

    expected = run(rounded_program(*INT8[which]), real)
    np.testing.assert_array_equal(model.classes_[best], expected.labels)
    np.testing.assert_allclose(scores, expected.scores, atol=1e-4)


def test_pooling_and_split_codes_need_no_stored_maps(executable):
    X = digits()[0][:50]

    _, scores = answers(executable, len(CASES), X)

    np.testing.assert_allclose(scores, run(pooled_program(), X).scores, atol=1e-5)
    assert "maps" not in c_header(pooled_program(), "m").partition("_run(")[2]


def test_bytes_are_read_as_their_values(executable):
    model, real, _ = case("dcadl-raw")
    X = np.rint(real * 16).astype(np.uint8)

    _, scores = answers(executable, CASES.index(("dcadl-raw", "grey")), X, as_bytes=True)

    np.testing.assert_allclose(scores, model.decision_function(X.astype(np.float32)), atol=1e-4)


@pytest.mark.parametrize(
    "name", ["loo", "loo-raw", "dcadl", "dcadl-centred", "dcadl-raw", "patch-ridge", "pcanet", "sadl"]
)
def test_8_bits_cost_at_most_half_a_point(name):
    X, y = unseen_digits()

    _, loss = in_8_bits(operations_of(case(name).model), X, y)

    assert loss.n == len(y) // 2
    assert loss.int8_accuracy >= loss.accuracy - 0.005


@pytest.mark.parametrize("block", [256, 40])
def test_large_weights_that_cancel_survive_8_bits(block, monkeypatch):
    """Values as they are, and all of a patch kept: weights of hundreds for scores of one."""
    monkeypatch.setattr(quantise, "BLOCK", block)
    X, y = unseen_digits()
    program = operations_of(case("loo-cancelling").model)
    plain = quantised(program, np.zeros_like(X[:1]))  # nothing to follow: each weight to its nearest level

    found, loss = in_8_bits(program, X, y)

    before = run(program, X[1::2]).scores
    errors = [np.sqrt(np.mean((run(form, X[1::2]).scores - before) ** 2)) for form in (found, plain)]
    assert errors[0] < 0.2 * errors[1]
    assert loss.int8_accuracy >= loss.accuracy - 0.005


def test_8_bits_need_something_to_measure_on():
    X, y = unseen_digits()

    with pytest.raises(ValueError, match="two samples or more"):
        in_8_bits(operations_of(case("dcadl").model), X[:1], y[:1])


def test_the_header_needs_no_memory_manager_and_of_the_mathematics_only_a_root(tmp_path):
    to_c(case("dcadl-centred").model, tmp_path / "my model.h")
    text = (tmp_path / "my model.h").read_text()

    code = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    called = set(re.findall(r"\b([a-z]\w*)\(", code)) - {"for", "while", "if", "sizeof"}
    assert {word for word in called if not word.startswith("my_model_")} == {"sqrtf"}
    assert re.findall(r"#include.*", code) == ["#include <math.h>"]


def test_the_sizes_in_the_comment_are_those_of_the_arrays():
    text = c_header(operations_of(case("dcadl").model), "m")

    flash, ram = (int(re.search(rf"{word} \(.*?\): (\d+) bytes", text)[1]) for word in ("Flash", "RAM"))
    constants = re.findall(r"static const float \w+\[(\d+)\] =", text)
    buffers = re.findall(r"static float \w+\[(\d+)\];", text)
    assert flash == 4 * sum(map(int, constants))
    assert ram == 4 * (64 + sum(map(int, buffers)))


def test_8_bits_are_written_with_their_measured_loss(tmp_path):
    model, real, _ = case("dcadl")

    loss = to_c(model, tmp_path / "m.h", int8_check=(real, model.predict(real)))

    text = (tmp_path / "m.h").read_text()
    assert f"accuracy {loss.int8_accuracy:.4f}, with float weights 1.0000, measured on 50 samples" in text
    assert "signed char m_coef" in text


def test_names_of_classes_come_out_as_they_went_in(tmp_path):
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    names = [
        '"; exit(1); "',
        "back\\slash",
        "??/trigraph",
        "*/ comment /*",
        "Zürich 7",
        "line\nbreak",
        "%s",
        "1",
        "2",
        "NAME_3",
    ]
    program = operations_of(case("dcadl").model)._replace(classes=np.array(names))
    facts = {**program.facts, "parameters": {"evil": "*/ int x; /* ??/"}}
    (tmp_path / "m.h").write_text(c_header(program._replace(facts=facts), "m"))
    loop = "int i; for (i = 0; i < m_CLASSES; i++) fwrite(m_label(i), strlen(m_label(i)) + 1, 1, stdout);"
    includes = '#include <stdio.h>\n#include <string.h>\n#include "m.h"\n'
    (tmp_path / "main.c").write_text(f"{includes}int main(void) {{ {loop} return 0; }}\n")

    subprocess.run(["gcc", *STRICT, "main.c", "-o", "main", "-lm"], cwd=tmp_path, check=True)
    said = subprocess.run([tmp_path / "main"], capture_output=True, check=True).stdout

    assert said.decode().split("\0")[:-1] == names


def test_a_name_that_is_no_identifier_is_refused(tmp_path):
    with pytest.raises(ValueError, match="identifier of C"):
        to_c(case("dcadl").model, tmp_path / "m.h", name="2 models")
