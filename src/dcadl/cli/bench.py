"""`dcadl bench`, `dcadl tune` and `dcadl report`: the paper's tables, run, tuned and shown."""

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.live import Live
from rich.table import Table

from dcadl.atomic import check_writable
from dcadl.cli.read import refuse_overwrites
from dcadl.cli.terminal import advising, cell, clean_exit, note, say

Datasets = Annotated[
    list[str] | None,
    typer.Argument(
        help="A folder or file of one's own, as for `dcadl fit`; or digits (by default), extended_yaleb, ar, "
        "caltech101, scene15; with few pictures of each class extended_yaleb-5, -10 and -20, mnist-10, -50, "
        "-200 and -500; mnist in full; scene15-80x80; or all whose files are found.",
        show_default=False,
    ),
]
Methods = Annotated[
    list[str] | None, typer.Option("--methods", "-m", help="A row of the table; repeat for several.")
]
Threads = Annotated[int | None, typer.Option(min=1, help="Threads of BLAS and OpenMP; default: all cores.")]
Repeats = Annotated[int, typer.Option(min=1, help="Seeds 0, 1, …: every method sees the same splits.")]


def bench(
    dataset: Datasets = None,
    methods: Methods = None,
    repeats: Repeats = 10,
    jobs: Annotated[int, typer.Option(min=1, help="Runs side by side; more than 1 disturbs times.")] = 1,
    threads: Threads = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Where records are kept, and found again.")
    ] = Path("records.jsonl"),
    tuned: Annotated[Path | None, typer.Option(help="Parameters that `dcadl tune` wrote.")] = None,
    ablations: Annotated[bool, typer.Option("--ablations", help="Run the ablations as well.")] = False,
    cap: Annotated[
        float | None, typer.Option(min=0, help="Minutes for each method and data set, over all seeds.")
    ] = None,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Run failed rows again.")] = False,
) -> None:
    """Run methods on data sets over paired splits; interrupt and start again to go on."""
    from dcadl.bench.runner import Options, planned_runs, run_all
    from dcadl.bench.settings import read_tuned

    with clean_exit(), advising(own_data_advice()):
        check_folder(output)
        chosen, how = (read_tuned(tuned), read_tuned(tuned, "searches")) if tuned else (None, None)
        runs = planned_runs(
            _present(dataset), methods, repeats, ablations=ablations, tuned=chosen, searches=how
        )
        options = Options(threads or cores(), jobs, None if cap is None else 60 * cap, retry_failed)
        with LiveTable(runs, output) as table:
            run_all(runs, output, options, table.watch)
        table.finish()
        if table.skipped:
            note(f"{table.skipped} of {len(runs)} runs were left out: the time of their method is used up")
    say(f"{output}: next, dcadl report {shlex.quote(str(output))} -o report")
    if table.failed:
        say(f"error: {table.failed} runs failed, as said above; --retry-failed runs them again.", err=True)
        raise typer.Exit(1)


def report(
    records: Annotated[Path, typer.Argument(help="Records that `dcadl bench` wrote.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for the tables and the page.")
    ] = Path("report"),
    readme: Annotated[
        Path | None, typer.Option(help="Markdown file whose table between markers is written anew.")
    ] = None,
    tuned: Annotated[
        Path | None, typer.Option(help="Choices of `dcadl tune`: the tables then say what they cost.")
    ] = None,
    choosing: Annotated[
        Path | None, typer.Option(help="The same for the small table of which method suits which pictures.")
    ] = None,
) -> None:
    """Turn records into Markdown tables and one page that opens anywhere, offline."""
    from dcadl.bench.report import write_report

    with clean_exit():
        short = {"--readme": readme, "--choosing": choosing}
        made = {"tables.md": output / "tables.md", "index.html": output / "index.html", **short}
        refuse_overwrites(made, {"RECORDS": records, "--tuned": tuned})
        for path in write_report(records, output, readme, tuned, choosing):
            say(path)


def tune(
    dataset: Datasets = None,
    methods: Methods = None,
    repeats: Repeats = 10,
    budget: Annotated[
        float, typer.Option(min=0, help="Minutes for each method and data set, shared by the seeds.")
    ] = 10,
    folds: Annotated[
        int, typer.Option(min=2, help="Of the cross-validation inside each training split.")
    ] = 10,
    least: Annotated[
        int, typer.Option(min=0, help="Candidates that every search compares at least, whatever they cost.")
    ] = 0,
    jobs: Annotated[int, typer.Option(min=1, help="Searches side by side.")] = 1,
    threads: Annotated[
        int | None,
        typer.Option(min=1, help="Threads of each search; default: all cores, shared by the jobs."),
    ] = None,
    backend: Annotated[
        str | None,
        typer.Option(help="Where methods that can are run: torch, torch:cuda or cupy; default: NumPy."),
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="TOML that `dcadl bench` reads.")] = Path(
        "tuned.toml"
    ),
) -> None:
    """Choose parameters by halving searches inside each training split; start again to go on."""
    from dcadl.bench.tuning import tune_all

    with clean_exit(), advising(own_data_advice()):
        check_folder(output)
        failed = 0
        for line in tune_all(
            _present(dataset),
            methods,
            repeats,
            output,
            budget_s=60 * budget,
            folds=folds,
            least=least,
            threads=threads or max(1, cores() // jobs),
            jobs=jobs,
            backend=backend,
        ):
            say(line.text, err=True)
            failed += line.failed
        if failed:
            raise ValueError(f"{failed} searches failed, as said above; mend them and start again to go on.")
    say(f"{output}: next, dcadl bench {shlex.join(dataset or [])} --tuned {shlex.quote(str(output))}")


class LiveTable:
    """Done, accuracy and training time of each row while it runs; one line a run where no terminal is."""

    def __init__(self, runs: list[Any], path: Path) -> None:
        from dcadl.bench.records import key, read_if_there

        self._console = Console(stderr=True)
        wanted = {key(run.head()) for run in runs}
        self._key = key
        self._records = {
            key(record): record for record in read_if_there(path) if key(record) in wanted
        }  # the latest
        self._rows = list(dict.fromkeys((run.dataset, run.setting.label) for run in runs))
        self._total = {row: sum((r.dataset, r.setting.label) == row for r in runs) for row in self._rows}
        self._now: tuple[str, str] | None = None
        self.skipped = 0  # runs of methods whose time is used up
        self._live = Live(console=self._console, auto_refresh=False, transient=True)

    def __enter__(self) -> "LiveTable":
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def watch(self, event: str, run: Any, record: dict[str, Any] | None) -> None:
        self._now = (run.dataset, run.setting.label) if event == "start" else None
        name = f"{Path(run.dataset).name} {run.setting.label} seed {run.seed}"
        self.skipped += event == "skip"
        if record is not None:
            self._records[self._key(record)] = record
            if not self._console.is_terminal:
                say(f"{name}: {_outcome(record)}", err=True)
        if self._console.is_terminal:
            self._live.update(self._table(), refresh=True)

    def finish(self) -> None:
        """The table as it stands, kept."""
        self._console.print(self._table())

    @property
    def failed(self) -> int:
        """Runs that failed, and have not been run again since."""
        return sum(record["status"] == "failed" for record in self._records.values())

    def _table(self) -> Table:
        table = Table("data set", "method", "done", "accuracy %", "train s", "", box=None)
        for row in self._rows:
            mine = [r for r in self._records.values() if (r["dataset"], r["label"]) == row]
            good = [r for r in mine if r["status"] == "ok"]
            bad = [r["error"] for r in mine if r["status"] == "failed"]
            mark = "running" if row == self._now else (f"{len(bad)} failed: {bad[-1]}" if bad else "")
            mean = [
                sum(r[name] for r in good) / len(good) if good else None for name in ("accuracy", "train_s")
            ]
            shown = ["" if v is None else f"{v * scale:.2f}" for v, scale in zip(mean, (100, 1))]
            name = Path(row[0]).name  # of own data, whose name is a path
            table.add_row(cell(name), row[1], f"{len(good)}/{self._total[row]}", *shown, cell(mark))
        return table


def _outcome(record: dict[str, Any]) -> str:
    if record["status"] == "failed":
        return f"failed: {record['error']}"
    return f"{100 * record['accuracy']:.2f} %, trained in {record['train_s']:.2f} s"


def _present(words: list[str] | None) -> list[str]:
    """The data sets that words mean; with "all", those whose files are found."""
    from dcadl.bench.settings import dataset_config, dataset_names

    if words != ["all"]:
        return list(dict.fromkeys(name for word in words or ["digits"] for name in dataset_names(word)))
    sets = {name: dataset_config(name).get("data", name) for name in dataset_names("all")}
    missing = {known for known in sets.values() if not _is_found(known)}
    for known in sorted(missing):
        note(f"{known} was not found and is left out: dcadl data info {known}")
    return [name for name, known in sets.items() if known not in missing]


def _is_found(name: str) -> bool:
    from dcadl.data.load import find
    from dcadl.data.registry import facts

    try:
        return name == "digits" or find(facts(name)) is not None
    except FileNotFoundError:
        return False


def cores() -> int:
    import os

    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def own_data_advice() -> dict[type, str]:
    """What to do about pictures of one's own that cannot be read."""
    from dcadl.data.errors import UnreadablePicturesError

    return {UnreadablePicturesError: "Move them out of the folder first."}


def check_folder(output: Path) -> None:
    if not output.resolve().parent.is_dir():
        raise ValueError(f"folder of --output not found: {output.resolve().parent}")
    check_writable(output)
