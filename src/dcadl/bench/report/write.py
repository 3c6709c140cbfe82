"""Records → a folder with the tables in Markdown, one page in HTML, and the learning curves as a picture."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from dcadl.atomic import write_atomically
from dcadl.bench import records
from dcadl.bench.report.choosing import choosing_table
from dcadl.bench.report.curve_picture import curve_picture
from dcadl.bench.report.curves import CURVES_FILE, learning_curves
from dcadl.bench.report.markdown import markdown
from dcadl.bench.report.page import page
from dcadl.bench.report.readme import short_table, write_between_markers
from dcadl.bench.report.searches import searches_section
from dcadl.bench.report.summary import hardware, summarise
from dcadl.bench.settings import read_tuned


def write_report(
    path: str | Path,
    folder: str | Path,
    readme: str | Path | None = None,
    tuned: str | Path | None = None,
    choosing: str | Path | None = None,
) -> list[Path]:
    """Write `tables.md` and `index.html` into `folder`, short tables into `readme` and `choosing`; the files.

    With `tuned`, the tables mark what was chosen from few candidates, and end with what searches cost. Where
    a data set was run with several numbers of images of each class, `learning_curves.png` shows them.
    """
    if not Path(path).is_file():
        raise ValueError(f"no records found at {path}; make some with `dcadl bench`.")
    found = records.read(path)
    summaries = summarise(found, None if tuned is None else read_tuned(tuned, "searches"))
    if not summaries:
        raise ValueError(f"{path} holds no records of a known data set.")
    machines = hardware(found)
    searches = [] if tuned is None else [searches_section(tuned)]
    written: dict[str, Any] = {
        "tables.md": markdown(summaries, machines, *searches).encode(),
        "index.html": page(summaries, machines).encode(),
    }
    if curves := learning_curves(summaries):
        written[CURVES_FILE] = curve_picture(curves)
    home = Path(folder)
    home.mkdir(parents=True, exist_ok=True)
    for name, content in written.items():
        write_atomically(home / name, content)
    if readme is not None:
        pictures = Path(os.path.relpath(home, Path(readme).resolve().parent)).as_posix()
        write_between_markers(readme, short_table(summaries, f"{pictures}/"))
    if choosing is not None:
        write_between_markers(choosing, choosing_table(summaries))
    return [*(home / name for name in written), *(Path(file) for file in (readme, choosing) if file)]
