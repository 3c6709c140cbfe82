"""DCADL's passes on Extended YaleB against an earlier version of this repository, in turns, in one run.

    DCADL_DATA=… python benchmarks/before.py [--commit 5394332] [--rounds 5]

The earlier version is taken from git, and both are run in processes of their own. The setting is the
paper's, without the last refit, from the same first atoms. Seconds are of the processor, the least of all
rounds: other work on the machine disturbs them less than those of the clock. Wanted of the present version:
the objective that 50 earlier passes reach in a fifth of the passes and a third of the time; a pass of 23 at
1.15 of an earlier one at most.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from machine import describe

ROOT = Path(__file__).resolve().parents[1]
LONG, SHORT = 50, 23
FIT = """
import json, sys, time, warnings
import numpy as np
from dcadl import DCADL
from dcadl.data import load, split
warnings.simplefilter("ignore")
bunch = load("extended_yaleb")
train, _ = split(bunch.target, per_class=32, seed=0)
X, y = bunch.data.reshape(-1, 48, 42).astype(np.float32)[train], bunch.target[train]
setting = dict(n_atoms=50, patch_shape=12, stride=6, normalize="patch")
setting |= dict(lam1=1e-3, lam2=0.2, lam3=0.1, lam4=0.1)
def fit(passes):
    begun = time.process_time()
    model = DCADL(**setting, max_iter=passes, tol=0, refit=False, random_state=0).fit(X, y)
    return time.process_time() - begun, model.objective_.tolist()
fit(1)
print(json.dumps([fit(int(passes)) for passes in sys.argv[1:]]))
"""


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--commit", default="5394332")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        before, now = earlier(arguments.commit, Path(folder)), ROOT / "src"
        (_, old), (_, new) = (fits(source, LONG)[0] for source in (before, now))
        value = old[-1]
        enough = next(t for t, reached in enumerate(new[2::3], 1) if reached <= value)
        rounds = [
            (fits(before, LONG, SHORT, 1), fits(now, enough, SHORT, 1)) for _ in range(arguments.rounds)
        ]
    old_s, new_s = ([min(round_[i][k][0] for round_ in rounds) for k in range(3)] for i in (0, 1))
    old_pass, new_pass = ((times[1] - times[2]) / (SHORT - 1) for times in (old_s, new_s))
    table = Table(title=f"Extended YaleB, 32 of each class, seed 0. {describe()}")
    for head in ("what", f"at {arguments.commit}", "now", "ratio", "wanted"):
        table.add_column(head)
    table.add_row(f"passes to F = {value:.1f}", str(LONG), str(enough), f"{LONG / enough:.1f}", "≥ 5")
    table.add_row("seconds until then", *_numbers(old_s[0], new_s[0]), f"{old_s[0] / new_s[0]:.1f}", "≥ 3")
    table.add_row(
        f"seconds a pass, of {SHORT}", *_numbers(old_pass, new_pass), f"{new_pass / old_pass:.2f}", "≤ 1.15"
    )
    Console(width=120).print(table)


def _numbers(*seconds: float) -> tuple[str, ...]:
    return tuple(f"{s:.3f}" for s in seconds)


def earlier(commit: str, folder: Path) -> Path:
    """The sources of a commit."""
    packed = subprocess.run(["git", "archive", commit, "src"], cwd=ROOT, capture_output=True, check=True)
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder / "src"


def fits(source: Path, *passes: int) -> list[tuple[float, list[float]]]:
    """Seconds and objective after each block, of fits of so many passes by the version at `source`."""
    environment = os.environ | {"PYTHONPATH": str(source)}
    command = [sys.executable, "-c", FIT, *map(str, passes)]
    done = subprocess.run(command, env=environment, capture_output=True, check=True, text=True)
    return [(seconds, trace) for seconds, trace in json.loads(done.stdout)]


if __name__ == "__main__":
    main()
