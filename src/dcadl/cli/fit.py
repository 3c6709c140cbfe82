"""`dcadl fit`: labelled data in, a model file out."""

from functools import partial
from inspect import signature
from pathlib import Path
from time import perf_counter
from types import SimpleNamespace
from typing import Annotated, Any

import typer

from dcadl.atomic import check_writable
from dcadl.cli.cluster import Spread, check_cluster, on_cluster
from dcadl.cli.methods import build, find_method, method_names, parse_params, parse_shape
from dcadl.cli.presets import preset
from dcadl.cli.progress import fit_with_bar
from dcadl.cli.read import (
    Labelled,
    Limits,
    MaxBytes,
    MaxPixels,
    Parts,
    SkipUnreadable,
    data_path,
    image_shape,
    read_data,
    refuse_overwrites,
)
from dcadl.cli.terminal import advising, clean_exit, note, progress_bar, say, size_text, times_text


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
    skip_unreadable: SkipUnreadable = False,
    max_pixels: MaxPixels = None,
    max_bytes: MaxBytes = None,
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
        int | None,
        typer.Option(min=1, help="Train on so many of each class, measure the accuracy on the rest."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the first atoms and of the split.")] = 0,
    checkpoint: Annotated[
        Path | None,
        typer.Option(help="A file to write after passes and to go on from after a kill; deleted at the end."),
    ] = None,
    max_memory: Annotated[
        str | None, typer.Option(help="Most memory for the fit beyond its data, such as 2GB.")
    ] = None,
    dask: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Fit on this Dask cluster, such as tcp://host:8786."),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Fit on a Dask cluster of so many processes on this machine.")
    ] = None,
) -> None:
    """Learn a model from labelled pictures, or from rows of features, and save it."""
    with clean_exit():
        check_output(output)
        refuse_overwrites({"--output": output, "--checkpoint": checkpoint}, {"DATA": data_path(data)})
        cls = find_method(method)
        typed: dict[str, Any] = {
            "patch_shape": parse_shape(patch, "--patch"),
            "stride": parse_shape(stride, "--stride"),
        }
        typed = {
            name: value
            for name, value in (typed | {"n_atoms": atoms, "max_memory": max_memory}).items()
            if value is not None
        }
        setting = None if preset_name is None else preset(preset_name, cls)
        if setting is not None and not setting.tuned:
            note(f"{preset_name} has no parameters for {cls.__name__}: its defaults are used")
        model = build(
            cls, _seeded(cls, seed) | (setting.params if setting else {}) | typed | parse_params(param or [])
        )
        check_cluster(cls, dask, workers)
        wanted = parse_shape(size, "--size") or (setting.size if setting else None)
        limits = Limits(max_pixels, max_bytes)
        samples = read_data(data, wanted, color, skip=skip_unreadable, limits=limits)
        parts = _split(samples, holdout, per_class, seed)
        with on_cluster(dask, workers) as spread:
            seconds = _train(model, samples, parts.train, spread, _fit_options(cls, checkpoint))
        model.training_ = training_record(samples.y[parts.train], data, seed)
        model.save(output)  # before it is judged: what was learned is safe
        if checkpoint is not None:
            checkpoint.unlink(missing_ok=True)
        _report(model, samples, parts, seconds, output)


def check_output(path: Path) -> None:
    """Before hours of work: the file must be one we can write."""
    if path.is_dir():
        raise ValueError(f"--output must name a file; {path} is a folder.")
    if not path.resolve().parent.is_dir():
        raise ValueError(f"folder of --output not found: {path.resolve().parent}")
    check_writable(path)


def training_record(y: Any, data: str, seed: int) -> dict[str, Any]:
    """What a model card says of the training run. No times: the same run twice gives the same file."""
    from collections import Counter

    from dcadl import __version__

    counts = Counter(y.tolist())
    return {
        "data": Path(data).name,
        "samples": len(y),
        "smallest_class": min(counts.values()),
        "largest_class": max(counts.values()),
        "seed": seed,
        "dcadl_version": __version__,
    }


def _seeded(cls: type, seed: int) -> dict[str, Any]:
    return {"random_state": seed} if "random_state" in cls().get_params() else {}


def _split(samples: Labelled, holdout: float | None, per_class: int | None, seed: int) -> Parts:
    """Which samples train and which test: as asked, or as the file has it."""
    from dcadl.data import split
    from dcadl.data.errors import SmallClassesError

    if holdout is not None and per_class is not None:
        raise ValueError("give --holdout or --per-class, not both.")
    if holdout is not None:
        if not 0 < holdout < 1:
            raise ValueError(f"--holdout must lie between 0 and 1; got {holdout:g}.")
        with advising({SmallClassesError: _holdout_advice(holdout)}):
            return Parts(*split(samples.y, per_class=1.0 - holdout, seed=seed))
    if per_class is not None:
        with advising({SmallClassesError: "Lower --per-class or leave these classes out."}):
            return Parts(*split(samples.y, per_class=per_class, seed=seed))
    return samples.parts or Parts(slice(None), None)


def _holdout_advice(holdout: float) -> str:
    """At one half only classes of a single sample are too small, and no share helps them."""
    change = "Lower" if holdout > 0.5 else "Raise" if holdout < 0.5 else ""
    return f"{change} --holdout {holdout:g} or leave these classes out." if change else "Leave them out."


def _fit_options(cls: type, checkpoint: Path | None) -> dict[str, Any]:
    if checkpoint is None:
        return {}
    if "checkpoint" not in signature(cls.fit).parameters:  # type: ignore[attr-defined]
        raise ValueError(f"{cls.__name__} does not support checkpoints; leave out --checkpoint.")
    return {"checkpoint": checkpoint}


def _train(model: Any, samples: Labelled, train: Any, spread: Spread, options: dict[str, Any]) -> float:
    """Fit with a bar; the seconds it took."""
    with progress_bar() as bar:
        task = bar.add_task(f"{type(model).__name__}, passes", total=None)
        start = perf_counter()
        X, y = spread(samples.X[train], samples.y[train])
        fit_with_bar(_with_options(model, options), X, y, bar, task)
        return perf_counter() - start


def _with_options(model: Any, options: dict[str, Any]) -> Any:
    """The model, or what fits it with more than X and y."""
    if not options:
        return model
    return SimpleNamespace(fit=partial(model.fit, **options), set_callbacks=model.set_callbacks)


def _report(model: Any, samples: Labelled, parts: Parts, seconds: float, output: Path) -> None:
    n = len(samples.y[parts.train])
    passes = f", {model.n_iter_} passes" if hasattr(model, "n_iter_") else ""
    say(
        f"{type(model).__name__}: {n} samples of {times_text(image_shape(model))}, "
        f"{len(model.classes_)} classes{passes}, {seconds:.2f} s"
    )
    if parts.test is not None:
        accuracy, tested = (
            model.score(samples.X[parts.test], samples.y[parts.test]),
            len(samples.y[parts.test]),
        )
        say(f"accuracy: {accuracy:.2%} of {tested} samples not trained on")
        model.training_ |= {"accuracy": round(float(accuracy), 6), "tested_on": tested}
        model.save(output)
    say(f"saved: {output} ({size_text(output.stat().st_size)})")
