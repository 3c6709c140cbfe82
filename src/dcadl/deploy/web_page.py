"""`to_web`: a trained model as one web page that opens from disk; and the program as JSON, which it holds."""

from __future__ import annotations

import base64
import os
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined

from dcadl.atomic import write_atomically
from dcadl.deploy.operations import FilterBank, Program, is_identity
from dcadl.deploy.translate import operations_of

if TYPE_CHECKING:
    from dcadl.estimators.base import Classifier

INKS = ("dark", "light")
MOST_ATOMS = 100


def to_web(
    model: Classifier,
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    scale: float = 1.0,
    ink: str = "dark",
) -> None:
    """
    Write a fitted model as one self-contained web page.

    Parameters
    ----------
    model : a fitted classifier of this package, trained on pictures
    path : the file to write
    title : str or None
        The page's heading. None: the method.
    scale : float, default=1
        What pixels 0…255 are multiplied by: the page gives what `model.predict(scale * pixels)` gives.
    ink : {"dark", "light"}, default="dark"
        What people draw with: dark on a light ground, or light on a dark one, as the training pictures are.
    """
    program = operations_of(model, scale=scale)
    write_atomically(Path(path), web_page(program, title or program.method, ink).encode())


def web_page(program: Program, title: str, ink: str = "dark") -> str:
    """The page as HTML. It holds all it needs, and its policy forbids it the network."""
    if len(program.sample_shape) < 2 or program.image[2] not in (1, 3):
        raise ValueError(
            f"A web page takes pictures in grey or colour; this model takes samples of shape "
            f"{program.sample_shape}."
        )
    if ink not in INKS:
        raise ValueError(f"ink must be one of {', '.join(map(repr, INKS))}; got {ink!r}.")
    loader = PackageLoader("dcadl.deploy", "web")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    scripts = [_asset(name) for name in ("operations.js", "pictures.js", "page.js")]
    return environment.get_template("page.html").render(
        title=title,
        method=program.method,
        version=program.facts["dcadl_version"],
        calibrated=program.facts["calibrated"],
        classes=len(program.classes),
        shape=" × ".join(map(str, program.sample_shape)),
        ink=ink,
        style=_asset("page.css"),
        scripts=scripts,
        program=program_json(program),
        atoms=_encoded(atoms_of(program)),
    )


def program_json(program: Program) -> dict[str, Any]:
    """The program as JSON: operations by name, arrays in base64 of float32."""
    return {
        "image": list(program.image),
        "classes": [str(label) for label in program.classes],
        "operations": [_encoded(operation) for operation in program.operations],
    }


def atoms_of(program: Program) -> np.ndarray:
    """Filters as they see the picture, (m, h, w, c): a 1×1 bank after the first is multiplied into it."""
    banks = [bank for bank in program.operations if isinstance(bank, FilterBank) and not bank.per_channel]
    if not banks or is_identity(banks[0]) or banks[0].filters.shape[1:3] == program.image[:2]:
        return np.empty((0, 1, 1, 1))
    filters = banks[0].filters
    if len(banks) > 1 and banks[1].filters.shape[1:3] == (1, 1):
        mix = banks[1].filters.reshape(len(banks[1].filters), -1)
        filters = (mix @ filters.reshape(len(filters), -1)).reshape(-1, *filters.shape[1:])
    return filters[:MOST_ATOMS]


def _encoded(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        data = np.ascontiguousarray(value, dtype="<f4").tobytes()
        return {"shape": list(value.shape), "base64": base64.b64encode(data).decode()}
    if isinstance(value, tuple) and hasattr(value, "_asdict") and type(value).__name__ != "Grid":
        fields = {name: _encoded(inner) for name, inner in value._asdict().items()}
        return {"kind": type(value).__name__, **fields}
    if isinstance(value, list | tuple):
        return [_encoded(inner) for inner in value]
    return value.item() if isinstance(value, np.generic) else value


def _asset(name: str) -> str:
    return files("dcadl.deploy").joinpath("web", name).read_text(encoding="utf-8")
