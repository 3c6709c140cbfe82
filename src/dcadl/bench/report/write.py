"""Records → a folder with the tables in Markdown and one page in HTML."""

from __future__ import annotations

from pathlib import Path

from dcadl.atomic import write_atomically
from dcadl.bench import records
from dcadl.bench.report.markdown import markdown
from dcadl.bench.report.page import page
from dcadl.bench.report.readme import update_readme
from dcadl.bench.report.searches import searches_section
from dcadl.bench.report.summary import hardware, summarise


def write_report(
    path: str | Path, folder: str | Path, readme: str | Path | None = None, tuned: str | Path | None = None
) -> list[Path]:
    """Write `tables.md` and `index.html` into `folder`, the short table into `readme`; the files written.

    With `tuned`, the tables end with what its searches cost.
    """
    if not Path(path).is_file():
        raise ValueError(f"there are no records at {path}; make some with `dcadl bench`.")
    found = records.read(path)
    summaries = summarise(found)
    if not summaries:
        raise ValueError(f"{path} holds no records of a known data set.")
    machines = hardware(found)
    searches = [] if tuned is None else [searches_section(tuned)]
    written = {"tables.md": markdown(summaries, machines, *searches), "index.html": page(summaries, machines)}
    home = Path(folder)
    home.mkdir(parents=True, exist_ok=True)
    for name, text in written.items():
        write_atomically(home / name, text.encode())
    if readme is None:
        return [home / name for name in written]
    update_readme(readme, summaries)
    return [*(home / name for name in written), Path(readme)]
