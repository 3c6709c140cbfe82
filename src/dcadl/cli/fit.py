"""`dcadl fit`: labelled data in, a model file out."""

from pathlib import Path
from time import perf_counter
from typing import Annotated, Any, NamedTuple

import typer

from dcadl.cli.inputs import Labelled, image_shape, read_data
from dcadl.cli.methods import build, find_method, method_names, parse_params, parse_shape
from dcadl.cli.presets import preset
from dcadl.cli.progress import fit_with_bar
from dcadl.cli.terminal import clean_exit, note, progress_bar, size_text, times_text


class Parts(NamedTuple):
    """Training and test samples; the test part is None where all are trained on."""

    train: Any
    test: Any


def fit(
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="A folder with one sub-folder of pictures per class, an archive of one, a .npz or .mat file "
            "with images and labels, or a name from `dcadl data list`.",
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The model file to write (.safetensors).")],
    method: Annotated[
        str,
        typer.Option(
            help=f"One of {', '.join(method_names())}; patch-ridge and random-atoms are the controls."
        ),
    ] = "dcadl",
    preset_name: Annotated[
        str | None,
        typer.Option(
            "--preset",
            help="A setting of the paper: extended_yaleb, ar, caltech101, scene15, scene15_100. "
            "Options given beside it win.",
        ),
    ] = None,
    size: Annotated[str | None, typer.Option(help="Resize pictures to HxW, such as 48x42.")] = None,
    color: Annotated[bool, typer.Option("--color", help="Keep three channels instead of grey.")] = False,
    patch: Annotated[
        str | None, typer.Option(help="Size of an atom: N or HxW. Without: the whole image.")
    ] = None,
    stride: Annotated[
        str | None, typer.Option(help="Step between patches: N or HxW. Without: half a patch.")
    ] = None,
    atoms: Annotated[int | None, typer.Option(min=1, help="Number of atoms.")] = None,
    param: Annotated[
        list[str] | None,
        typer.Option("--param", metavar="NAME=VALUE", help="Any parameter of the method; may be repeated."),
    ] = None,
    holdout: Annotated[
        float | None,
        typer.Option(help="Share of each class kept out of training, to measure the accuracy on."),
    ] = None,
    per_class: Annotated[
        int | None, typer.Option(help="Train on so many of each class, measure the accuracy on the rest.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the first atoms and of the split.")] = 0,
) -> None:
    """Learn a model from labelled pictures, or from rows of features, and save it."""
    with clean_exit():
        check_output(output)
        cls = find_method(method)
        typed = {"patch_shape": parse_shape(patch, "--patch"), "stride": parse_shape(stride, "--stride")}
        typed = {name: value for name, value in (typed | {"n_atoms": atoms}).items() if value is not None}
        setting = None if preset_name is None else preset(preset_name, cls)
        if setting is not None and not setting.tuned:
            note(f"{preset_name} has no parameters for {cls.__name__}: its defaults are used")
        model = build(
            cls, _seeded(cls, seed) | (setting.params if setting else {}) | typed | parse_params(param or [])
        )
        wanted = parse_shape(size, "--size") or (setting.size if setting else None)
        samples = read_data(data, wanted, color)
        parts = _split(samples, holdout, per_class, seed)
        seconds = _train(model, samples, parts.train)
        model.save(output)
        _report(model, samples, parts, seconds, output)


def check_output(path: Path) -> None:
    """Before hours of work: the file must be one we can write."""
    if path.is_dir():
        raise ValueError(f"--output must name a file; {path} is a folder.")
    if not path.resolve().parent.is_dir():
        raise ValueError(f"the folder of --output is not there: {path.resolve().parent}")


def _seeded(cls: type, seed: int) -> dict[str, Any]:
    return {"random_state": seed} if "random_state" in cls().get_params() else {}


def _split(samples: Labelled, holdout: float | None, per_class: int | None, seed: int) -> Parts:
    """Which samples train and which test: as asked, or as the file has it."""
    from dcadl.data import split

    if holdout is not None and per_class is not None:
        raise ValueError("give --holdout or --per-class, not both.")
    if holdout is not None:
        if not 0 < holdout < 1:
            raise ValueError(f"--holdout must lie between 0 and 1; got {holdout:g}.")
        return Parts(*split(samples.y, per_class=1.0 - holdout, seed=seed))
    if per_class is not None:
        return Parts(*split(samples.y, per_class=per_class, seed=seed))
    if samples.train_size is not None:
        return Parts(slice(None, samples.train_size), slice(samples.train_size, None))
    return Parts(slice(None), None)


def _train(model: Any, samples: Labelled, train: Any) -> float:
    """Fit with a bar; the seconds it took."""
    with progress_bar() as bar:
        task = bar.add_task(f"{type(model).__name__}, passes", total=None)
        start = perf_counter()
        fit_with_bar(model, samples.X[train], samples.y[train], bar, task)
        return perf_counter() - start


def _report(model: Any, samples: Labelled, parts: Parts, seconds: float, output: Path) -> None:
    n = len(samples.y[parts.train])
    passes = f", {model.n_iter_} passes" if hasattr(model, "n_iter_") else ""
    typer.echo(
        f"{type(model).__name__}: {n} samples of {times_text(image_shape(model))}, "
        f"{len(model.classes_)} classes{passes}, {seconds:.2f} s"
    )
    if parts.test is not None:
        accuracy = model.score(samples.X[parts.test], samples.y[parts.test])
        typer.echo(f"accuracy: {accuracy:.2%} of {len(samples.y[parts.test])} samples not trained on")
    typer.echo(f"saved: {output} ({size_text(output.stat().st_size)})")
