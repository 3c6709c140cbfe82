"""Files with flipped and missing bytes: each either still reads or is a ValueError with its name."""

import tarfile
import zipfile

import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

from dcadl.data import read_labelled
from dcadl.data.archives import unpack
from dcadl.data.images import decode

pytestmark = pytest.mark.filterwarnings("ignore")


def damaged(content: bytes, seed: int) -> bytes:
    """The content with a few bytes overwritten, and in every third case its end cut off."""
    rng = np.random.default_rng(seed)
    values = np.frombuffer(content, dtype=np.uint8).copy()
    places = rng.integers(0, len(values), 1 + seed % 8)
    values[places] = rng.integers(0, 256, len(places))
    return values[: int(rng.integers(1, len(values))) if seed % 3 == 0 else None].tobytes()


def refusals(path, read, content) -> list[str]:
    """What ValueErrors said under every damage; any other exception escapes and fails the test."""
    messages = []
    for seed in range(60):
        path.write_bytes(damaged(content, seed))
        try:
            read(path)
        except ValueError as error:
            messages.append(str(error))
    return messages


@pytest.mark.parametrize("suffix", ["png", "jpg", "gif", "webp", "bmp", "tif", "pgm"])
def test_damaged_pictures_are_read_or_refused_by_name(tmp_path, rng, suffix):
    path = tmp_path / f"picture.{suffix}"
    Image.fromarray(rng.integers(0, 256, (24, 20), dtype=np.uint8)).save(path)
    messages = refusals(path, decode, path.read_bytes())
    assert messages
    assert all(path.name in message for message in messages)


def test_damaged_npz_files_are_read_or_refused_by_name(tmp_path, rng):
    path = tmp_path / "arrays.npz"
    np.savez_compressed(path, X=rng.random((10, 4)), y=np.arange(10) % 2)
    messages = refusals(path, read_labelled, path.read_bytes())
    assert messages
    assert all(path.name in message for message in messages)


def test_damaged_mat_files_are_read_or_refused_by_name(tmp_path, rng):
    path = tmp_path / "arrays.mat"
    savemat(path, {"fea": rng.random((10, 4)), "gnd": np.arange(10) % 2}, do_compression=True)
    messages = refusals(path, read_labelled, path.read_bytes())
    assert messages
    assert all(path.name in message for message in messages)


def test_damaged_v73_files_are_read_or_refused_by_name(tmp_path, rng):
    h5py = pytest.importorskip("h5py", reason="MATLAB v7.3 files need the extra `data`")
    path = tmp_path / "arrays.mat"
    with h5py.File(path, "w") as file:
        file["fea"], file["gnd"] = rng.random((4, 10)), np.arange(10)[None] % 2
    messages = refusals(path, read_labelled, path.read_bytes())
    assert messages
    assert all(path.name in message for message in messages)


@pytest.mark.parametrize("suffix", ["zip", "tar.gz"])
def test_damaged_archives_are_unpacked_or_refused_by_name(tmp_path, rng, suffix):
    path, inner = tmp_path / f"archive.{suffix}", tmp_path / "inner.bin"
    inner.write_bytes(rng.bytes(3000) + bytes(3000))
    with zipfile.ZipFile(tmp_path / "archive.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(inner, "a/b.bin")
    with tarfile.open(tmp_path / "archive.tar.gz", "w:gz") as archive:
        archive.add(inner, "a/b.bin")
    targets = iter(range(100))
    messages = refusals(path, lambda p: unpack(p, tmp_path / "out" / str(next(targets))), path.read_bytes())
    assert messages
    assert all(path.name in message for message in messages)
    assert not list((tmp_path / "out").glob(".unpacking*"))
