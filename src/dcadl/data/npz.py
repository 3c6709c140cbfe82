"""Plain arrays to a file, whole or not at all."""

import os
from pathlib import Path
from typing import Any

import numpy as np


def write_npz(path: str | Path, arrays: dict[str, Any]) -> None:
    """Write arrays to a `.npz` file that is replaced whole or left as it was."""
    path = Path(path)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            np.savez(file, **arrays)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
