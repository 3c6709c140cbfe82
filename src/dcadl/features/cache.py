"""Arrays on disk under the hash of all they were made from: an interrupted run finds its work again."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from dcadl.atomic import replacing


def digest(*parts: Any) -> str:
    """SHA-256 of arrays (values, shape and type) and texts, in order.

    joblib.hash would pickle everything first: four times as slow, and bound to the version of pickle.
    """
    state = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            state.update(f"{part.dtype.str}{part.shape}".encode())
            state.update(np.ascontiguousarray(part).data)
        else:
            state.update(str(part).encode())
        state.update(b"\0")
    return state.hexdigest()


class ArrayCache:
    """One `.npy` file for each key below a folder, with its digest; without a folder it keeps nothing."""

    def __init__(self, folder: str | Path | None) -> None:
        self.folder = None if folder is None else Path(folder)

    def get(self, key: str) -> Any:
        """The array stored under the key, or None; a damaged file counts as absent."""
        if self.folder is None:
            return None
        try:
            with open(self._place(key), "rb") as file:
                array = np.load(file, allow_pickle=False)
                intact = file.read() == digest(array).encode()
        except Exception:  # np.load lets through what its parsers raise, TokenError for example
            return None
        return array if intact else None

    def put(self, key: str, array: Any) -> None:
        """Store an array; its file appears complete or not at all."""
        if self.folder is None:
            return
        place = self._place(key)
        place.parent.mkdir(parents=True, exist_ok=True)
        with replacing(place, durable=False) as file:  # lost in a power cut, it is made again
            np.save(file, array, allow_pickle=False)
            file.write(digest(array).encode())  # behind the array, where np.load does not look

    def _place(self, key: str) -> Path:
        assert self.folder is not None
        return self.folder / key[:2] / f"{key}.npy"
