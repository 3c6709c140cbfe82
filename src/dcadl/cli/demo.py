"""`dcadl demo`: DCADL and the two controls on scikit-learn's digits, with a table and pictures."""

from pathlib import Path
from time import perf_counter
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer

from dcadl.cli.progress import fit_with_bar
from dcadl.cli.read import DIGITS_TOP, PIXEL_TOP
from dcadl.cli.terminal import clean_exit, progress_bar, say, size_text

SPLITS = 5
PER_CLASS = 90  # of the about 180 images of each digit: half train, half test
PATCHES: dict[str, Any] = {"patch_shape": 4, "stride": 1, "normalize": "centred"}
ATOMS = 15  # a centred patch of 4×4 has so many dimensions
PASSES = 30
SHOWN = 3  # images in the picture of codes
SAMPLES = 10  # test images written as files, to try `predict` on


class Trial(NamedTuple):
    """One method over all splits."""

    model: Any  # of the first split
    accuracies: list[float]
    fit_seconds: list[float]
    predict_seconds: list[float]  # per image


class Digits(NamedTuple):
    """The images, and who trains and who tests in each split."""

    X: Any  # (n, 8, 8) in [0, 1]
    y: Any
    splits: list[Any]


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for pictures and models.")] = Path(
        "demo"
    ),
) -> None:
    """Train DCADL and two controls on small digits; print a table and draw what was learned.

    The controls say what learning the atoms was worth: ridge regression on the patches themselves, and on
    the responses to random atoms. All three see the same patches and the same splits.
    """
    with clean_exit():
        from threadpoolctl import threadpool_limits

        from dcadl.plot.canvas import new_figure

        new_figure(1, 1)  # a missing matplotlib is said before the work, not after it
        output.mkdir(parents=True, exist_ok=True)
        digits = read_digits()
        with threadpool_limits(1):  # images this small keep one thread busy; more only wait for each other
            trials = run_trials(digits)
        sizes = save_models(trials, output)
        pictures = draw(trials["DCADL"].model, digits, output)
        pictures.append(write_page(trials["DCADL"].model, digits, output / "draw.html"))
        _print_table(trials, sizes, digits)
        _print_next(output, pictures)


def read_digits() -> Digits:
    """scikit-learn's 1797 digits of 8×8 pixels, split in half five times."""
    from dcadl.data import load, repeated_splits

    bunch = load("digits")
    X = (bunch.images / DIGITS_TOP).astype(np.float32)
    return Digits(X, bunch.target, repeated_splits(bunch.target, per_class=PER_CLASS, repeats=SPLITS))


def contestants(seed: int) -> list[Any]:
    """DCADL and the controls, at the library's λ, on the same patches."""
    from dcadl import DCADL, PatchRidge, RandomAtoms

    return [
        DCADL(n_atoms=ATOMS, init="pca", max_iter=PASSES, tol=0, random_state=seed, **PATCHES),
        RandomAtoms(n_atoms=ATOMS, random_state=seed, **PATCHES),
        PatchRidge(**PATCHES),
    ]


def run_trials(digits: Digits) -> dict[str, Trial]:
    """Every method on every split."""
    trials: dict[str, Trial] = {}
    with progress_bar() as bar:
        task = bar.add_task("")
        for seed, (train, test) in enumerate(digits.splits):
            for model in contestants(seed):
                name = type(model).__name__
                bar.update(task, description=f"split {seed + 1} of {SPLITS}, {name:<11}")
                start = perf_counter()
                fit_with_bar(model, digits.X[train], digits.y[train], bar, task)
                seconds = perf_counter() - start
                trial = trials.setdefault(name, Trial(model, [], [], []))
                trial.fit_seconds.append(seconds)
                trial.accuracies.append(model.score(digits.X[test], digits.y[test]))
                trial.predict_seconds.append(_seconds_per_image(model, digits.X[test]))
    return trials


def _seconds_per_image(model: Any, X: Any) -> float:
    """The best of five: what disturbs a run only makes it slower."""
    times = []
    for _ in range(5):
        start = perf_counter()
        model.predict(X)
        times.append(perf_counter() - start)
    return min(times) / len(X)


def save_models(trials: dict[str, Trial], output: Path) -> dict[str, int]:
    """Each method's model file in the folder; their sizes in bytes."""
    from dcadl.cli.methods import method_names

    sizes = {}
    for typed, name in method_names().items():
        if name in trials:
            path = output / f"{typed}.safetensors"
            trials[name].model.save(path)
            sizes[name] = path.stat().st_size
    return sizes


def draw(model: Any, digits: Digits, output: Path) -> list[tuple[Path, str]]:
    """The pictures, and some test images as files; what was written and what it shows."""
    from sklearn.metrics import confusion_matrix

    from dcadl.cli.pictures import confusion_picture, overview, write_figure
    from dcadl.plot import AtomsDisplay, CodesDisplay, ConvergenceDisplay

    test = digits.splits[0].test
    X, y = digits.X[test], digits.y[test]
    predicted = model.predict(X)
    confusion = confusion_matrix(y, predicted)
    title = f"{np.trace(confusion)} of {len(y)} test digits right"
    few = _examples(y, predicted)
    _write_samples(X, y, output / "images")
    figures = {
        "atoms": (AtomsDisplay.from_estimator(model).figure_, "the filters learned"),
        "convergence": (ConvergenceDisplay.from_estimator(model).figure_, "the objective after each block"),
        "confusion": (
            confusion_picture(confusion, model.classes_, title),
            "which digits are mistaken for which",
        ),
        "codes": (CodesDisplay.from_estimator(model, X[few], y[few]).figure_, "from image to label"),
        "overview": (overview(model, X[few], y[few], confusion, title), "all of these on one page"),
    }
    return [(write_figure(fig, output / f"{name}.png"), says) for name, (fig, says) in figures.items()]


def _examples(y: Any, predicted: Any) -> Any:
    """A few images to look at: the first that were recognised, and last, one mistake where there is any."""
    right, wrong = np.flatnonzero(y == predicted), np.flatnonzero(y != predicted)
    return np.concatenate([right[: SHOWN - len(wrong[:1])], wrong[:1]])


def write_page(model: Any, digits: Digits, path: Path) -> tuple[Path, str]:
    """A web page to draw digits into, its probabilities calibrated on the test images."""
    from dcadl.atomic import write_atomically
    from dcadl.deploy.calibration import with_temperature
    from dcadl.deploy.translate import operations_of
    from dcadl.deploy.web_page import web_page

    test = digits.splits[0].test
    program = operations_of(model, scale=1 / PIXEL_TOP)
    program = with_temperature(program, digits.X[test] * PIXEL_TOP, digits.y[test])
    write_atomically(path, web_page(program, "Digits", "light").encode())
    return path, "open it in a browser and draw a digit"


def _write_samples(X: Any, y: Any, folder: Path) -> None:
    from PIL import Image

    folder.mkdir(exist_ok=True)
    for i, (image, label) in enumerate(zip(X[:SAMPLES], y[:SAMPLES])):
        Image.fromarray(np.rint(image * 255).astype(np.uint8)).save(folder / f"{i}_is_{label}.png")


def _print_table(trials: dict[str, Trial], sizes: dict[str, int], digits: Digits) -> None:
    from rich.console import Console
    from rich.table import Table

    train, test = digits.splits[0]
    table = Table(
        title=f"scikit-learn's digits: {len(train)} train, {len(test)} test, {SPLITS} random splits",
        title_style="bold",
        caption="accuracy: mean ± standard deviation over the splits; times: median",
    )
    table.add_column("method")
    for name in ("accuracy", "training", "per image", "model file"):
        table.add_column(name, justify="right")
    for name, trial in trials.items():
        accuracy = f"{np.mean(trial.accuracies):.2%} ± {np.std(trial.accuracies, ddof=1):.2%}"
        seconds, micro = np.median(trial.fit_seconds), np.median(trial.predict_seconds) * 1e6
        table.add_row(name, accuracy, f"{seconds:.2f} s", f"{micro:.1f} µs", size_text(sizes[name]))
    console = Console()
    console.print(table)
    console.print(_reading(trials, len(test) / len(train)), style="dim")


def _reading(trials: dict[str, Trial], test_over_train: float) -> str:
    """What the table says, whoever won: differences split by split, against their standard error.

    The splits share most of their training images, so that they vary less than new data would: the error
    is widened by Nadeau and Bengio's correction (2003) for that.
    """
    ours = np.array(trials["DCADL"].accuracies)
    lines = []
    for name in ("RandomAtoms", "PatchRidge"):
        gaps = ours - np.array(trials[name].accuracies)
        error = gaps.std(ddof=1) * np.sqrt(1 / SPLITS + test_over_train)
        word = (
            "no clear difference"
            if abs(gaps.mean()) <= 2 * error
            else "better"
            if gaps.mean() > 0
            else "worse"
        )
        lines.append(f"DCADL against {name}: {100 * gaps.mean():+.2f} ± {100 * error:.2f} points, {word}.")
    return "\n".join(lines)


def _print_next(output: Path, pictures: list[tuple[Path, str]]) -> None:
    say("\nPictures:")
    for path, says in pictures:
        say(f"  {path!s:<24}  {says}")
    say("\nTry next:")
    say(f"  dcadl info {output}/dcadl.safetensors")
    say(f"  dcadl predict {output}/dcadl.safetensors {output}/images/*.png")
    say("  dcadl fit FOLDER -o model.safetensors --size 48x42 --patch 12 --stride 6 --holdout 0.25")
    say("    (FOLDER has one sub-folder of your own pictures per class)")
