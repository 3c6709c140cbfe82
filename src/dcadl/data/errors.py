"""Errors that keep what is wrong apart from what to do about it: a command has other words for the second."""

from collections.abc import Sequence

LONGEST = 200  # letters of what a message quotes from a file


class AdvisedError(ValueError):
    """A fault, and advice in the words of the Python interface."""

    def __init__(self, fault: str, advice: str) -> None:
        super().__init__(fault, advice)  # both: a process that raises sends them to the one that waits
        self.fault = fault
        self.advice = advice

    def __str__(self) -> str:
        return f"{self.fault} {self.advice}"


class MixedSizesError(AdvisedError):
    """Pictures that must be brought to one size first."""


class SmallClassesError(AdvisedError):
    """Classes with too few samples to be split as asked."""


class FewDescriptorsError(AdvisedError):
    """Pictures with too few descriptors for a codebook of the size asked for."""


class FewWordsError(AdvisedError):
    """A codebook with fewer words than one descriptor is rebuilt from."""


class UnreadablePicturesError(AdvisedError):
    """Some files that should be pictures are none; the message names them."""


class TooManyPixelsError(ValueError):
    """A picture larger than the limit that was given."""


def unreadable(
    bad: Sequence[Exception], advice: str, shown: int = 20, also: Sequence[str] = ()
) -> UnreadablePicturesError:
    """The error that names these files, after what else is wrong."""
    files = "file" if len(bad) == 1 else "files"
    more = [f"… and {len(bad) - shown} more"] if len(bad) > shown else []
    items = ";\n  ".join([*map(str, bad[:shown]), *more])  # told apart on one line, too
    named = [f"{len(bad)} {files} cannot be read:\n  {items}."] if bad else []
    return UnreadablePicturesError("\n".join([*also, *named, ""]), advice)


def shortened(text: object) -> str:
    """A text from outside, in so many letters as a message has room for."""
    line = str(text)
    return line if len(line) <= LONGEST else f"{line[:LONGEST]}…"
