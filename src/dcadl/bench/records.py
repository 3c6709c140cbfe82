"""`records.jsonl`: one line a run, appended whole; what a kill left half-written is cut off."""

from __future__ import annotations

import json
import os
import traceback
from pathlib import Path
from typing import Any

from dcadl.atomic import errors_naming

FORMAT = 1
BEGIN = '{"format": '
FIELDS = ("group", "method", "environment", "threads")
FIELDS_OF = {  # by status: what tables and figures cannot do without
    "ok": ("accuracy", "n_train", "n_test", "test_counts", "errors", "train_s"),
    "failed": ("error",),
}
Record = dict[str, Any]
Key = tuple[str, str, int, str, str]


def read(path: str | Path) -> list[Record]:
    """Every complete record; a last line that begins one is what an interrupted run left."""
    *lines, last = Path(path).read_text(encoding="utf-8").split("\n")
    if not last.startswith(BEGIN[: len(last)]):  # nothing that may be cut off
        raise ValueError(f"{path} ends with what is no record of `dcadl bench`: {last[:40]!r}.")
    lines += [last] if _is_whole(last) else []
    return [_parsed(line, number, path) for number, line in enumerate(lines, 1) if line.strip()]


def read_if_there(path: str | Path) -> list[Record]:
    """The same; none where the file does not exist yet."""
    return read(path) if Path(path).exists() else []


def line(record: Record) -> str:
    """A record as it is kept; figures that are not numbers have no place in it."""
    return json.dumps({"format": FORMAT, **record}, ensure_ascii=False, allow_nan=False) + "\n"


def append(path: str | Path, record: Record) -> None:
    """One more line, on disk before this returns."""
    with errors_naming(Path(path)), open(path, "a+b") as stream:
        _end_last_line(stream)
        stream.write(line(record).encode())
        stream.flush()
        os.fsync(stream.fileno())


def key(record: Record) -> Key:
    """What makes a run the same run: data set, label, seed, every parameter, and where they come from."""
    params = json.dumps(record["params"], sort_keys=True, default=list)
    return record["dataset"], record["label"], int(record["seed"]), params, record.get("source", "paper")


def _end_last_line(stream: Any) -> None:
    """A whole record that lacks only the line's end gets it; half of one is cut off."""
    end = stream.seek(0, os.SEEK_END)
    stream.seek(0)
    content = stream.read()
    whole = content.rfind(b"\n") + 1
    if whole < end and _is_whole(content[whole:].decode(errors="replace")):
        stream.write(b"\n")
    elif whole < end:
        stream.truncate(whole)
    stream.seek(0, os.SEEK_END)


def _is_whole(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):  # the latter of brackets in brackets in brackets
        return False


def _parsed(text: str, number: int, path: str | Path) -> Record:
    try:
        record = json.loads(text)
        key(record)
        missing = [name for name in (*FIELDS, *FIELDS_OF[record["status"]]) if name not in record]
        newer = int(record.get("format", 0)) > FORMAT
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        raise ValueError(
            f"{path}, line {number}, is no record of `dcadl bench`: {error_line(error)}."
        ) from None
    if newer:
        raise ValueError(f"{path}, line {number}, has a newer format; upgrade dcadl.")
    if missing:
        raise ValueError(f"{path}, line {number}, is no record of `dcadl bench`: no {', '.join(missing)}.")
    return record


def error_line(error: BaseException) -> str:
    """One line on what went wrong, and where."""
    last = traceback.extract_tb(error.__traceback__)[-1:] if error.__traceback__ else []
    place = f" ({Path(last[0].filename).name}:{last[0].lineno})" if last else ""
    return f"{type(error).__name__}: {' '.join(str(error).split())}{place}"[:500]
