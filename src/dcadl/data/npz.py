"""Plain arrays to a file, whole or not at all."""

from pathlib import Path
from typing import Any

import numpy as np

from dcadl.atomic import replacing


def write_npz(path: str | Path, arrays: dict[str, Any]) -> None:
    """Write arrays to a `.npz` file that is replaced whole or left as it was."""
    with replacing(path) as file:
        np.savez(file, **arrays)
