"""
One picture and many, through the library and through every export of the same model.

    python benchmarks/exports.py [--data digits|mnist]

Prints a table: microseconds for a single picture, and for a picture of a large batch, of the library, of
onnxruntime, of C compiled by gcc -O3 and of JavaScript in node, each on one thread, against the floor (the
arithmetic of the filter banks and of the classifier at the rate of a large matrix product). mnist reads
DCADL_DATA. What is absent on this machine is left out of the table.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import subprocess
import tempfile
from importlib.resources import files
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from dcadl import DCADL, LOOADL, data
from dcadl.deploy.c_header import c_header
from dcadl.deploy.onnx_file import onnx_model
from dcadl.deploy.operations import FilterBank, Linear, Program
from dcadl.deploy.translate import operations_of
from dcadl.deploy.web_page import program_json
from machine import best_time, describe, gemm_rate

PER_CLASS = {"digits": 50, "mnist": 50}
MANY = 500
MAIN_C = """
#include <stdio.h>
#include <time.h>
#include "m.h"
static float pictures[MANY][m_PIXELS];
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
int main(void) {
    float scores[m_CLASSES];
    double best = 1e9;
    int i, round, sum = 0;
    if (fread(pictures, sizeof pictures, 1, stdin) != 1) return 1;
    for (round = 0; round < 5; round++) {
        const double start = now();
        for (i = 0; i < MANY; i++) sum += m_predict_float(pictures[i], scores);
        best = now() - start < best ? now() - start : best;
    }
    printf("%.9f %d\\n", best / MANY, sum);
    return 0;
}
"""
RUN_JS = """
const dcadl = require(process.argv[2]);
const { program, samples } = JSON.parse(require("fs").readFileSync(0));
const read = dcadl.read(program);
let best = 1e9;
for (let round = 0; round < 5; round++) {
  const start = process.hrtime.bigint();
  for (const sample of samples) dcadl.run(read, sample);
  best = Math.min(best, Number(process.hrtime.bigint() - start) / 1e9 / samples.length);
}
console.log(best);
"""


def main() -> None:
    """Fit two models and print a table of each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--data", choices=sorted(PER_CLASS), default="digits")
    name = parser.parse_args().data
    bunch = data.load(name)
    X = (bunch.images / bunch.images.max()).astype(np.float32)
    train, test = data.split(bunch.target, per_class=PER_CLASS[name], seed=0)
    X_test = np.resize(X[test], (MANY, *X.shape[1:]))
    print(describe())
    with threadpool_limits(1):
        rate = gemm_rate()
        side = 4 if name == "digits" else 7
        for model in (
            LOOADL(random_state=0),
            DCADL(
                n_atoms=32,
                patch_shape=side,
                stride=1,
                normalize="centred",
                max_iter=10,
                tol=0,
                random_state=0,
            ),
        ):
            model.fit(X[train], bunch.target[train])
            report(model, X_test, rate, f"{type(model).__name__} on {name}")


def report(model, X: np.ndarray, rate: float, title: str) -> None:
    """One table."""
    program = operations_of(model)
    floor = operations(program) / rate
    print(f"\n{title}: {operations(program) / 1e6:.2f} MFLOP a picture, floor {1e6 * floor:.1f} µs")
    print(f"{'':14}{'one picture':>14}{f'of {MANY}':>12}   times the floor")
    for name, run in {
        "library": library,
        "onnxruntime": runtime,
        "C, gcc -O3": compiled,
        "node": node,
    }.items():
        found = run(model, program, X)
        if found is not None:
            single, each = found
            ratios = f"{single / floor:9.1f}{each / floor:8.1f}"
            print(f"{name:14}{1e6 * single:11.1f} µs{1e6 * each:9.1f} µs{ratios}")


def operations(program: Program) -> float:
    """Multiplications and additions of the filter banks and of the classifier."""
    total = 0.0
    for operation, _, after in program.steps():
        match operation:
            case FilterBank(filters=filters):
                total += 2 * math.prod(after) * filters[0].size
            case Linear(coef=coef):
                total += 2 * coef.size
    return total


def library(model, program: Program, X: np.ndarray) -> tuple[float, float]:
    """`predict` itself."""
    return best_time(lambda: model.predict(X[:1]), 50), best_time(lambda: model.predict(X), 5) / len(X)


def runtime(model, program: Program, X: np.ndarray) -> tuple[float, float] | None:
    """onnxruntime on one thread, after its labels were compared."""
    try:
        import onnxruntime
    except ImportError:
        return None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(onnx_model(program).SerializeToString(), options)
    assert (session.run(None, {"pictures": X})[0] == model.predict(X)).all()
    single = best_time(lambda: session.run(None, {"pictures": X[:1]}), 50)
    return single, best_time(lambda: session.run(None, {"pictures": X}), 5) / len(X)


def compiled(model, program: Program, X: np.ndarray) -> tuple[float, float] | None:
    """The header compiled by gcc; pictures one by one, for that is all it does."""
    if shutil.which("gcc") is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "m.h").write_text(c_header(program, "m"))
        (Path(folder) / "main.c").write_text(MAIN_C.replace("MANY", str(len(X))))
        flags = ["-std=gnu99", "-O3", "-march=native"]
        subprocess.run(["gcc", *flags, "main.c", "-o", "main", "-lm"], cwd=folder, check=True)
        done = subprocess.run([f"{folder}/main"], input=X.tobytes(), capture_output=True, check=True)
    seconds = float(done.stdout.split()[0])
    return seconds, seconds


def node(model, program: Program, X: np.ndarray) -> tuple[float, float] | None:
    """The page's JavaScript, warm; pictures one by one."""
    if shutil.which("node") is None:
        return None
    few = X[:100].reshape(100, -1).astype(float).tolist()
    given = json.dumps({"program": program_json(program), "samples": few})
    script = files("dcadl.deploy").joinpath("web", "operations.js")
    words = ["node", "-e", RUN_JS, "-", str(script)]
    done = subprocess.run(words, input=given, capture_output=True, text=True, check=True)
    seconds = float(done.stdout)
    return seconds, seconds


if __name__ == "__main__":
    main()
