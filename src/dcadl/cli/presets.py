"""The paper's settings by name, from `presets.toml`."""

import tomllib
from importlib.resources import files
from typing import Any, NamedTuple

PATCHES = ("patch_shape", "stride")


class Preset(NamedTuple):
    """One setting as it applies to one method."""

    size: tuple[int, int] | None  # of the images; None for features
    params: dict[str, Any]
    tuned: bool  # whether the setting has parameters for this method, beyond the patches


def read_presets() -> dict[str, dict[str, Any]]:
    """Every setting by name, as the file has it."""
    return tomllib.loads(files("dcadl.cli").joinpath("presets.toml").read_text(encoding="utf-8"))


def preset(name: str, method: type) -> Preset:
    """The setting called `name` for an estimator class: what the method has no parameter for is left out."""
    known = read_presets()
    if name not in known:
        raise ValueError(f"--preset must be one of {', '.join(known)}; got {name!r}.")
    setting = known[name]
    has = method().get_params()
    own = setting.get(method.__name__, {})
    patches = {key: setting[key] for key in PATCHES if key in has}
    size = tuple(setting["size"]) if "size" in setting else None
    return Preset(size, patches | own, bool(own))
