"""Arrays by name from `.mat` (MATLAB v5 and v7.3) and `.npz` files. Nothing is ever unpickled."""

from pathlib import Path
from typing import Any

import numpy as np
from scipy.io import loadmat
from scipy.sparse import issparse


def read_arrays(path: str | Path) -> dict[str, Any]:
    """Every array of a `.npz` or `.mat` file by name; axes of `.mat` arrays are in MATLAB order."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"no file at {path}")
    if path.suffix.lower() == ".npz":
        return _read_npz(path)
    return _read_hdf5(path) if _is_hdf5(path) else _read_v5(path)


def _read_npz(path: Path) -> dict[str, Any]:
    try:
        with np.load(path, allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}
    except Exception as error:  # zip, zlib and NumPy raise many kinds on damaged files
        raise ValueError(
            f"cannot read {path} as plain arrays (pickled objects are never loaded): {error}"
        ) from error


def _read_v5(path: Path) -> dict[str, Any]:
    try:
        content = loadmat(path)
    except Exception as error:  # scipy's reader raises many kinds on damaged files
        raise ValueError(f"cannot read {path} as a MATLAB file: {error}") from error
    arrays = {name: value for name, value in content.items() if not name.startswith("__")}
    return {name: value.toarray() if issparse(value) else value for name, value in arrays.items()}


def _is_hdf5(path: Path) -> bool:
    """MATLAB v7.3 puts a 512-byte header of its own before the HDF5 signature."""
    with path.open("rb") as file:
        head = file.read(520)
    return head.startswith(b"MATLAB 7.3") or b"\x89HDF\r\n\x1a\n" in (head[:8], head[512:520])


def _read_hdf5(path: Path) -> dict[str, Any]:
    try:
        import h5py
    except ImportError as error:
        raise ImportError(
            f"{path} is a MATLAB v7.3 file; reading it needs: pip install 'dcadl[data]'"
        ) from error
    try:
        with h5py.File(path, "r") as file:
            # a damaged name comes as bytes
            found = {str(name): item for name, item in file.items() if isinstance(item, h5py.Dataset)}
            # HDF5 keeps MATLAB's columns as rows
            return {
                name: np.asarray(item[()]).T for name, item in found.items() if item.dtype.kind in "buifS"
            }
    except Exception as error:  # so does the HDF5 library
        raise ValueError(f"cannot read {path} as a MATLAB v7.3 file: {error}") from error
