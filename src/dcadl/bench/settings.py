"""What to run: the tables of `paper.toml` and `pictures.toml`, and parameters that were tuned."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from dcadl.bench.methods import find_class, method_names
from dcadl.bench.own import is_own, own_dataset_config, own_name, own_rows

SHARED = (
    "data",
    "divide_by",
    "size",
    "features",
    "tested_on",
    "kind",
)  # by a data set that is `like` another


class Setting(NamedTuple):
    """One row of a table: what it is called, the class, its parameters, and where they come from."""

    label: str
    method: str  # name of the class
    params: dict[str, Any]
    group: str = "table"  # or "ablation"
    source: str = "paper"  # or "tuned"
    candidates: int | None = None  # that tuned parameters were chosen from


@cache
def benchmark_config() -> dict[str, Any]:
    """`paper.toml` and `pictures.toml` together; what a data set has like another one is filled in."""
    paper, pictures = (_read_toml(name) for name in ("paper.toml", "pictures.toml"))
    datasets = paper["datasets"] | pictures["datasets"]
    return {
        "datasets": {name: _filled_in(datasets[name], datasets) for name in pictures["order"]},
        "spaces": paper["spaces"],
        "untuned": paper["untuned"],
    }


def dataset_config(name: str) -> dict[str, Any]:
    """What is known of one data set and its protocol."""
    if is_own(name):
        return own_dataset_config(name)
    known = benchmark_config()["datasets"]
    if name not in known:
        raise ValueError(
            f"data set must be one of {', '.join(known)}, all, or the path of one's own data; got {name!r}."
        )
    return known[name]


def dataset_names(wanted: str) -> list[str]:
    """The data sets that a word on the command line means."""
    if wanted == "all":
        return list(benchmark_config()["datasets"])
    if wanted not in benchmark_config()["datasets"] and Path(wanted).exists():
        return [own_name(wanted)]
    dataset_config(wanted)
    return [wanted]


def settings(name: str, wanted: list[str] | None = None, *, ablations: bool = False) -> list[Setting]:
    """The rows of one data set's table: those `wanted`, or all whose class is here."""
    return rows_of([name], wanted, ablations=ablations)[name]


def rows_of(
    names: list[str], wanted: list[str] | None = None, *, ablations: bool = False
) -> dict[str, list[Setting]]:
    """The rows of each data set: those `wanted`, table rows by label and ablations by class, or all."""
    rows = {name: _known_rows(name, ablations) for name in names}
    for word in wanted or ():
        if not any(_means(word, row) for name in names for row in rows[name]):
            labels = dict.fromkeys(row.label for name in names for row in rows[name] if row.group == "table")
            raise ValueError(
                f"methods of {' and '.join(names)} must be among {', '.join(labels)}; got {word}."
            )
    if wanted is None:
        return rows
    return {name: [row for row in rows[name] if any(_means(w, row) for w in wanted)] for name in names}


def _known_rows(name: str, ablations: bool) -> list[Setting]:
    known = dataset_config(name)
    table = own_rows(name) if is_own(name) else known["settings"]
    rows = [_setting(label, entry, "table") for label, entry in table.items()]
    rows += ablation_grid(known.get("ablations")) if ablations else []
    return [row for row in rows if row.method in method_names()]


def ablation_grid(spec: dict[str, Any] | None) -> list[Setting]:
    """Learned or random atoms × normalisation × number of atoms × codes, all else fixed."""
    if spec is None:
        return []
    rows = []
    for method, how, m, lam1 in product(spec["methods"], spec["normalize"], spec["n_atoms"], spec["lam1"]):
        has = find_class(method)().get_params()
        fixed = {key: value for key, value in spec["fixed"].items() if key in has}
        own = {"normalize": None if how == "none" else how, "n_atoms": m, "lam1": lam1}
        label = f"{method} {how} {m} {'shrunk' if lam1 else 'plain'}"
        rows.append(Setting(label, method, fixed | own, "ablation"))
    return rows


def build(setting: Setting, seed: int) -> Any:
    """The method of that setting, unfitted; what is random in it comes from the seed."""
    model = find_class(setting.method)(**setting.params)
    return model.set_params(random_state=seed) if "random_state" in model.get_params() else model


def read_tuned(path: str | Path, table: str = "tuned") -> dict[str, Any]:
    """Parameters that `dcadl tune` chose: data set → label → seed → parameters."""
    try:
        found = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} cannot be read as tuned parameters: {error}") from None
    if table not in found and table == "tuned":
        raise ValueError(
            f"{path} holds no tuned parameters: a table [tuned.<data set>.<method>] was expected."
        )
    chosen = found.get(table, {})
    if not _is_nested(chosen, depth=3):
        raise ValueError(f"{path}: [{table}] must hold data set → method → seed → parameters.")
    return chosen


def with_tuned(
    setting: Setting, tuned: dict[str, Any], name: str, seed: int, searches: dict[str, Any] | None = None
) -> Setting:
    """The setting with what was chosen inside this seed's own training split, where there is such a choice.

    Another seed's choice would not do: its training rows may be test rows here. `searches` knows from how
    many candidates it was chosen.
    """
    chosen = tuned.get(name, {}).get(setting.label, {}).get(f"seed{seed}")
    if not chosen:  # no search, or no time for one
        return setting
    how = (searches or {}).get(name, {}).get(setting.label, {}).get(f"seed{seed}", {})
    return setting._replace(params=setting.params | chosen, source="tuned", candidates=how.get("candidates"))


def _read_toml(name: str) -> dict[str, Any]:
    return tomllib.loads(files("dcadl.bench").joinpath(name).read_text(encoding="utf-8"))


def _filled_in(entry: dict[str, Any], datasets: dict[str, Any]) -> dict[str, Any]:
    """An entry with what it has `like` another one; a setting of `false` is a row that it has not."""
    other = _filled_in(datasets[entry["like"]], datasets) if "like" in entry else {}
    shared = {key: other[key] for key in SHARED if key in other}
    rows = other.get("settings", {}) | entry.get("settings", {})
    return {
        "results": [],
        **shared,
        **entry,
        "settings": {label: row for label, row in rows.items() if row is not False},
    }


def _setting(label: str, entry: dict[str, Any], group: str) -> Setting:
    params = {key: _tuples(value) for key, value in entry.items() if key != "method"}
    return Setting(label, entry.get("method", label), params, group)


def _is_nested(value: Any, depth: int) -> bool:
    return isinstance(value, dict) and (
        depth == 0 or all(_is_nested(inner, depth - 1) for inner in value.values())
    )


def _means(word: str, row: Setting) -> bool:
    name = row.label if row.group == "table" else row.method
    return word.lower().replace("_", "-") == name.lower()


def _tuples(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
