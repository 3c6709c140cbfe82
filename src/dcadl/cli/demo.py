"""`dcadl demo`: LOO-ADL, with DCADL, an SVM and controls beside it, on scikit-learn's digits."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from statistics import mean, median, stdev
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
import typer

from dcadl.cli.read import PIXEL_TOP
from dcadl.cli.terminal import clean_exit, progress_bar, say, size_text

if TYPE_CHECKING:
    from dcadl.model_files import AnyModel

SPLITS = 3
# Rows of the benchmark's table of digits: what it prints is what `dcadl bench digits` records.
OURS, UNLEARNED = "LOOADL", "LOOADL-unlearned"
ROWS = (OURS, "DCADL", UNLEARNED, "PatchRidge", "RandomAtoms", "RBFSVM")
COMPARED = ("DCADL", UNLEARNED, "PatchRidge", "RBFSVM")  # with LOO-ADL, in words
AT_ONCE = 4  # fits, at most
SHOWN = 3  # digits whose evidence is drawn
SAMPLES = 10  # test images written as files, to try `predict` on


class Trial(NamedTuple):
    """One method on one split."""

    label: str
    seed: int
    model: AnyModel
    accuracy: float
    fit_s: float
    predict_s: float  # per image


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for pictures and models.")] = Path(
        "demo"
    ),
) -> None:
    """Train LOO-ADL on small digits, with DCADL, an SVM and controls beside it; draw what was learned.

    The controls say what learning the atoms was worth: the same features with atoms nobody learned, ridge
    regression on patches, and on the responses to random atoms. All see the same splits.
    """
    with clean_exit():
        from dcadl.bench.datasets import fold, load_dataset
        from dcadl.plot.canvas import new_figure

        new_figure(1, 1)  # a missing matplotlib is said before the work, not after it
        output.mkdir(parents=True, exist_ok=True)
        digits = load_dataset("digits")
        folds = [fold(digits, seed) for seed in range(SPLITS)]
        trials = run_trials(folds)
        first = {trial.label: trial.model for trial in trials if trial.seed == 0}
        sizes = save_models(first, output)
        pictures = [
            draw(first[OURS], first[UNLEARNED], folds[0], output),
            write_page(first[OURS], output / "draw.html"),
        ]
        _print_table(trials, sizes, folds[0])
        _print_next(output, pictures)


def run_trials(folds: list[Any]) -> list[Trial]:
    """Every method on every split, side by side: images this small keep no more than one thread busy each."""
    from threadpoolctl import threadpool_limits

    from dcadl.bench.settings import settings
    from dcadl.data.parallel import worker_count

    jobs = [(row, seed) for seed in range(len(folds)) for row in settings("digits", list(ROWS))]
    workers = min(worker_count(-1), AT_ONCE)
    with threadpool_limits(1), ThreadPoolExecutor(workers) as pool, progress_bar() as bar:
        task = bar.add_task("", total=len(jobs))
        waiting = [pool.submit(_trial, row, seed, folds[seed]) for row, seed in jobs]
        trials = []
        for future in as_completed(waiting):
            trials.append(future.result())
            bar.update(task, advance=1, description=f"split {trials[-1].seed + 1}, {trials[-1].label:<16}")
    place = {label: i for i, label in enumerate(ROWS)}
    return sorted(trials, key=lambda trial: (place[trial.label], trial.seed))


def _trial(row: Any, seed: int, fold: Any) -> Trial:
    from dcadl.bench.settings import build

    model = build(row, seed)
    start = perf_counter()
    model.fit(fold.X_train, fold.y_train)
    fit_s = perf_counter() - start
    accuracy = float(np.mean(model.predict(fold.X_test) == fold.y_test))
    start = perf_counter()
    model.predict(fold.X_test)
    return Trial(row.label, seed, model, accuracy, fit_s, (perf_counter() - start) / len(fold.y_test))


def save_models(models: dict[str, Any], output: Path) -> dict[str, int]:
    """The model file of each method that has one; their sizes in bytes."""
    sizes = {}
    for label, model in models.items():
        if hasattr(model, "save"):
            path = output / f"{_file_name(label)}.safetensors"
            model.save(path)
            sizes[label] = path.stat().st_size
    return sizes


def _file_name(label: str) -> str:
    """A row's label as it would be typed: LOOADL-unlearned is loo-adl-unlearned."""
    from dcadl.cli.methods import method_names

    typed = {name: word for word, name in method_names().items()}
    name, hyphen, rest = label.partition("-")
    return f"{typed[name]}{hyphen}{rest}"


def draw(model: AnyModel, unlearned: AnyModel, fold: Any, output: Path) -> tuple[Path, str]:
    """A picture of all, and some test images as files; what was written and what it shows."""
    from sklearn.metrics import confusion_matrix

    from dcadl.cli.pictures import overview, write_figure

    X, y = fold.X_test, fold.y_test
    predicted = model.predict(X)
    confusion = confusion_matrix(y, predicted)
    title = f"{np.trace(confusion)} of {len(y)} test digits right"
    few = _examples(y, predicted)
    _write_samples(X, y, output / "images")
    figure = overview(model, unlearned, (X[few], y[few]), confusion, title)
    says = "filters before and after learning, structures compared, mistakes, evidence"
    return write_figure(figure, output / "overview.png"), says


def _examples(y: Any, predicted: Any) -> Any:
    """A few images to look at: the first that were recognised, and last, one mistake where there is any."""
    right, wrong = np.flatnonzero(y == predicted), np.flatnonzero(y != predicted)
    return np.concatenate([right[: SHOWN - len(wrong[:1])], wrong[:1]])


def write_page(model: AnyModel, path: Path) -> tuple[Path, str]:
    """A web page to draw digits into; the model's temperature makes its probabilities."""
    from dcadl.atomic import write_atomically
    from dcadl.deploy.translate import operations_of
    from dcadl.deploy.web_page import web_page

    program = operations_of(model, scale=1 / PIXEL_TOP)
    write_atomically(path, web_page(program, "Digits", "light").encode())
    return path, "open it in a browser and draw a digit"


def _write_samples(X: Any, y: Any, folder: Path) -> None:
    from PIL import Image

    folder.mkdir(exist_ok=True)
    for i, (image, label) in enumerate(zip(X[:SAMPLES], y[:SAMPLES])):
        Image.fromarray(np.rint(image * PIXEL_TOP).astype(np.uint8)).save(folder / f"{i}_is_{label}.png")


def _print_table(trials: list[Trial], sizes: dict[str, int], fold: Any) -> None:
    from rich.console import Console
    from rich.table import Table

    from dcadl.bench.report.cells import duration_text

    train, test = len(fold.y_train), len(fold.y_test)
    table = Table(
        title=f"scikit-learn's digits: {train} train, {test} test, {SPLITS} random splits",
        title_style="bold",
        caption="accuracy: mean ± standard deviation over the splits; times: median, on one core each",
    )
    table.add_column("method")
    for name in ("accuracy", "training", "per image", "model file"):
        table.add_column(name, justify="right")
    for label, mine in _by_label(trials):
        accuracies = [trial.accuracy for trial in mine]
        seconds, each = median(t.fit_s for t in mine), median(t.predict_s for t in mine)
        size = size_text(sizes[label]) if label in sizes else "–"
        shown = f"{mean(accuracies):.2%} ± {stdev(accuracies):.2%}"
        table.add_row(_title(label), shown, f"{seconds:.2f} s", duration_text(each), size)
    console = Console()
    console.print(table)
    console.print(_reading(dict(_by_label(trials)), test / train), style="dim")


def _by_label(trials: list[Trial]) -> Iterator[tuple[str, list[Trial]]]:
    for label in dict.fromkeys(trial.label for trial in trials):
        yield label, [trial for trial in trials if trial.label == label]


def _title(label: str) -> str:
    from dcadl.bench.methods import row_title

    return row_title(label, label.partition("-")[0])


def _reading(trials: dict[str, list[Trial]], test_over_train: float) -> str:
    """What the table says, whoever won: differences split by split, against their standard error.

    The splits share most of their training images, so that they vary less than new data would: the error
    is widened by Nadeau and Bengio's correction (2003) for that.
    """
    lines = []
    for label in COMPARED:
        gaps = [a.accuracy - b.accuracy for a, b in zip(trials[OURS], trials[label])]
        error = stdev(gaps) * np.sqrt(1 / len(gaps) + test_over_train)
        apart = abs(mean(gaps)) > 2 * error
        word = ("better" if mean(gaps) > 0 else "worse") if apart else "no clear difference"
        points = f"{100 * mean(gaps):+.2f} ± {100 * error:.2f} points"
        lines.append(f"{_title(OURS)} against {_title(label)}: {points}, {word}.")
    return "\n".join(lines)


def _print_next(output: Path, pictures: list[tuple[Path, str]]) -> None:
    folder = shlex.quote(str(output))
    model = f"{folder}/{_file_name(OURS)}.safetensors"
    say("\nPictures:")
    for path, says in pictures:
        say(f"  {path!s:<24}  {says}")
    say("\nTry next:")
    say(f"  dcadl info {model}")
    say(f"  dcadl predict {model} {folder}/images/*.png")
    say(f"  dcadl explain {model} {folder}/images/0_is_*.png -o why.png")
    say("  dcadl fit FOLDER")
    say("    (FOLDER has one sub-folder of your own pictures for each class; no option is needed)")
