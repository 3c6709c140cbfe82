"""`dcadl data list|info|check` and `dcadl features`: named sets, folders, and spatial-pyramid features."""

import hashlib
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from dcadl.atomic import check_writable
from dcadl.cli.read import left_out, refuse_overwrites
from dcadl.cli.terminal import advising, cell, clean_exit, note, say

if TYPE_CHECKING:  # the library itself is imported where it is used: other commands start faster
    from sklearn.utils import Bunch

    from dcadl.data.folder import Listing
    from dcadl.features import SpatialPyramid

data_app = typer.Typer(
    help="Data sets: what is known, what is here, whether it is whole.", no_args_is_help=True
)

Root = Annotated[Path | None, typer.Option("--root", help="Folder with the data; by default DCADL_DATA.")]
INDUCTIVE = "codebook and PCA from the training images only"
TRANSDUCTIVE = "codebook and PCA from all images, test images included"


class Report(NamedTuple):
    """What `check` has to say."""

    counts: list[int]  # samples of each class
    samples: str  # what one is
    problems: list[str]
    remarks: list[str]


@data_app.command("list")
def list_sets(root: Root = None) -> None:
    """Name every data set and say whether its files are here."""
    from dcadl.data.registry import facts, names

    table = Table("name", "images", "classes", "found")
    for name in names():
        known = facts(name)
        table.add_row(name, str(known.samples), str(known.classes), cell(_place(name, root)))
    Console(width=140).print(table)


@data_app.command()
def info(
    name: Annotated[str, typer.Argument(help="A name from `dcadl data list`.")], root: Root = None
) -> None:
    """Print source, terms, citation and expected files of a data set."""
    from dcadl.data.registry import describe, facts

    with clean_exit():
        known = facts(name)
        say(describe(known))
        say(f"Expected files: {', '.join(known.arrays) or 'none'}; or {known.layout}")
        say(f"Found: {_place(name, root)}")


@data_app.command()
def check(
    data: Annotated[
        str, typer.Argument(help="A data set's name, a folder of class folders, a .npz or .mat file.")
    ],
    root: Root = None,
) -> None:
    """Read data in full; report its size, classes and faults, with exit code 1 if there are any."""
    from dcadl.data.registry import names

    with clean_exit(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        report = _inspect_named(data, root) if data in names() else _inspect_path(Path(data))
    problems = [str(w.message) for w in caught if w.category is UserWarning] + report.problems
    smallest, largest = min(report.counts), max(report.counts)
    say(f"{sum(report.counts)} samples, {len(report.counts)} classes of {smallest} to {largest}")
    say(f"samples: {report.samples}")
    for line in [*(f"error: {problem}" for problem in problems), *report.remarks]:
        say(line)
    raise typer.Exit(1 if problems else 0)


def features(
    images: Annotated[
        Path, typer.Argument(help="Folder or archive with one sub-folder of pictures per class.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The .npz file to write.")],
    per_class: Annotated[
        int | None,
        typer.Option(min=1, help="Training images of each class; words and PCA are learned from these."),
    ] = None,
    transductive: Annotated[
        bool, typer.Option("--transductive", help="Learn from all images, as published features did.")
    ] = False,
    model: Annotated[
        Path | None, typer.Option(help="Use this saved pyramid instead of learning one.")
    ] = None,
    save_model: Annotated[
        Path | None, typer.Option(help="Save the fitted pyramid here, for new images.")
    ] = None,
    words: Annotated[int, typer.Option(min=1, help="Size of the codebook.")] = 1024,
    levels: Annotated[str, typer.Option(help="Cells along each side, level by level.")] = "1,2,4",
    coding: Annotated[Literal["llc", "hard"], typer.Option(help="How patches become words.")] = "llc",
    pooling: Annotated[Literal["max", "mean"], typer.Option(help="How words become cells.")] = "max",
    pca: Annotated[int | None, typer.Option(min=1, help="Dimensions after PCA; none without.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the split and of the codebook.")] = 0,
    jobs: Annotated[int, typer.Option(help="Threads; -1 is every core.")] = -1,
    cache: Annotated[
        Path | None, typer.Option(help="Where finished work is kept, to go on after a stop.")
    ] = None,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Keep nothing.")] = False,
) -> None:
    """Compute spatial-pyramid features of a folder of pictures into a .npz file."""
    from dcadl.data.archives import cache_folder
    from dcadl.data.folder import list_folder
    from dcadl.data.npz import write_npz
    from dcadl.features import SpatialPyramid

    with clean_exit(), advising(_advice()):
        for written in (output, save_model):
            _check_output(written)
        made = {"--output": output, "--save-model": save_model}
        refuse_overwrites(made, {"IMAGES": images, "--model": model})
        _check_choice(per_class, transductive, model)
        kept = None if no_cache else cache or cache_folder() / "features"
        folder = _folder(images)
        listing = list_folder(folder)
        if absent := left_out(listing.ignored, listing.loose):
            note(absent)
        if model is None:
            pyramid = SpatialPyramid(
                n_words=words, levels=_levels(levels), coding=coding, pooling=pooling, n_components=pca,
                transductive=transductive, random_state=seed, n_jobs=jobs, cache_dir=kept,
            )  # fmt: skip
        else:
            pyramid = SpatialPyramid.load(model, n_jobs=jobs, cache_dir=kept)
        train = _training_mask(listing, per_class, transductive, model, seed)
        rows = _compute(pyramid, listing.files, train, fitted=model is not None)
        write_npz(output, {
            "features": rows, "labels": listing.target, "class_names": np.array(listing.names),
            "names": np.array([f.relative_to(folder).as_posix() for f in listing.files]),
            "train": train, "protocol": np.array(pyramid.protocol_),
        })  # fmt: skip
        if save_model is not None:
            pyramid.save(save_model)
    learned = TRANSDUCTIVE if pyramid.protocol_ == "transductive" else INDUCTIVE
    say(f"{output}: {rows.shape[0]} images, {rows.shape[1]} features ({pyramid.protocol_}: {learned})")


def _compute(pyramid: "SpatialPyramid", files: list[Path], train: Any, *, fitted: bool) -> Any:
    paths = np.array([str(file) for file in files])
    if not fitted:
        pyramid.fit(paths[train])
    return pyramid.transform(paths)


def _training_mask(
    listing: "Listing", per_class: int | None, transductive: bool, model: Path | None, seed: int
) -> Any:
    """Which images the pyramid learns from."""
    from dcadl.data import split

    mask = np.full(len(listing.files), transductive and model is None)
    if per_class is not None:
        mask[split(listing.target, per_class=per_class, seed=seed, names=listing.names).train] = True
    return mask


def _advice() -> dict[type, str]:
    """The options that help where the library names its parameters."""
    from dcadl.data.errors import FewDescriptorsError, FewWordsError, SmallClassesError

    return {
        SmallClassesError: "Lower --per-class or leave these classes out.",
        FewDescriptorsError: "Lower --words or give more images.",
        FewWordsError: "Raise --words, or take --coding hard.",
    }


def _check_choice(per_class: int | None, transductive: bool, model: Path | None) -> None:
    if [per_class is not None, transductive, model is not None].count(True) != 1:
        raise ValueError(
            "say what the features are learned from, by exactly one of --per-class N (training images only), "
            "--transductive (all images, test images included) and --model FILE (learned before)."
        )


def _check_output(path: Path | None) -> None:
    """Before minutes of work: the file must be one we can write."""
    if path is None:
        return
    if path.suffix != ".npz":
        raise ValueError(f"expected the name of a .npz file to write; got {path}.")
    if not path.resolve().parent.is_dir():
        raise ValueError(f"cannot write {path}: folder not found.")
    check_writable(path)


def _levels(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError as error:
        raise ValueError(f"--levels must be integers with commas, such as 1,2,4; got {text!r}.") from error


def _place(name: str, root: Path | None) -> str:
    from dcadl.data.load import find
    from dcadl.data.registry import facts

    if name == "digits":
        return "with scikit-learn"
    try:
        return str(find(facts(name), root))
    except FileNotFoundError:
        return "-"


def _inspect_named(name: str, root: Path | None) -> Report:
    from dcadl.data import load
    from dcadl.data.folder import Listing

    bunch = load(name, root)
    if bunch.data.dtype.kind == "U":
        files = [Path(file) for file in bunch.data]
        return _inspect_files(Listing(files, bunch.target, list(bunch.target_names), [], []))
    return _inspect_arrays(bunch)


def _inspect_path(path: Path) -> Report:
    from dcadl.data import read_labelled
    from dcadl.data.folder import list_folder

    if path.suffix in (".npz", ".mat"):
        return _inspect_arrays(read_labelled(path))
    return _inspect_files(list_folder(_folder(path), on_error="skip"))


def _inspect_arrays(bunch: "Bunch") -> Report:
    samples = bunch.get("images", bunch.data)
    text = f"{' × '.join(map(str, samples.shape[1:]))} {samples.dtype}"
    return Report(np.bincount(bunch.target).tolist(), text, [], [])


def _inspect_files(listing: "Listing") -> Report:
    """Every picture is decoded; byte-identical ones may end up on both sides of a split."""
    from dcadl.data.folder import survey

    shapes, bad = survey(listing)
    heights, widths = [shape[0] for shape in shapes], [shape[1] for shape in shapes]
    text = (
        f"{min(heights)}–{max(heights)} × {min(widths)}–{max(widths)} pixels" if shapes else "none readable"
    )
    hashes = {hashlib.sha256(file.read_bytes()).digest() for file in listing.files}
    repeated = len(listing.files) - len(hashes)
    remarks = [f"note: {repeated} files repeat another one byte for byte"] if repeated else []
    absent = left_out(listing.ignored, listing.loose)
    remarks += [f"note: {absent}"] if absent else []
    return Report(np.bincount(listing.target).tolist(), text, [str(error) for error in bad], remarks)


def _folder(path: Path) -> Path:
    from dcadl.data.archives import is_archive, unpacked

    return unpacked(path) if path.is_file() and is_archive(path) else path
