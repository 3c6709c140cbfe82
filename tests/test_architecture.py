"""The rooms: imports go one way, files and functions stay readable."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import numpy as np
import pytest

import dcadl

SOURCE = Path(__file__).parents[1] / "src" / "dcadl"
FILES = sorted(SOURCE.rglob("*.py"))

# Each room and the rooms it may import from, itself included.
CORE = {"arrays", "ops", "solvers", "estimators"}
MAY_IMPORT = {
    "atomic": set(),
    "locks": set(),
    "arrays": {"arrays"},
    "ops": {"arrays", "ops"},
    "solvers": {"arrays", "ops", "solvers"},
    "estimators": CORE | {"atomic", "locks"},
    "data": {"atomic", "data"},
    "features": {"atomic", "arrays", "ops", "data", "features"},
    "model_files": CORE | {"features"},
    "plot": CORE | {"plot"},
    "deploy": CORE | {"atomic", "features", "data", "model_files", "deploy"},
    "bench": CORE | {"atomic", "locks", "data", "features", "model_files", "plot", "deploy", "bench"},
    "cli": CORE | {"atomic", "data", "features", "model_files", "plot", "deploy", "bench", "cli"},
}
# Inside a method, when it is called: what a model writes itself as is built on the models.
ON_CALL = {"estimators/base.py": {"deploy"}}
LINES_IN_A_FILE, LINES_IN_A_FUNCTION = 350, 35
LINES_OF_A_TWIN = 6
FRAMEWORKS = {"torch", "cupy", "sklearn", "matplotlib", "dask", "distributed"}


def room(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports(tree: ast.AST) -> list[tuple[str, int]]:
    """Every imported module, with its line; `from a import b` counts as a.b."""
    found = []
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                found += [(name.name, node.lineno) for name in names]
            case ast.ImportFrom(module=module, names=names, level=0):
                found += [(f"{module}.{name.name}", node.lineno) for name in names]
    return found


def every(paths):
    return pytest.mark.parametrize("path", paths, ids=lambda p: str(p.relative_to(SOURCE)))


def test_every_room_says_what_it_may_import():
    assert {room(f) for f in FILES} - {"__init__"} == set(MAY_IMPORT)


@every([f for f in FILES if room(f) in MAY_IMPORT])
def test_imports_go_one_way(path):
    ours = [(name.split("."), line) for name, line in imports(ast.parse(path.read_text()))]
    rooms = {(parts[1], line) for parts, line in ours if parts[0] == "dcadl" and len(parts) > 1}
    allowed = MAY_IMPORT[room(path)] | ON_CALL.get(path.relative_to(SOURCE).as_posix(), set())

    wrong = [
        f"line {line}: dcadl.{name}" for name, line in rooms if name in MAY_IMPORT and name not in allowed
    ]

    assert not wrong


@every([f for f in FILES if room(f) in ("ops", "solvers")])
def test_formulas_know_no_framework(path):
    tops = {name.split(".")[0] for name, _ in imports(ast.parse(path.read_text()))}

    assert not tops & (FRAMEWORKS - FRAMEWORKS_OF.get(path.name, set()))


FRAMEWORKS_OF = {
    "convnet.py": {"torch"},
    "dask_walk.py": {"dask", "distributed"},
    "dask_watch.py": {"distributed"},
}  # what these solvers are made of


@every([f for f in FILES if room(f) in ("ops", "solvers", "features") and f.name != "floors.py"])
def test_numerical_floors_stand_in_one_file(path):
    nodes = [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Constant)]

    assert not [n.lineno for n in nodes if isinstance(n.value, float) and 0 < n.value < 1e-4]


@every([f for f in FILES if room(f) == "solvers"])
def test_solvers_ask_nothing_of_devices(path):
    assert not {name.split(".")[-1] for name, _ in imports(ast.parse(path.read_text()))} & {"on_host", "sync"}


@every(FILES)
def test_models_have_a_type(path):
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    functions = [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, kinds)]
    arguments = [a for f in functions for a in (*f.args.args, *f.args.kwonlyargs)]

    assert not [
        f"line {a.lineno}: {a.arg}"
        for a in arguments
        if a.arg in ("model", "estimator") and a.annotation and ast.unparse(a.annotation) == "Any"
    ]


@pytest.mark.parametrize(
    "path",
    [*FILES, *sorted((SOURCE.parents[1] / "benchmarks").glob("*.py"))],
    ids=lambda p: str(p.relative_to(SOURCE.parents[1])),
)
def test_files_fit_in_one_sitting(path):
    assert len(path.read_text().splitlines()) <= LINES_IN_A_FILE


@every(FILES)
def test_functions_fit_on_a_screen(path):
    long = [
        f"{node.name}: {length} lines"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for length in [_body_length(node)]
        if length > LINES_IN_A_FUNCTION
    ]

    assert not long


def _body_length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of the body; docstring and signature are left out: in commands they list every option."""
    body = function.body[1:] if ast.get_docstring(function) else function.body
    return body[-1].end_lineno - body[0].lineno + 1 if body else 0


# Names that only we understood. What stands for each now is a word that one can search for.
PRIVATE_WORDS = """
    plainly side_by_side _side_by_side rehearsed keeper Made Recorder _resident leap land Pace slope pull
    dust Metric
    leave_on run_on patchwise Cut _let_go CALM rooted Told _Done keep_apart place_of entitle Seen _telling
"""


@every(FILES)
def test_names_are_words_that_one_can_search_for(path):
    nodes = list(ast.walk(ast.parse(path.read_text())))
    names = {getattr(node, kind, None) for node in nodes for kind in ("id", "name", "attr", "arg")}

    assert not names & set(PRIVATE_WORDS.split())


def _code_lines(path: Path) -> list[tuple[str, str]]:
    """Place and text of each line of code; not imports, nor `__init__`: scikit-learn wants it spelt out."""
    tree, skipped = ast.parse(path.read_text()), set()
    for node in ast.walk(tree):
        match node:
            case ast.Import() | ast.ImportFrom() | ast.FunctionDef(name="__init__"):
                skipped.update(range(node.lineno, node.end_lineno + 1))
            case ast.Expr(value=ast.Constant(value=str())):
                skipped.update(range(node.lineno, node.end_lineno + 1))
    lines = enumerate(path.read_text().splitlines(), 1)
    found = [(f"{path.relative_to(SOURCE)}:{i}", line.strip()) for i, line in lines if i not in skipped]
    return [(place, text) for place, text in found if any(c.isalnum() for c in text) and text[0] != "#"]


def test_estimators_have_no_twins():
    places: dict[tuple[str, ...], list[str]] = {}
    for path in FILES:
        lines = _code_lines(path) if room(path) == "estimators" else []
        for run in zip(*(lines[i:] for i in range(LINES_OF_A_TWIN))):
            places.setdefault(tuple(text for _, text in run), []).append(run[0][0])

    assert not [found for found in places.values() if len(found) > 1]


@pytest.mark.parametrize("path", sorted(SOURCE.parents[1].glob("benchmarks/*.py")), ids=lambda p: p.name)
def test_benchmarks_take_nothing_from_the_tests(path):
    assert "tests" not in {name.split(".")[0] for name, _ in imports(ast.parse(path.read_text()))}
    assert "sys.path" not in path.read_text()


# Files of ours that a call enters, at most, and frames of ours on its deepest stack.
WALKS = {
    ("DCADL", "fit"): (10, 9),
    ("DCADL", "predict"): (8, 6),
    ("PatchRidge", "fit"): (9, 9),
    ("PatchRidge", "predict"): (8, 6),
    ("DPL", "fit"): (10, 8),
    ("DPL", "predict"): (7, 5),
}
NO_HOPS = {"<genexpr>", "<listcomp>", "<dictcomp>", "<setcomp>", "<lambda>"}


def walked(call):
    """Files of ours that the call enters, and frames of ours on its deepest stack."""
    files, depth, deepest = set(), 0, 0

    def watch(frame, event, _):
        nonlocal depth, deepest
        code = frame.f_code
        ours = code.co_filename.startswith(str(SOURCE)) and code.co_name not in NO_HOPS
        if ours and event in ("call", "return"):
            files.add(code.co_filename)
            depth += 1 if event == "call" else -1
            deepest = max(deepest, depth)

    sys.setprofile(watch)
    try:
        call()
    finally:
        sys.setprofile(None)
    return len(files), deepest


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "what"), WALKS)
def test_a_call_reaches_its_arithmetic_in_few_hops(name, what):
    rng, y = np.random.default_rng(0), np.arange(80) % 4
    X = rng.random((80, 144)) if name == "DPL" else rng.random((80, 12, 12))
    model = getattr(dcadl, name)().fit(X, y)  # imports are no part of the walk
    calls = {"fit": lambda: model.fit(X, y), "predict": lambda: model.predict(X)}

    files, frames = walked(calls[what])

    most_files, most_frames = WALKS[name, what]
    assert files <= most_files
    assert frames <= most_frames
