"""
The attack: thousands of seeded hostile cases against what the library promises.

    python tests/hostile/attack.py [--cases 100000] [--seed 0] [--only TARGET] [--page docs/reliability.md]

Prints one line for each target: cases, how many were refused and how many worked, how many were outside the
promises, and the most time and memory that a case took. With --page the table goes into that page. Every
case that is outside is named with its number; `--only TARGET --first N --cases 1` runs it alone.
"""

from __future__ import annotations

import argparse
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
from targets import TARGETS

SHARES = {  # of all cases: what takes longer has fewer
    "model files": 0.3,
    "pyramids": 0.05,
    "records": 0.2,
    "archives": 0.1,
    "arrays": 0.1,
    "parameters": 0.1,
    "checkpoints": 0.05,
    "data files": 0.1,
}
SECONDS, MEGABYTES = 2, 500  # that a case may take
OUTSIDE = "outside"
MARKS = "<!-- attack: begin -->", "<!-- attack: end -->"


def attack(name, cases, seed=0, first=0):
    """Run some cases of a target; a count of outcomes, what was outside, and the longest time of a case."""
    counts, outside, longest = Counter(), [], 0.0
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        target = TARGETS[name](Path(folder))
        for number in range(first, first + cases):
            rng = np.random.default_rng([seed, list(TARGETS).index(name), number])
            begun = time.process_time()
            outcome, trouble = one_case(target, rng)
            longest = max(longest, time.process_time() - begun)
            if time.process_time() - begun > SECONDS:
                outcome, trouble = OUTSIDE, f"took {time.process_time() - begun:.1f} s"
            counts[outcome] += 1
            if trouble:
                outside.append(f"{name} {number}: {trouble}")
    return counts, outside, longest


def one_case(target, rng):
    """What became of one case, and what was wrong about it."""
    try:
        with np.errstate(all="ignore"):
            return target.case(rng), None
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        text = " ".join(str(error).split())[:120]
        return OUTSIDE, f"{type(error).__name__}: {text} ({Path(place.filename).name}:{place.lineno})"


def main():
    """Run all targets, print the table, and end with status 1 where a case was outside."""
    options = parse()
    signal.signal(signal.SIGALRM, lambda *_: (_ for _ in ()).throw(TimeoutError("hangs")))
    rows, outside = [], []
    for name in [options.only] if options.only else TARGETS:
        cases = options.cases if options.only else round(options.cases * SHARES[name])
        attack(name, 20, options.seed)  # imports and caches are no case's memory
        before = limit_memory()
        begun = time.monotonic()
        counts, found, longest = attack(name, cases, options.seed, options.first)
        grown = max(0, peak_megabytes() - before)
        outside += found
        rows.append((name, cases, counts["refused"], counts["worked"], counts[OUTSIDE], longest, grown))
        print(f"{line(rows[-1])} {time.monotonic() - begun:.0f} s", flush=True)
    for trouble in outside[:40]:
        print(trouble)
    if options.page:
        write(options.page, rows, options.seed)
    sys.exit(bool(outside))


def limit_memory():
    """From here on an allocation beyond the limit fails; megabytes used so far."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEGABYTES * 2**20, resource.RLIM_INFINITY))
    return peak_megabytes()


def peak_megabytes():
    """Most memory this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def line(row):
    """A row of the table."""
    name, cases, refused, worked, outside, longest, grown = row
    return f"| {name} | {cases} | {refused} | {worked} | {outside} | {longest:.2f} | {grown:.0f} |"


def write(page, rows, seed):
    """The table into the page, between its marks."""
    head = f"| attacked | cases | refused | worked | outside | longest s | MB more |\n{'|---' * 7}|"
    total = sum(row[1] for row in rows)
    table = "\n".join([head, *map(line, rows), "", f"{total} cases, seed {seed}: `make attack`."])
    text = page.read_text()
    before, after = text.index(MARKS[0]) + len(MARKS[0]), text.index(MARKS[1])
    page.write_text(f"{text[:before]}\n{table}\n{text[after:]}")


def parse():
    """What was typed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--only", choices=list(TARGETS))
    parser.add_argument("--page", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
