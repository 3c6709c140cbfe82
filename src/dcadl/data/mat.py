"""Arrays by name from `.mat` (MATLAB v5 and v7.3) and `.npz` files. Nothing is ever unpickled."""

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from scipy.io import loadmat, whosmat
from scipy.io.matlab import matfile_version
from scipy.sparse import issparse

from dcadl.data.errors import shortened
from dcadl.data.limits import MAX_BYTES, check_bytes
from dcadl.data.mat5 import text_cells

WIDEST = 8  # bytes of MATLAB's doubles
NESTED = (
    "cell",
    "struct",
    "object",
    "function",
    "opaque",
    "unknown",
)  # what may hold more than its shape says
LEAST_CELL = 16  # bytes of a cell in a file of v7.3: far more, but for a reference that is there many times


def read_arrays(path: str | Path, max_bytes: int = MAX_BYTES) -> dict[str, Any]:
    """Every array of a `.npz` or `.mat` file by name; axes of `.mat` arrays are in MATLAB order.

    A file whose arrays would take more than `max_bytes` in memory is refused before they are unfolded.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"file not found: {path}")
    if path.suffix.lower() == ".npz":
        return _read_npz(path, max_bytes)
    return _read_hdf5(path, max_bytes) if _is_hdf5(path) else _read_v5(path, max_bytes)


def _read_npz(path: Path, max_bytes: int) -> dict[str, Any]:
    try:
        with zipfile.ZipFile(path) as members:
            check_bytes((sum(info.file_size for info in members.infolist()),), 1, max_bytes, "its content")
        with np.load(path, allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}
    except Exception as error:  # zip, zlib and NumPy raise many kinds on damaged files
        raise ValueError(
            f"cannot read {path} as plain arrays (pickled objects are never loaded): {shortened(error)}"
        ) from error


def _read_v5(path: Path, max_bytes: int) -> dict[str, Any]:
    try:
        listed = whosmat(path)
        for name, shape, kind in listed:
            if kind != "sparse":
                check_bytes(shape, WIDEST, max_bytes, name)
        texts = text_cells(path, max_bytes) if matfile_version(path)[0] else set()
        read = [name for name, _, kind in listed if kind not in NESTED or name in texts]
        content = loadmat(path, variable_names=read)
        arrays = {name: _plain(name, content[name], max_bytes) for name in read if name in content}
        # not unfolded, but there: what looks for numbers or texts under this name says what it found
        return {name: np.empty(shape, object) for name, shape, _ in listed if name not in read} | arrays
    except Exception as error:  # scipy's reader raises many kinds on damaged files
        raise ValueError(f"cannot read {path} as a MATLAB file: {shortened(error)}") from error


def _plain(name: str, value: Any, max_bytes: int) -> Any:
    """Sparse matrices filled up, cells of texts as texts; all else as it is."""
    if issparse(value):
        check_bytes(value.shape, value.dtype.itemsize, max_bytes, name)
        value = value.tocsc(copy=False)
        value.check_format(full_check=True)  # an index beyond the shape would be written to as it is
        return value.toarray()
    texts = [_text(cell) for cell in value.ravel()] if value.dtype == object else []
    if texts and None not in texts:
        return _as_array(name, texts, max_bytes).reshape(value.shape)
    return value


def _as_array(name: str, texts: list[Any], max_bytes: int) -> Any:
    """Texts as one array. NumPy gives every text the room of the longest, four bytes a letter."""
    check_bytes((len(texts), max(map(len, texts), default=0)), 4, max_bytes, name)
    return np.array(texts)


def _text(cell: Any) -> str | None:
    """What a cell of MATLAB says, if it holds one text."""
    cell = np.asarray(cell)
    return str(cell.ravel()[0]) if cell.dtype.kind == "U" and cell.size == 1 else None


def _is_hdf5(path: Path) -> bool:
    """MATLAB v7.3 puts a 512-byte header of its own before the HDF5 signature."""
    with path.open("rb") as file:
        head = file.read(520)
    return head.startswith(b"MATLAB 7.3") or b"\x89HDF\r\n\x1a\n" in (head[:8], head[512:520])


def _read_hdf5(path: Path, max_bytes: int) -> dict[str, Any]:
    try:
        import h5py
    except ImportError as error:
        raise ImportError(
            f"{path} is a MATLAB v7.3 file; reading it needs: pip install 'dcadl[data]'"
        ) from error
    try:
        with h5py.File(path, "r") as file:
            # a damaged name comes as bytes; HDF5 keeps MATLAB's columns as rows
            found = {str(name): _inside(file, name, h5py) for name in file}
            items = {name: item for name, item in found.items() if isinstance(item, h5py.Dataset)}
            for name, item in items.items():
                check_bytes(item.shape, item.dtype.itemsize, max_bytes, name)
            cells = {name: _cell_texts(file, item, h5py, max_bytes) for name, item in items.items()}
            arrays = {name: item[()] for name, item in items.items() if item.dtype.kind in "buifS"}
            arrays |= {name: texts for name, texts in cells.items() if texts is not None}
            return {name: np.asarray(value).T for name, value in arrays.items()}
    except Exception as error:  # so does the HDF5 library
        raise ValueError(f"cannot read {path} as a MATLAB v7.3 file: {shortened(error)}") from error


def _inside(file: Any, name: str, h5py: Any) -> Any:
    """An entry of the file itself: links and storage that lead to other files could read anything here."""
    if not isinstance(file.get(name, getlink=True), h5py.HardLink):  # a soft link may lead to an external one
        raise ValueError(f"its entry {name} is a link to another place, which is never followed.")
    return _own(name, file[name], h5py)


def _own(name: str, item: Any, h5py: Any) -> Any:
    if isinstance(item, h5py.Dataset) and (item.external or item.is_virtual):
        raise ValueError(f"its entry {name} lies in another file, which is never opened.")
    return item


def _cell_texts(file: Any, item: Any, h5py: Any, max_bytes: int) -> Any:
    """A MATLAB cell array of texts, which v7.3 keeps as references to 16-bit letters; None for all else."""
    if h5py.check_ref_dtype(item.dtype) is not h5py.Reference:
        return None
    if item.size * LEAST_CELL > file.id.get_filesize():
        raise ValueError(f"its entry {item.name} has {item.size} cells, more than the file has room for.")
    texts = []
    for i, reference in enumerate(item[()].ravel()):  # one open at a time: HDF5 keeps kilobytes for each
        cell = _own(f"{item.name} {i}", file[reference], h5py)
        if cell.attrs.get("MATLAB_class") != b"char":
            return None
        check_bytes((item.size, cell.size), 4, max_bytes, item.name)
        texts.append("".join(map(chr, np.asarray(cell[()]).ravel())))
    return _as_array(item.name, texts, max_bytes).reshape(item.shape)
