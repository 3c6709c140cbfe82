"""`dcadl compare`: which method to use on one's own data, by cross-validation within a budget of time."""

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dcadl.cli.bench import LiveTable, check_folder, cores, own_data_advice
from dcadl.cli.methods import method_names
from dcadl.cli.read import refuse_overwrites
from dcadl.cli.terminal import advising, clean_exit, note, say
from dcadl.ops.interval import interval

if TYPE_CHECKING:
    from dcadl.bench.compare import Rival, Verdict

SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "": 60.0}


def compare(
    data: Annotated[str, typer.Argument(metavar="DATA", help="Labelled data, as for `dcadl fit`.")],
    budget: Annotated[
        str, typer.Option(help="Time for all of it, such as 90s, 5m or 1h; a fit that runs is finished.")
    ] = "5m",
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Records, found again. Without: DATA's name with -compare.jsonl."
        ),
    ] = None,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Threads of BLAS and OpenMP; default: all cores.")
    ] = None,
) -> None:
    """Run the sensible methods on one's own data by five-fold cross-validation and say which to use.

    Interrupt and start again to go on: folds that were run are kept.
    """
    with clean_exit(), advising(own_data_advice()):
        from dcadl.bench.compare import compared_runs, verdict
        from dcadl.bench.own import own_name
        from dcadl.bench.records import read_if_there
        from dcadl.bench.runner import Options, run_all

        seconds = parse_budget(budget)
        if not Path(data).exists():
            raise ValueError(
                f"no data at {data}; expected a folder of class folders, an archive, .npz or .mat."
            )
        path = output or Path(f"{Path(data).resolve().name.split('.')[0]}-compare.jsonl")
        refuse_overwrites({"--output": path}, {"DATA": Path(data)})
        check_folder(path)
        name = own_name(data)
        with LiveTable(runs := compared_runs(name), path) as table:
            run_all(runs, path, Options(threads or cores(), budget_s=seconds), table.watch)
        if table.skipped:
            note(f"{table.skipped} of {len(runs)} fits had no time: start again to go on")
        kept = [r for r in read_if_there(path) if r["dataset"] == name]
        for line in lines(verdict(name, kept), data):
            say(line)
        for label, error in {r["label"]: r["error"] for r in kept if r["status"] == "failed"}.items():
            note(f"{label} failed: {error}")


def parse_budget(text: str) -> float:
    """Seconds of a text such as 90s, 5m or 1h; a bare number is of minutes."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", text.strip())
    if match is None or float(match[1]) == 0:
        raise ValueError(f"--budget must be a time such as 90s, 5m or 1h; got {text!r}.")
    return float(match[1]) * SECONDS[match[2]]


def lines(found: "Verdict", data: str) -> list[str]:
    """The table, and which to use."""
    if not found.rivals:
        return ["no fold was run in this time: start again to go on, or give a larger --budget."]
    folds = len(found.rivals[0].records)
    table = [f"{'method':<16}{'accuracy':>9}   95 % interval     fit"]
    for rival in found.rivals:
        low, high = interval(rival.accuracy, rival.n)
        reach = f"{low:.1%} to {high:.1%}"
        table.append(f"{rival.label:<16}{rival.accuracy:>9.1%}   {reach:<16}{rival.train_s:>6.2f} s")
    table.append(f"{'largest class':<16}{found.majority:>9.1%}   always named")
    table.append(f"on {folds} of {found.folds} folds, {found.rivals[0].n} samples tested")
    if found.absent:
        table.append(f"not compared, for it had time for one fold only: {', '.join(found.absent)}")
    return [*table, *_advice(found, data)]


def _advice(found: "Verdict", data: str) -> list[str]:
    best, tied = found.rivals[0], found.tied[1:]
    said = [f"best: {best.label}" + (f"; no clear difference to {_names(tied)}" if tied else "")]
    if interval(best.accuracy, best.n)[0] <= found.majority:
        said.append("none is clearly better than always naming the largest class: more samples, or others")
    use = found.use
    if use is None:
        ours = next((rival for rival in found.rivals if rival.ours), None)
        said.append(
            f"use: {best.label}, which is not dcadl's; of dcadl's own {ours.label if ours else 'none'}"
        )
        return said
    why = ", the simplest of these that it fits" if use is not best else ""
    return [*said, f"use: {_command(use, data)}{why}"]


def _command(rival: "Rival", data: str) -> str:
    """What fits that row."""
    from dcadl.bench.methods import method

    if words := method(rival.method).typed:
        return f"dcadl fit {shlex.quote(data)} {words}"
    typed = {name: word for word, name in method_names().items()}[rival.method]
    params = dict(rival.records[0]["params"])
    options = [f"--{word} {params.pop(name)}" for word, name in OPTIONS.items() if name in params]
    options += [f"--param {name}={value}" for name, value in params.items()]
    return " ".join([f"dcadl fit {shlex.quote(data)} --method {typed}", *options])


OPTIONS = {"patch": "patch_shape", "stride": "stride", "atoms": "n_atoms"}


def _names(rivals: "list[Rival]") -> str:
    return ", ".join(rival.label for rival in rivals)
