"""The TOML file of choices: `tuned` holds the parameters, `searches` how each was found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dcadl.atomic import write_atomically
from dcadl.bench.settings import read_tuned
from dcadl.bench.tuning.search import Budget, Choice, Search


class ChoiceFile:
    """What is chosen already, and whether more time could change it."""

    def __init__(self, path: Path, budget: Budget) -> None:
        self._path = path
        self._tables = self._read()
        self._facts = {"budget_s": round(budget.seconds, 3), "folds": budget.folds}
        self._least = budget.least

    def has(self, search: Search) -> bool:
        """Whether there is a choice, from enough candidates, that this much time would not change."""
        seed = f"seed{search.seed}"
        how = self._known("searches", search).get(seed, {"cross_validated": None})
        searched = "cross_validated" in how or (self._no_longer(how) and not self._least)
        enough = how.get("candidates", self._least) >= self._least
        return seed in self._known("tuned", search) and searched and enough

    def hopeless(self, search: Search) -> bool:
        """Whether the first seed had no time to search, in as much time."""
        if self._least:
            return False
        first = self._known("searches", search).get("seed0")
        return first is not None and "cross_validated" not in first and self._no_longer(first)

    def _no_longer(self, how: dict[str, Any]) -> bool:
        return bool(self._facts["budget_s"] <= how["budget_s"] and self._facts["folds"] >= how["folds"])

    def keep(self, search: Search, choice: Choice) -> None:
        """On disk, whole, before the next search; beside what another command has written in the meantime."""
        self._tables = self._read()
        how = {"candidates": choice.candidates, "spent_s": round(choice.spent_s, 1), **self._facts}
        if choice.score is not None:
            how["cross_validated"] = round(choice.score, 5)
        for table, values in (("tuned", choice.params), ("searches", how)):
            sets = self._tables.setdefault(table, {})
            seeds = sets.setdefault(search.dataset, {}).setdefault(search.row.label, {})
            seeds[f"seed{search.seed}"] = values
        write_atomically(self._path, self._text().encode())

    def _read(self) -> dict[str, Any]:
        if not self._path.exists():
            return {}
        return {table: read_tuned(self._path, table) for table in ("tuned", "searches")}

    def _known(self, table: str, search: Search) -> dict[str, Any]:
        return self._tables.get(table, {}).get(search.dataset, {}).get(search.row.label, {})

    def _text(self) -> str:
        """Every value is a number or a word, which TOML and JSON write alike."""
        lines = ["# Chosen by `dcadl tune`, by cross-validation inside the training split of each seed."]
        for table, sets in self._tables.items():
            for name, rows in sets.items():
                for label, seeds in rows.items():
                    lines += ["", f"[{table}.{_key(name)}.{json.dumps(label)}]"]
                    lines += [f"{seed} = {_inline(values)}" for seed, values in seeds.items()]
        return "\n".join(lines) + "\n"


def _key(name: str) -> str:
    """A name as TOML has it: a path in quotes."""
    return name if name.replace("-", "").replace("_", "").isalnum() else json.dumps(name)


def _inline(values: dict[str, Any]) -> str:
    pairs = ", ".join(f"{key} = {json.dumps(value)}" for key, value in values.items())
    return f"{{ {pairs} }}" if pairs else "{}"
