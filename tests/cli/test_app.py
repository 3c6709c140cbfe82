"""The command as a whole: help, version, the demo, and a real process."""

from __future__ import annotations

import subprocess
import sys
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
import typer.core
import typer.main
from PIL import Image
from rich.console import Console
from rich.progress import Progress
from sklearn.datasets import load_digits

import dcadl
from dcadl.bench.datasets import fold, load_dataset
from dcadl.bench.settings import build, settings
from dcadl.cli import app
from dcadl.cli.methods import method_names
from dcadl.cli.progress import first_words, fit_with_bar
from dcadl.cli.terminal import clean_exit
from dcadl.data import read_images
from dcadl.data.images import unit_range

COMMANDS = ("demo", "fit", "predict", "evaluate", "info", "features", "data")


def test_help_names_every_command(call):
    text = call("--help").stdout

    assert [name for name in COMMANDS if f" {name} " not in text] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(call, command):
    result = call(command, "--help")

    assert result.exit_code == 0
    assert "Usage" in result.stdout


def test_a_real_process_says_its_version():
    done = subprocess.run([sys.executable, "-m", "dcadl.cli", "--version"], capture_output=True, text=True)

    assert (done.returncode, done.stdout, done.stderr) == (0, f"dcadl {dcadl.__version__}\n", "")


def test_a_real_process_refuses_in_one_line(tmp_path):
    words = ["info", str(tmp_path / "nowhere")]

    done = subprocess.run([sys.executable, "-m", "dcadl.cli", *words], capture_output=True, text=True)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: Model file not found")
    assert done.stderr.count("\n") == 1


def test_a_reader_that_stops_early_is_no_error(model):
    command = [sys.executable, "-m", "dcadl.cli", "info", str(model)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    process.stdout.close()

    assert process.stderr.read() == ""
    process.stderr.close()
    process.wait(timeout=120)


def test_importing_the_command_does_not_import_matplotlib_or_torch():
    code = (
        "import sys, dcadl.cli; sys.exit(any(name in sys.modules for name in ('matplotlib', 'torch', 'cv2')))"
    )

    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_an_error_of_many_lines_becomes_one(capsys):
    with pytest.raises(BaseException, match="2"), clean_exit():
        raise ValueError("two files:\n  a\n  b")

    assert capsys.readouterr().err == "error: two files: a b\n"


def test_the_bar_steps_once_per_pass_and_is_gone_from_the_model(arrays):
    images, labels = arrays
    model = dcadl.DCADL(n_atoms=4, patch_shape=6, max_iter=3, tol=0, random_state=0)
    with Progress(console=Console(quiet=True)) as bar:
        task = bar.add_task("", total=None)

        fit_with_bar(model, images / 255, labels, bar, task)

        assert (bar.tasks[0].completed, bar.tasks[0].total) == (3, 3)
    assert not hasattr(model, "_skl_callbacks")


def test_the_bar_says_what_a_method_does_before_its_passes():
    found, words = load_digits(), []

    class Bar(Progress):
        def update(self, task, **changes):
            super().update(task, **changes)
            words.append((self.tasks[0].description, self.tasks[0].total))

    model = dcadl.LOOADL(n_atoms=4, max_iter=2, tol=0, random_state=0)
    with Bar(console=Console(quiet=True)) as bar:
        task = bar.add_task(first_words(model), total=None)
        words.append((bar.tasks[0].description, bar.tasks[0].total))

        fit_with_bar(model, found.images[:300], found.target[:300], bar, task)

    assert list(dict.fromkeys(words)) == [
        ("LOOADL, comparing structures", None),
        ("LOOADL, judging filters", None),
        ("LOOADL, passes", None),
        ("LOOADL, passes", 2),
    ]


def small_fold(digits, seed):
    """A split of the benchmark, with fewer digits to train on."""
    whole = fold(digits, seed)
    return whole._replace(X_train=whole.X_train[::4], y_train=whole.y_train[::4])


@pytest.fixture(scope="module")
def demo(call, tmp_path_factory):
    """One run of the demo, cut to two splits of fewer digits."""
    import importlib

    module = importlib.import_module("dcadl.cli.demo")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "SPLITS", 2)
        patch.setattr("dcadl.bench.datasets.fold", small_fold)
        output = tmp_path_factory.mktemp("demo") / "out"
        result = call("demo", "--output", output)
    assert result.exit_code == 0, result.output
    return output, result.stdout


def test_the_demo_shows_loo_adl_first_with_the_others_beside_it(demo):
    _, text = demo
    names = (
        "LOO-ADL ",
        "DCADL ",
        "LOO-ADL-unlearned ",
        "Patch ridge ",
        "Random atoms ",
        "RBF-SVM ",
    )
    places = [text.index(f"│ {name}") for name in names]

    assert places == sorted(places)
    assert text.count("LOO-ADL against") == 4


def test_the_demo_prints_what_the_benchmark_would_record(demo):
    _, text = demo
    digits, (row,) = load_dataset("digits"), settings("digits", ["PatchRidge"])
    folds = [small_fold(digits, seed) for seed in range(2)]
    fitted = [build(row, seed).fit(each.X_train, each.y_train) for seed, each in enumerate(folds)]
    accuracy = np.mean([model.score(each.X_test, each.y_test) for model, each in zip(fitted, folds)])

    assert f"│ Patch ridge       │ {accuracy:.2%} ±" in text


def test_the_demo_draws_a_picture_and_says_where(demo):
    output, text = demo

    assert "overview.png" in text
    with Image.open(output / "overview.png") as picture:
        colours = picture.convert("RGB").getcolors(1 << 22)
    assert len(colours) > 20


def test_the_demos_filters_stand_beside_those_they_started_from(demo):
    output, _ = demo
    learned, first = (dcadl.load(output / f"{name}.safetensors") for name in ("loo-adl", "loo-adl-unlearned"))

    assert learned.candidates_ == first.candidates_
    assert learned.atoms_.shape == first.atoms_.shape
    assert learned.learned_
    assert not first.learned_


def test_the_demo_writes_a_page_to_draw_into(demo):
    output, text = demo

    assert str(output / "draw.html") in text
    assert "Calibrated probabilities." in (output / "draw.html").read_text()


def test_what_the_demo_tells_to_try_next_works_as_printed(call, demo, tmp_path, monkeypatch):
    """Every line but the one that needs a folder of the user's own."""
    _, text = demo
    monkeypatch.chdir(tmp_path)
    lines = [line.split()[1:] for line in text.splitlines() if line.startswith("  dcadl ")]
    assert [words[0] for words in lines] == ["info", "predict", "explain", "fit"]
    for words in lines[:-1]:
        found = [sorted(map(str, Path("/").glob(word[1:]))) if "*" in word else [word] for word in words]
        result = call(*chain.from_iterable(found))
        assert result.exit_code == 0, result.output


def test_the_demos_model_names_its_digits(call, demo):
    output, _ = demo
    pictures = sorted((output / "images").iterdir())

    result = call("predict", output / "loo-adl.safetensors", *pictures, "--csv")

    labels = [line.split(",")[1] for line in result.stdout.splitlines()[1:]]
    truth = [file.stem.rpartition("_")[2] for file in pictures]
    assert sum(a == b for a, b in zip(labels, truth)) >= 8


def test_the_digits_by_name_have_the_scale_of_their_pictures(call, demo, tmp_path):
    output, _ = demo
    pictures = sorted((output / "images").iterdir())
    plain = ("--method", "patch-ridge", "--patch", 4, "--param", "normalize=none")
    assert call("fit", "digits", "-o", tmp_path / "m", *plain).exit_code == 0

    scores = dcadl.load(tmp_path / "m").decision_function(unit_range(read_images(pictures)))

    assert np.mean(scores.argmax(axis=1) == [int(file.stem[-1]) for file in pictures]) >= 0.8
    assert np.ptp(scores) > 0.5  # sixteen times fainter pictures would leave little but the intercept


# Ctrl-C at the moment when the module named first is imported
INTERRUPTED = """
import sys
class Interrupt:
    def find_spec(self, name, *_):
        if name == sys.argv[1]:
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupt())
from dcadl.cli import app
app(sys.argv[2:])
"""


@pytest.mark.parametrize("command", ["fit", "features"])
@pytest.mark.parametrize("module", ["typer", "numpy", "sklearn"])
def test_ctrl_c_while_python_still_imports_is_exit_code_130(tmp_path, module, command):
    words = [module, command, str(tmp_path / "data"), "-o", str(tmp_path / "m.npz"), "--per-class", "2"]

    done = subprocess.run([sys.executable, "-c", INTERRUPTED, *words], capture_output=True, text=True)

    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")


def interrupt(*_, **__):
    raise KeyboardInterrupt


@pytest.mark.parametrize("moment", ["make_context", "invoke"])
def test_ctrl_c_while_typer_works_is_exit_code_130(call, monkeypatch, moment):
    monkeypatch.setattr(typer.core.TyperGroup, moment, interrupt)

    result = call("data", "list")

    assert (result.exit_code, result.stderr) == (130, "interrupted\n")


def test_ctrl_c_while_commands_are_put_together_is_exit_code_130(capsys, monkeypatch):
    monkeypatch.setattr(typer.main, "get_command", interrupt)

    with pytest.raises(SystemExit, match="130"):
        app(["data", "list"])

    assert capsys.readouterr().err == "interrupted\n"


def test_help_and_version_do_not_wait_for_scikit_learn_or_scipy():
    code = "import sys, dcadl.cli; sys.exit(any(name in sys.modules for name in ('sklearn', 'scipy')))"

    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_the_command_knows_every_method_of_the_library():
    assert sorted(method_names().values()) == sorted(dcadl.estimators.__all__)


def test_every_public_name_is_there_and_listed():
    code = (
        "import dcadl; assert set(dcadl.__all__) < set(dir(dcadl)); assert dcadl.data.split; "
        "assert dcadl.estimators.DCADL is dcadl.DCADL; from dcadl import *; assert load is dcadl.load; "
        "assert ADLSVM().get_params()"
    )

    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'KSVD'"):
        _ = dcadl.KSVD
