"""`dcadl fit`: labelled data in, a model file out."""

from __future__ import annotations

from functools import partial
from inspect import signature
from pathlib import Path
from time import perf_counter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from dcadl.atomic import check_writable
from dcadl.cli.cluster import check_cluster, on_cluster
from dcadl.cli.cross import cross_validated
from dcadl.cli.methods import (
    build,
    find_method,
    in_options_words,
    method_names,
    parse_params,
    parse_shape,
)
from dcadl.cli.presets import preset
from dcadl.cli.progress import first_words, fit_with_bar
from dcadl.cli.pyramids import MAX_SIDE, USUAL_METHOD, check_words, with_features
from dcadl.cli.read import (
    Labelled,
    Limits,
    MaxBytes,
    MaxPixels,
    Parts,
    SkipUnreadable,
    data_path,
    read_data,
    refuse_overwrites,
)
from dcadl.cli.reading_plan import ReadingPlan, check_memory, make_plan, settle_color
from dcadl.cli.summary import Fitted, report
from dcadl.cli.terminal import advising, clean_exit, note, progress_bar

if TYPE_CHECKING:
    from dcadl.model_files import AnyModel

ENDING = ".safetensors"


def fit(
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="A folder with one sub-folder of pictures per class, an archive of one, a .npz or .mat file "
            "with images and labels, or a name from `dcadl data list`.",
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="The model file to write. Without: DATA's name with .safetensors."
        ),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            help=f"One of {', '.join(method_names())}; patch-ridge and random-atoms are the controls. "
            "Without: loo-adl for pictures, dcadl for rows of numbers."
        ),
    ] = None,
    preset_name: Annotated[
        str | None,
        typer.Option(
            "--preset",
            help="A setting of the paper: extended_yaleb, ar, caltech101, scene15, scene15_100. "
            "Options given beside it win.",
        ),
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(help="Resize pictures to HxW, such as 48x42. Without: a size that suits them."),
    ] = None,
    color: Annotated[
        bool | None,
        typer.Option("--color/--grey", help="Three channels, or one. Without: as most pictures are."),
    ] = None,
    skip_unreadable: SkipUnreadable = False,
    max_pixels: MaxPixels = None,
    max_bytes: MaxBytes = None,
    patch: Annotated[
        str | None,
        typer.Option(help="Size of an atom: N or HxW. Without: chosen by the method."),
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
    features: Annotated[
        str | None,
        typer.Option(
            metavar="pyramid",
            help="Classify features of the pictures instead of their pixels: pyramid, for scenes and things "
            "that are not aligned. They become part of the model.",
        ),
    ] = None,
    probabilities: Annotated[
        bool | None,
        typer.Option(
            "--probabilities/--no-probabilities",
            help="Judge by cross-validation what the method itself does not know of new samples. Without: "
            "where that takes two minutes at most.",
        ),
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
    """Learn a model from labelled pictures, or from rows of features, and save it.

    No option need be given: size, colour and method are chosen to suit the data, and said.
    """
    with clean_exit():
        output = output or default_output(data)
        refuse_overwrites({"--output": output, "--checkpoint": checkpoint}, {"DATA": data_path(data)})
        check_output(output)
        check_words(features, size, color, preset_name)
        typed = _typed(patch, stride, atoms, max_memory) | parse_params(param or [])
        asked = Asked(method, preset_name, typed, seed, features is not None)
        wanted = Wanted(parse_shape(size, "--size"), color, skip_unreadable, Limits(max_pixels, max_bytes))
        model, plan, samples = _prepare(data, asked, wanted)
        check_cluster(type(model), dask, workers)
        parts = _split(samples, holdout, per_class, seed)
        made = with_features(samples, parts, seed) if features else None
        plan, samples = settle_color(plan, samples, seed) if made is None else (plan, made.samples)
        X, y = samples.X[parts.train], samples.y[parts.train]
        with in_options_words(model), on_cluster(dask, workers) as spread:
            check_memory(model, len(y), X.shape[1:])
            seconds = _train(model, *spread(X, y), _fit_options(type(model), checkpoint))
        model.training_ = training_record(y, data, seed)
        fitted = Fitted(model, made, seconds, data)
        fitted.save(output)  # before it is judged: what was learned is safe
        if checkpoint is not None:
            checkpoint.unlink(missing_ok=True)
        tested = parts.test is not None
        crossed = cross_validated(
            model, X, y, seconds=seconds, seed=seed, wanted=probabilities, tested=tested
        )
        report(fitted, samples, parts, plan, output, crossed)


class Asked(NamedTuple):
    """The words that say which model."""

    method: str | None
    preset: str | None
    params: dict[str, Any]
    seed: int
    features: bool = False

    @property
    def is_open(self) -> bool:
        """Whether the data decide on the method."""
        return self.method is None and self.preset is None


class Wanted(NamedTuple):
    """The words that say how pictures are read."""

    size: Any
    color: bool | None
    skip: bool
    limits: Limits


def _prepare(data: str, asked: Asked, wanted: Wanted) -> tuple[Any, ReadingPlan, Labelled]:
    """The model, not fitted yet, how pictures are read, and the samples; what has no room is refused."""
    options: dict[str, Any] = {"skip": wanted.skip, "limits": wanted.limits}
    if asked.features:
        model, _ = _model(asked, pictures=True)
        return model, ReadingPlan(None, False, None), read_data(data, max_side=MAX_SIDE, **options)
    model, own_size = (None, None) if asked.is_open else _model(asked, pictures=True)
    plan = make_plan(data, wanted.size or own_size, wanted.color, settled=not asked.is_open)
    if model is None and plan.survey is not None:
        model, _ = _model(asked, pictures=True)
    if model is not None:
        _check_room(model, plan)
    samples = read_data(data, plan.size, plan.color, **options)
    if model is None:
        model, _ = _model(asked, pictures=samples.X.ndim > 2)
    return model, plan, samples


def default_output(data: str) -> Path:
    """A model file in this folder, named after the data; a file that is no model is never replaced."""
    from dcadl.estimators.files import read_header

    path = Path(Path(data.rstrip("/")).resolve().name.split(".")[0] + ENDING)
    if path.exists():
        try:
            read_header(path)
        except ValueError:
            raise ValueError(
                f"{path} already exists and is not a model of dcadl; name the model file with -o."
            ) from None
        note(f"the model file {path} will be replaced")
    return path


def _typed(patch: str | None, stride: str | None, atoms: int | None, memory: str | None) -> dict[str, Any]:
    """Parameters that have options of their own, as far as they were given."""
    found: dict[str, Any] = {
        "patch_shape": parse_shape(patch, "--patch"),
        "stride": parse_shape(stride, "--stride"),
        "n_atoms": atoms,
        "max_memory": memory,
    }
    return {name: value for name, value in found.items() if value is not None}


def _model(asked: Asked, *, pictures: bool) -> tuple[Any, Any]:
    """The estimator, not fitted yet, and the size of pictures that a preset wants."""
    usual = "loo-adl" if pictures and asked.preset is None else "dcadl"
    usual = USUAL_METHOD if asked.features else usual
    cls = find_method(asked.method or usual)
    setting = None if asked.preset is None else preset(asked.preset, cls)
    if setting is not None and not setting.tuned:
        note(f"{asked.preset} has no parameters for {cls.__name__}: its defaults are used")
    own = setting.params if setting else {}
    return build(cls, _seeded(cls, asked.seed) | own | asked.params), setting.size if setting else None


def _check_room(model: AnyModel, plan: ReadingPlan) -> None:
    """Refuse a folder that does not fit, before it is read."""
    if plan.survey is not None and plan.size is not None:
        with in_options_words(model):
            check_memory(model, len(plan.survey.sizes), (*plan.size, *((3,) if plan.color else ())))


def check_output(path: Path) -> None:
    """Before hours of work: the file must be one we can write, and be told by its name."""
    if path.suffix not in ("", ENDING):
        raise ValueError(f"--output must end in {ENDING}, the only format of models; got {path.name}.")
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


def _train(model: AnyModel, X: Any, y: Any, options: dict[str, Any]) -> float:
    """Fit with a bar; the seconds it took."""
    with progress_bar() as bar:
        task = bar.add_task(first_words(model), total=None)
        start = perf_counter()
        fit_with_bar(_with_options(model, options), X, y, bar, task)
        return perf_counter() - start


def _with_options(model: AnyModel, options: dict[str, Any]) -> Any:
    """The model, or what fits it with more than X and y."""
    if not options:
        return model
    return SimpleNamespace(fit=partial(model.fit, **options), set_callbacks=model.set_callbacks)
