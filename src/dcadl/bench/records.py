"""`records.jsonl`: one line a run, appended whole; what a kill left half-written is cut off."""

from __future__ import annotations

import json
import os
import traceback
from pathlib import Path
from typing import Any

FORMAT = 1
Record = dict[str, Any]
Key = tuple[str, str, int, str]


def read(path: str | Path) -> list[Record]:
    """Every complete record; a last line without its end is what an interrupted run left."""
    text = Path(path).read_text(encoding="utf-8")
    lines = text.split("\n")[:-1]
    return [_parsed(line, number, path) for number, line in enumerate(lines, 1) if line.strip()]


def append(path: str | Path, record: Record) -> None:
    """One more line, on disk before this returns."""
    line = json.dumps({"format": FORMAT, **record}, ensure_ascii=False, allow_nan=False) + "\n"
    with open(path, "a+b") as stream:
        _cut_half_line(stream)
        stream.write(line.encode())
        stream.flush()
        os.fsync(stream.fileno())


def key(record: Record) -> Key:
    """What makes a run the same run: data set, label, seed, and every parameter."""
    params = json.dumps(record["params"], sort_keys=True, default=list)
    return record["dataset"], record["label"], int(record["seed"]), params


def _cut_half_line(stream: Any) -> None:
    end = stream.seek(0, os.SEEK_END)
    stream.seek(0)
    whole = stream.read().rfind(b"\n") + 1
    if whole < end:
        stream.truncate(whole)
    stream.seek(0, os.SEEK_END)


def _parsed(line: str, number: int, path: str | Path) -> Record:
    try:
        record = json.loads(line)
        key(record)
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path}, line {number}, is no record of `dcadl bench`: {error!r}.") from None
    if record.get("format", 0) > FORMAT:
        raise ValueError(f"{path}, line {number}, has a newer format; upgrade dcadl.")
    return record


def short(error: BaseException) -> str:
    """One line on what went wrong, and where."""
    last = traceback.extract_tb(error.__traceback__)[-1:] if error.__traceback__ else []
    place = f" ({Path(last[0].filename).name}:{last[0].lineno})" if last else ""
    return f"{type(error).__name__}: {' '.join(str(error).split())}{place}"[:500]
