"""The paper's settings by name, from the tables that `dcadl bench` runs (`bench/paper.toml`)."""

from typing import Any, NamedTuple

PATCHES = ("patch_shape", "stride")
# Each preset's data set, and the ending of its rows' labels. The paper's table has 50 atoms for Scene15, its
# text 100.
PRESETS = {
    "extended_yaleb": ("extended_yaleb", ""),
    "ar": ("ar", ""),
    "caltech101": ("caltech101", ""),
    "scene15": ("scene15", ""),
    "scene15_100": ("scene15", "-100"),
}


class Preset(NamedTuple):
    """One setting as it applies to one method."""

    size: tuple[int, int] | None  # of the images; None for features
    params: dict[str, Any]
    tuned: bool  # whether the setting has parameters for this method, beyond the patches


def preset(name: str, method: type) -> Preset:
    """The setting called `name` for an estimator class; a method without a row gets the patches only."""
    from dcadl.bench.settings import settings
    from dcadl.data.registry import facts

    if name not in PRESETS:
        raise ValueError(f"--preset must be one of {', '.join(PRESETS)}; got {name!r}.")
    dataset, ending = PRESETS[name]
    rows = {row.label: row.params for row in settings(dataset)}
    own = rows.get(method.__name__ + ending, rows.get(method.__name__))
    has = method().get_params()
    patches = {key: rows["DCADL"][key] for key in PATCHES if key in has}
    size = facts(dataset).size
    return Preset(
        None if size is None else (size[0], size[1]), patches if own is None else own, own is not None
    )
