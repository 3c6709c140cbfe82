"""How commands speak: errors in one line, notes, tables; results on stdout, all else on stderr."""

import unicodedata
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import typer
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text
from typer.core import TyperGroup

BAD_INPUT = 2
TURNING = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"  # of reading
INTERRUPTED = 130  # 128 + SIGINT, as shells have it
INPUT_ERRORS = (ValueError, OSError, ImportError, MemoryError)


@contextmanager
def clean_exit() -> Iterator[None]:
    """What bad input raises becomes one line on stderr and exit code 2.

    Warnings become lines on stderr as well: a user of the command did not write the line they point at.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        try:
            yield
        except BrokenPipeError:
            raise  # the reader, `head` say, has had enough: Typer leaves quietly
        except INPUT_ERRORS as error:
            _tell(caught)
            say(f"error: {_one_line(error) or type(error).__name__}", err=True)
            raise typer.Exit(BAD_INPUT) from error
        _tell(caught)


@contextmanager
def interruptible() -> Iterator[None]:
    """Ctrl-C becomes one line on stderr and exit code 130."""
    try:
        yield
    except KeyboardInterrupt as error:
        typer.echo("interrupted", err=True)
        raise SystemExit(INTERRUPTED) from error


class InterruptibleCommands(TyperGroup):
    """Typer's own answer to Ctrl-C says nothing, or "Aborted" in older versions: ours comes before it."""

    def make_context(self, *args: Any, **options: Any) -> Any:
        """Read the words; the first option makes Typer import much."""
        with interruptible():
            return super().make_context(*args, **options)

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        with interruptible():
            return super().invoke(ctx)


class InterruptibleApp(typer.Typer):
    """An app that may be interrupted while it is put together, too."""

    def __init__(self, **options: Any) -> None:
        super().__init__(cls=InterruptibleCommands, **options)

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Run the app."""
        with interruptible():
            return super().__call__(*args, **options)


@contextmanager
def advising(advice: Mapping[type, str]) -> Iterator[None]:
    """Faults that the library gives advice on in words of Python, with the command's own advice instead."""
    try:
        yield
    except ValueError as error:
        if type(error) not in advice:
            raise
        raise ValueError(f"{getattr(error, 'fault', error)} {advice[type(error)]}") from error


def printable(text: str) -> str:
    """Text without power over a terminal: what moves the cursor, rings or turns the reading is written out.

    Written as JSON writes them, so that a JSON text stays the same JSON.
    """
    return "".join(f"\\u{ord(c):04x}" if _has_power(c) else c for c in text)


def say(text: Any, *, err: bool = False) -> None:
    """Print what may hold names from outside: of files, classes and paths."""
    typer.echo(printable(str(text)), err=err)


def cell(text: Any) -> Text:
    """A cell of a Rich table: a name in brackets is no markup, and has no power over the terminal."""
    return Text(printable(str(text)))


class FileCell:
    """A path in a cell of a Rich table: where it is too long, leading folders go and its own name stays."""

    def __init__(self, path: Any) -> None:
        self._path = printable(str(path))

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        name = self._path.rpartition("/")[2]
        return Measurement(cell_len(name), cell_len(self._path)).with_maximum(options.max_width)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(shortened_path(self._path, options.max_width), overflow="fold")


def shortened_path(path: str, width: int) -> str:
    """A path in at most `width` columns by leaving out leading folders, but never any of its last name."""
    parts = path.split("/")
    while len(parts) > 1 and cell_len(path) > width:
        parts = parts[1:]
        path = "/".join(["…", *parts])
    return path if cell_len(path) <= width else parts[-1]


def _has_power(letter: str) -> bool:
    kind = unicodedata.category(letter)
    return (kind in ("Cc", "Cs") and letter not in "\n\t") or letter in TURNING


def note(text: str) -> None:
    """A remark that is no result."""
    say(f"note: {text}", err=True)


def progress_bar() -> Progress:
    """A bar on stderr, drawn only on a terminal: logs stay clean."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console, disable=not console.is_terminal)


def size_text(n_bytes: int) -> str:
    """Bytes as a person reads them."""
    if n_bytes >= 1e9:
        return f"{n_bytes / 1e9:.1f} GB"
    return f"{n_bytes / 1e6:.1f} MB" if n_bytes >= 1e6 else f"{n_bytes / 1e3:.1f} kB"


def times_text(shape: Any) -> str:
    """(48, 42) as 48×42."""
    return "×".join(str(n) for n in shape)


def _tell(caught: list[warnings.WarningMessage]) -> None:
    for warning in caught:
        if not issubclass(warning.category, DeprecationWarning):
            note(_one_line(warning.message))


def _one_line(message: Any) -> str:
    return " ".join(str(message).split())
