"""What tuning cost: a table of the searches that a file of choices tells of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dcadl.bench.report.markdown import bar
from dcadl.bench.report.summary import LEAST_CANDIDATES
from dcadl.bench.settings import build, dataset_config, read_tuned, settings

COLUMNS = (
    "Data set",
    "Method",
    "Splits searched",
    "Candidates",
    "Minutes given",
    "Minutes taken",
    "Other choice",
)
LEGEND = f"""Every search should have {LEAST_CANDIDATES} candidates, the setting itself among them; rows that
had fewer carry a ‡ above. Minutes are for all splits of a method together. "Other choice" is in how many
splits the setting was beaten by one standard error. A method without splits had no time for the folds of two
candidates; its minutes went into finding that out."""


def searches_section(path: str | Path) -> str:
    """One line for each method of each data set."""
    lines = ["## Tuning", "", LEGEND, "", bar(COLUMNS), bar(["---"] * len(COLUMNS))]
    tuned = read_tuned(path)
    for name, rows in read_tuned(path, "searches").items():
        for label, seeds in rows.items():
            chosen = list(tuned.get(name, {}).get(label, {}).values())  # without a search, nothing is chosen
            lines.append(bar(_line(name, label, list(seeds.values()), chosen)))
    return "\n".join(lines)


def _line(name: str, label: str, seeds: list[dict[str, Any]], chosen: list[dict[str, Any]]) -> list[str]:
    known = dataset_config(name)
    made = [how["candidates"] for how in seeds if "cross_validated" in how]
    own = build(settings(name, [label])[0], 0).get_params()
    others = sum(any(own[key] != value for key, value in params.items()) for params in chosen)
    given = sum(how["budget_s"] for how in seeds) / 60
    taken = sum(how["spent_s"] for how in seeds) / 60
    span = "–" if not made else str(made[0]) if min(made) == max(made) else f"{min(made)}–{max(made)}"
    minutes = [f"{given:.0f}" if given else "as needed", f"{taken:.1f}"]
    found = str(others) if made else "–"
    return [known["title"], label, f"{len(made)} of {len(seeds)}", span, *minutes, found]
