"""Labels and names in files from anywhere, and archives with odd members."""

import gzip
import tarfile
import zipfile

import numpy as np
import pytest
from scipy.io import savemat

from dcadl.data import image_folder, read_labelled
from dcadl.data.archives import unpack
from dcadl.data.bunch import encode

h5py = pytest.importorskip("h5py", reason="h5py is not installed: pip install 'dcadl[data]'")


def test_a_zip_member_without_a_name_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(zipfile.ZipInfo("x"), b"content")
    content = (tmp_path / "a.zip").read_bytes()
    # the name's length is zero in both headers, and the letter becomes part of what follows
    local, central = content.index(b"PK\x03\x04"), content.index(b"PK\x01\x02")
    content = bytearray(content)
    content[local + 26 : local + 28] = content[central + 28 : central + 30] = b"\0\0"
    del content[central + 46]
    (tmp_path / "a.zip").write_bytes(bytes(content))
    with pytest.raises(ValueError, match=r"a\.zip"):
        unpack(tmp_path / "a.zip", tmp_path / "out")


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME])
@pytest.mark.parametrize("opener", [open, gzip.open], ids=["tar", "tar.gz"])
def test_a_tar_header_larger_than_any_name_is_refused(tmp_path, kind, opener):
    """tarfile would read it whole, out of a file a thousand times smaller."""
    info = tarfile.TarInfo("x")
    info.type, info.size = kind, 4 * 2**20
    with opener(tmp_path / "a.tar", "wb") as file:
        file.write(info.tobuf(tarfile.USTAR_FORMAT) + bytes(info.size))
        file.write(tarfile.TarInfo("a.txt").tobuf() + bytes(1024))
    with pytest.raises(ValueError, match=r"a\.tar is not safe: a header in it has 4194304 bytes"):
        unpack(tmp_path / "a.tar", tmp_path / "out")


@pytest.mark.parametrize("key", ["names", "class_names"])
def test_a_single_name_is_no_list_of_names(tmp_path, key):
    arrays = {"X": np.ones((2, 3)), "y": [0, 1], key: np.array("all of them")}
    np.savez(tmp_path / "a.npz", **arrays)
    assert list(read_labelled(tmp_path / "a.npz").target_names) == ["0", "1"]


@pytest.mark.parametrize("labels", [[1e300, 1.0], [2**63, 1], [-1e19, 0.0]], ids=str)
def test_labels_beyond_64_bits_are_refused(labels):
    with pytest.raises(ValueError, match="64-bit integers"):
        encode(np.array(labels, dtype=None if isinstance(labels[0], float) else np.uint64), ["a", "b"])


def test_labels_that_are_texts_beside_class_names_are_refused():
    with pytest.raises(ValueError, match="must be integers where class names are given"):
        encode(np.array(["a", "b"]), ["a", "b"])


def test_matlab_cells_of_texts_are_labels(tmp_path):
    cells = np.array(["cat", "dog", "cat"], dtype=object).reshape(3, 1)
    savemat(tmp_path / "a.mat", {"X": np.ones((3, 2)), "y": cells})
    bunch = read_labelled(tmp_path / "a.mat")
    assert [str(bunch.target_names[t]) for t in bunch.target] == ["cat", "dog", "cat"]


def test_matlab_cells_of_texts_in_version_73_are_labels(tmp_path):
    with h5py.File(tmp_path / "a.mat", "w") as file:
        file["X"] = np.ones((2, 3))
        references = []
        for i, word in enumerate(["cat", "elephant", "cat"]):
            letters = file.create_dataset(f"#refs#/{i}", data=np.array([[ord(c)] for c in word], dtype="u2"))
            letters.attrs["MATLAB_class"] = np.bytes_("char")
            references.append(letters.ref)
        cells = file.create_dataset("y", (1, 3), dtype=h5py.ref_dtype)
        cells[0] = references
    bunch = read_labelled(tmp_path / "a.mat")
    assert [str(bunch.target_names[t]) for t in bunch.target] == ["cat", "elephant", "cat"]


def test_a_sub_folder_that_cannot_be_read_is_said(pets, monkeypatch):
    import os

    scandir = os.scandir

    def guarded(path):
        if str(path).endswith("dog"):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", guarded)
    with pytest.raises(ValueError, match=r"cannot read the folder .*dog: Permission denied"):
        image_folder(pets)
