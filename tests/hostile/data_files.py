"""Damaged pictures and arrays: what the readers of data promise."""

from __future__ import annotations

import gzip
import io
import struct

import h5py
import mutate
import numpy as np
from PIL import Image
from scipy import sparse
from scipy.io import savemat

from dcadl.data.idx import read_idx
from dcadl.data.images import decode
from dcadl.data.mat import read_arrays

PICTURES = ("png", "jpg", "gif", "tif", "webp", "bmp", "ppm")


class DataFiles:
    """A damaged picture or file of arrays is a ValueError that names it, or read within its limits."""

    PIXELS, BYTES = 10**6, 10**7

    def __init__(self, folder):
        self.folder = folder
        self.files = [(f"a.{ending}", _picture(ending), self._pixels) for ending in PICTURES]
        self.files += [("a.npz", _npz(), self._arrays), ("a.mat", _mat(), self._arrays)]
        self.files += [("a.mat", _hdf5(folder / "made.mat"), self._arrays)]
        self.files += [("a-idx3-ubyte.gz", _idx(), self._idx)]

    def case(self, rng):
        name, whole, read = self.files[rng.integers(len(self.files))]
        path = self.folder / name
        path.write_bytes(mutate.damaged_bytes(rng, whole))
        try:
            read(path)
        except ValueError as error:
            said = str(error)
        else:
            return "worked"
        assert name in said, "the error does not name the file"
        assert len(said) < 2000, f"the error has {len(said)} characters"
        return "refused"

    def _pixels(self, path):
        found = decode(path, max_pixels=self.PIXELS)
        assert found.dtype == np.uint8, "pixels are no bytes"
        assert found.size <= self.PIXELS, "a picture is larger than the limit"

    def _arrays(self, path):
        for found in read_arrays(path, max_bytes=self.BYTES).values():
            assert found.nbytes <= self.BYTES, "an array is larger than the limit"

    def _idx(self, path):
        assert read_idx(path, max_bytes=self.BYTES).nbytes <= self.BYTES, "an array is larger than the limit"


def _picture(ending):
    stream = io.BytesIO()
    pixels = np.random.default_rng(0).integers(0, 256, (20, 30, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(stream, Image.registered_extensions()[f".{ending}"])
    return stream.getvalue()


def _values():
    rng = np.random.default_rng(0)
    return {"X": rng.random((6, 4)), "y": np.arange(6)}


def _npz():
    stream = io.BytesIO()
    np.savez_compressed(stream, **_values(), names=np.array(["a", "bc"]))
    return stream.getvalue()


def _mat():
    stream = io.BytesIO()
    cells = np.array(["a", "bc"], dtype=object)
    savemat(stream, {**_values(), "S": sparse.csc_matrix(np.eye(4)), "names": cells, "s": {"a": 1.0}})
    return b"MATLAB 5.0 MAT-file".ljust(116) + stream.getvalue()[116:]  # without the time of day


def _hdf5(path):
    with h5py.File(path, "w") as file:
        for name, array in _values().items():
            file.create_dataset(name, data=array, compression="gzip")
        text = file.create_dataset("#refs#/a", data=np.array([65, 66], "u2"))
        text.attrs["MATLAB_class"] = np.bytes_("char")
        file.create_dataset("names", (1, 1), dtype=h5py.ref_dtype)[0, 0] = text.ref
    return path.read_bytes()


def _idx():
    pixels = np.random.default_rng(0).bytes(4 * 5 * 6)
    return gzip.compress(struct.pack(">HBBIII", 0, 8, 3, 4, 5, 6) + pixels, mtime=0)
