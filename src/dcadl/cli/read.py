"""What commands read: labelled data and pictures, in the size, colour and scale that a model takes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
import typer

from dcadl.cli.terminal import advising, note

if TYPE_CHECKING:
    from dcadl.model_files import AnyModel

PIXEL_TOP = 255.0
DIGITS_TOP = 16.0  # scikit-learn's digits have pixels 0..16
RESIZE = "Give --size HxW to resize them."

SkipUnreadable = Annotated[
    bool,
    typer.Option("--skip-unreadable", help="Leave out pictures that cannot be read, with a note on each."),
]


MaxPixels = Annotated[
    int | None, typer.Option(min=1, help="Largest picture that is decoded; default: 64 million pixels.")
]
MaxBytes = Annotated[
    int | None, typer.Option(min=1, help="Most memory that arrays of a file may take; default: 2 GiB.")
]


class Limits(NamedTuple):
    """How much a file may unfold to, where the user says; None leaves it to the library."""

    max_pixels: int | None = None
    max_bytes: int | None = None


NO_LIMITS = Limits()


class Parts(NamedTuple):
    """Training and test samples; the test part is None where all are trained on."""

    train: Any
    test: Any


class Labelled(NamedTuple):
    """Samples scaled and labels by name."""

    X: Any  # (n, H, W), (n, H, W, 3) or (n, features), float32
    y: Any  # (n,) class names
    parts: Parts | None  # where the file keeps a training and a test part


class ImageForm(NamedTuple):
    """The pictures that a model was trained on."""

    size: tuple[int, int] | None
    color: bool
    max_side: int | None = None  # where pictures keep their own sizes up to this

    def read(self, file: Path, max_pixels: int) -> Any:
        """One picture file as the model takes it, but for its scale."""
        from dcadl.data.images import decode, decode_shrunk

        if self.max_side is not None:
            return decode_shrunk(file, self.max_side, max_pixels)
        return decode(file, size=self.size, color=self.color, max_pixels=max_pixels)

    def batch(self, pictures: list[Any]) -> Any:
        """Pictures that were read, as a model's X."""
        if self.max_side is not None:
            return pictures
        from dcadl.data.images import unit_range

        return unit_range(np.stack(pictures))


def read_data(
    data: str,
    size: Any = None,
    color: bool | None = False,
    *,
    skip: bool = False,
    if_mixed: str = RESIZE,
    limits: Limits = NO_LIMITS,
    max_side: int | None = None,
    fewest_classes: int = 2,
) -> Labelled:
    """A folder of class folders, an archive of one, a `.npz` or `.mat` file, or a named data set.

    With `skip`, pictures that cannot be read are left out, with a note on each. `if_mixed` is the advice on
    pictures of several sizes. `limits` are those of `read_labelled`, where given. With `max_side` pictures of
    a folder keep their own sizes and proportions up to it, as a feature pyramid takes them.
    """
    from dcadl.data import read_labelled
    from dcadl.data.errors import MixedSizesError
    from dcadl.data.images import unit_range
    from dcadl.data.registry import names

    if data in names() and not Path(data).exists():
        bunch = _named(data, size, color, ragged=max_side is not None)
    else:
        with advising(unreadable_advice(skip) | {MixedSizesError: if_mixed}):
            given: dict[str, Any] = {
                name: limit for name, limit in limits._asdict().items() if limit is not None
            }
            given["on_error"] = "skip" if skip else "raise"
            bunch = read_labelled(Path(data), size=size, color=color, max_side=max_side, **given)
    for trouble in bunch.get("skipped", ()):
        note(f"left out: {trouble}")
    if absent := left_out(bunch.get("ignored", ()), bunch.get("loose", ())):
        note(absent)
    if len(bunch.target_names) < fewest_classes:
        raise ValueError(f"{data} must hold at least 2 classes; got {list(map(str, bunch.target_names))}.")
    samples = bunch.get("images", bunch.data)
    return Labelled(unit_range(samples), bunch.target_names[bunch.target], _parts(bunch))


def unreadable_advice(skip: bool) -> dict[type, str]:
    """What to do about unreadable pictures; where they are skipped already, none was readable."""
    from dcadl.data.errors import UnreadablePicturesError

    return {UnreadablePicturesError: "No picture is left." if skip else "--skip-unreadable leaves them out."}


def left_out(ignored: Sequence[Any], loose: Sequence[Any]) -> str:
    """What of a folder is no sample although it may look like one, in one line; empty if there is nothing."""
    from dcadl.data.folder import endings

    remarks = []
    if ignored:
        by = "file left out by its" if len(ignored) == 1 else "files left out by their"
        remarks.append(f"{len(ignored)} {by} ending ({endings(ignored)})")
    if loose:
        lie = "picture lies" if len(loose) == 1 else "pictures lie"
        remarks.append(f"{len(loose)} {lie} outside the class folders")
    return "; ".join(remarks)


def refuse_overwrites(written: dict[str, Path | None], read: dict[str, Path | None]) -> None:
    """Before any work: no file that is written may be one that is read, or be written twice."""
    outputs = [(word, path) for word, path in written.items() if path is not None]
    for i, (word, path) in enumerate(outputs):
        for other, source in read.items():
            if source is not None and _same_file(path, source):
                raise ValueError(f"{word} would overwrite {other}: {path}. Give another name.")
        for other, second in outputs[:i]:
            if _same_file(path, second):
                raise ValueError(f"{other} and {word} must be two files; both are {path}.")


def data_path(data: str) -> Path | None:
    """The file or folder that `read_data` would read; None where there is none."""
    from dcadl.data.load import find
    from dcadl.data.registry import facts, names

    if data not in names() or Path(data).exists():
        return Path(data)
    try:
        return None if data == "digits" else find(facts(data))
    except FileNotFoundError:  # reading it will say so
        return None


def image_form(model: AnyModel, path: Any) -> ImageForm:
    """Size and colour of the pictures that the model at `path` takes."""
    from dcadl.model_files import features_of

    if (pyramid := features_of(model)) is not None:
        return ImageForm(None, False, pyramid.max_side)
    shape = image_shape(model)
    if len(shape) < 2 or shape[2:] not in ((), (1,), (3,)):
        raise ValueError(
            f"{path} was trained on samples of shape {shape}, not on pictures: "
            "give such samples to `dcadl evaluate` in a .npz or .mat file."
        )
    return ImageForm((shape[0], shape[1]), shape[2:] == (3,))


def image_shape(model: AnyModel) -> tuple[int, ...]:
    """The shape of one training sample: (H, W), (H, W, 3) or (length,)."""
    shape = getattr(model, "image_shape_", None) or getattr(model, "image_shape", None)
    return tuple(shape) if shape else (int(model.n_features_in_),)


def read_for(model: AnyModel, data: str, *, skip: bool = False, limits: Limits = NO_LIMITS) -> Labelled:
    """Labelled data in the form that the model takes; a single class will do to judge it by."""
    from dcadl.model_files import features_of

    if (pyramid := features_of(model)) is not None:
        return read_data(data, skip=skip, limits=limits, max_side=pyramid.max_side, fewest_classes=1)
    shape = image_shape(model)
    if len(shape) < 2:
        plight = f"The model was trained on samples of shape {shape}, not on pictures."
        return read_data(data, skip=skip, if_mixed=plight, limits=limits, fewest_classes=1)
    color = shape[2:] == (3,)
    return read_data(data, size=shape[:2], color=color, skip=skip, limits=limits, fewest_classes=1)


def samples_to_judge(samples: Labelled) -> tuple[Any, Any]:
    """What a model is measured on: the test part, where there is one."""
    test = slice(None) if samples.parts is None else samples.parts.test
    return samples.X[test], samples.y[test]


def may_be_trained_on(model: AnyModel, samples: Labelled, data: str) -> bool:
    """Whether samples without a test part have the name of the training data, and are no fewer."""
    from dcadl.model_files import classifier_of

    known = getattr(classifier_of(model), "training_", {})
    same = known.get("data") == Path(data).name and known.get("samples", 0) <= len(samples.y)
    return samples.parts is None and same


def _parts(bunch: Any) -> Parts | None:
    if "train" in bunch:
        return Parts(bunch.train, ~bunch.train)
    if "train_size" in bunch:
        return Parts(slice(None, bunch.train_size), slice(bunch.train_size, None))
    return None


def _same_file(one: Path, other: Path) -> bool:
    """Also under two names, by links or on a file system that ignores case; or one of a folder's files."""
    if one.exists() and other.is_dir():
        return one.resolve().is_relative_to(other.resolve())
    return one.resolve() == other.resolve() or (one.exists() and other.exists() and one.samefile(other))


def _named(name: str, size: Any, color: bool | None, *, ragged: bool) -> Any:
    from dcadl.data import load
    from dcadl.data.images import conform

    bunch = load(name)
    if bunch.data.dtype.kind == "U":
        if ragged:
            return bunch
        raise ValueError(f"the pictures of {name} differ in size: give --features pyramid.")
    if name == "digits":
        bunch.images = bunch.images * (PIXEL_TOP / DIGITS_TOP)
    if "images" in bunch:
        bunch.images = conform(bunch.images, size, color)
    return bunch
