"""Files made to hurt: more than memory holds, other files' content, headers that lie: each a ValueError."""

import gzip
import struct
import tracemalloc
import zlib

import numpy as np
import pytest
from PIL import Image
from scipy import sparse
from scipy.io import savemat

from dcadl.data import image_folder, read_images, read_labelled
from dcadl.data.idx import read_idx
from dcadl.data.images import IMAGE_SUFFIXES, decode
from dcadl.data.mat import read_arrays

h5py = pytest.importorskip("h5py", reason="h5py is not installed: pip install 'dcadl[data]'")


def bomb_png(path, side):
    """A grey PNG of side × side zeros, in a few kilobytes."""

    def chunk(kind, content):
        return (
            struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        )

    header = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    rows = zlib.compress(bytes(side + 1) * min(side, 2000), 9)
    parts = chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + parts)
    return path


def peak_bytes(call):
    """Most memory that NumPy and Python had at once during a call."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


# --- pictures


@pytest.mark.parametrize("ending", ["png", "jpg", "eps"])
def test_postscript_under_any_name_is_no_picture(tmp_path, ending, monkeypatch):
    monkeypatch.setattr("subprocess.check_call", lambda *_, **__: pytest.fail("Ghostscript was called"))
    path = tmp_path / f"a.{ending}"
    path.write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n%%EOF\n")
    with pytest.raises(ValueError, match=r"cannot read .* as an image"):
        decode(path)


@pytest.mark.parametrize("suffix", sorted(IMAGE_SUFFIXES))
def test_every_ending_we_list_has_a_decoder(tmp_path, rng, suffix):
    values = rng.integers(0, 2, (5, 4), dtype=np.uint8) * 255
    picture = Image.fromarray(values)
    picture = picture.convert("1") if suffix == ".pbm" else picture
    picture.save(tmp_path / f"a{suffix}")
    assert decode(tmp_path / f"a{suffix}").shape == (5, 4)


def test_a_picture_of_too_many_pixels_is_refused_before_it_is_decoded(tmp_path):
    path = bomb_png(tmp_path / "bomb.png", 12_000)
    with pytest.raises(ValueError, match=r"bomb\.png.*at most 64000000 pixels; got 12000×12000.*max_pixels"):
        decode(path)


def test_a_picture_that_pillow_itself_refuses_is_refused_in_our_words(tmp_path):
    path = bomb_png(tmp_path / "bomb.png", 20_000)
    with pytest.raises(ValueError, match=r"bomb\.png.*at most 64000000 pixels; got more than 178956970"):
        decode(path)
    with pytest.raises(ValueError, match=r"at most 178956970 pixels"):
        decode(path, max_pixels=10**9)


def test_the_limit_of_pixels_is_an_option_everywhere(tmp_path, pets):
    picture = next(pets.rglob("*.png"))
    assert decode(picture, max_pixels=120).shape == (12, 10)
    for read in (decode, lambda p, **o: read_images([p], **o)):
        with pytest.raises(ValueError, match="at most 119 pixels"):
            read(picture, max_pixels=119)
    for read in (image_folder, read_labelled):
        with pytest.raises(ValueError, match="at most 119 pixels"):
            read(pets, max_pixels=119)


# --- arrays


def test_a_npz_that_unfolds_to_more_than_the_limit_is_refused(tmp_path):
    np.savez_compressed(tmp_path / "bomb.npz", X=np.zeros((1000, 1000)), y=np.zeros(1000))
    with pytest.raises(ValueError, match=r"bomb\.npz.*more than the limit of 1000000"):
        read_arrays(tmp_path / "bomb.npz", max_bytes=10**6)
    assert read_labelled(tmp_path / "bomb.npz", max_bytes=10**7).data.shape == (1000, 1000)


def test_a_mat_that_unfolds_to_more_than_the_limit_is_refused(tmp_path):
    savemat(tmp_path / "bomb.mat", {"X": np.zeros((1000, 1000)), "y": np.zeros(1000)}, do_compression=True)
    with pytest.raises(ValueError, match=r"bomb\.mat.*X of shape \(1000, 1000\) takes 8000000 bytes"):
        read_arrays(tmp_path / "bomb.mat", max_bytes=10**6)


def element(kind, content):
    """An element of a MATLAB v5 file."""
    return struct.pack("<II", kind, len(content)) + content + bytes(-len(content) % 8)


def matrix(kind, shape, name, content, nonzero=0):
    """A matrix of a MATLAB v5 file: class, shape, name and what else it holds."""
    head = element(6, struct.pack("<II", kind, nonzero)) + element(5, struct.pack("<2i", *shape))
    return element(14, head + element(1, name) + content)


def write_mat(path, *matrices):
    """A MATLAB v5 file of matrices, compressed as MATLAB does."""
    packed = b"".join(struct.pack("<II", 15, len(zlib.compress(m))) + zlib.compress(m) for m in matrices)
    path.write_bytes(b"MATLAB 5.0 MAT-file".ljust(124) + b"\0\1IM" + packed)
    return path


ZEROS = bytes(8 * 10**6)
BOMBS = {
    "in a cell": matrix(1, (1, 1), b"X", matrix(6, (10**6, 1), b"", element(9, ZEROS))),
    "of another shape": matrix(6, (1, 1), b"X", element(9, ZEROS)),
    "sparse": matrix(
        5,
        (1, 1),
        b"X",
        element(5, ZEROS[: 4 * 10**6]) + element(5, struct.pack("<2i", 0, 10**6)) + element(9, ZEROS),
        nonzero=10**6,
    ),
}


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS)
def test_a_mat_that_holds_more_than_its_shapes_say_is_refused(tmp_path, bomb):
    path = write_mat(tmp_path / "bomb.mat", bomb)
    with pytest.raises(ValueError, match=r"bomb\.mat.*its content .* more than the limit of 1000000"):
        read_arrays(path, max_bytes=10**6)


UNSOUND = {
    "data of no known kind": matrix(6, (1, 1), b"X", element(11, bytes(8))),
    "no data": matrix(6, (1, 1), b"X", b""),
    "data that end too early": matrix(6, (1, 1), b"X", struct.pack("<II", 9, 800)),
    "a text of no known kind in a cell": matrix(1, (1, 1), b"X", matrix(4, (1, 1), b"", element(99, b"a"))),
    "too few cells": matrix(1, (2, 1), b"X", matrix(4, (1, 1), b"", element(16, b"a"))),
    "no matrix": element(9, bytes(8)),
}


@pytest.mark.parametrize("packed", [True, False], ids=["compressed", "as it is"])
@pytest.mark.parametrize("content", UNSOUND.values(), ids=UNSOUND)
def test_a_mat_that_would_end_the_process_is_refused(tmp_path, content, packed):
    """SciPy's reader looks kinds up in a table without looking at its end."""
    path = write_mat(tmp_path / "a.mat", *[content] * packed)
    path.write_bytes(path.read_bytes() + content * (not packed))
    with pytest.raises(ValueError, match=r"cannot read .*a\.mat as a MATLAB file"):
        read_arrays(path)


def test_a_cell_inside_a_cell_is_never_made(tmp_path):
    """A hundred bytes that tell of a thousand million cells."""
    nested = matrix(1, (1, 1), b"X", matrix(1, (10**9, 1), b"", b""))
    found = read_arrays(write_mat(tmp_path / "a.mat", nested))
    assert found["X"].tolist() == [[None]]


def test_cells_that_hold_numbers_are_no_labels(tmp_path):
    cells = np.empty((2, 1), dtype=object)
    cells[:, 0] = [1, 2]
    savemat(tmp_path / "a.mat", {"X": np.ones((2, 3)), "y": cells})
    with pytest.raises(ValueError, match=r"a\.mat: y must hold integers or texts; got object"):
        read_labelled(tmp_path / "a.mat")


def test_one_long_text_among_many_cells_is_refused(tmp_path):
    cells = np.array(["x" * 10_000] + ["y"] * 99, dtype=object)
    savemat(tmp_path / "a.mat", {"y": cells}, do_compression=True)
    with pytest.raises(ValueError, match=r"y of shape \(100, 10000\) takes 4000000 bytes"):
        read_arrays(tmp_path / "a.mat", max_bytes=10**6)


def test_many_references_to_one_cell_are_refused(tmp_path):
    with h5py.File(tmp_path / "a.mat", "w") as file:
        text = file.create_dataset("#refs#/0", data=np.array([65], "u2"))
        text.attrs["MATLAB_class"] = np.bytes_("char")
        cells = file.create_dataset("y", (100_000,), dtype=h5py.ref_dtype, compression="gzip")
        cells[:] = np.full(100_000, text.ref, dtype=h5py.ref_dtype)
    with pytest.raises(ValueError, match=r"y has 100000 cells, more than the file has room for"):
        read_arrays(tmp_path / "a.mat")


def test_a_huge_sparse_matrix_is_refused_before_it_is_filled_up(tmp_path):
    savemat(tmp_path / "s.mat", {"X": sparse.csc_matrix((200_000, 200_000)), "y": np.zeros(3)})
    with pytest.raises(ValueError, match=r"X of shape \(200000, 200000\)"):
        read_arrays(tmp_path / "s.mat")


@pytest.mark.parametrize("row", [-1, 3, 10**6])
def test_a_sparse_matrix_with_entries_beyond_its_shape_is_refused(tmp_path, row):
    """SciPy would write them where they say, beyond the array."""
    content = (
        element(5, struct.pack("<i", row)) + element(5, struct.pack("<2i", 0, 1)) + element(9, ZEROS[:8])
    )
    path = write_mat(tmp_path / "a.mat", matrix(5, (3, 1), b"X", content, nonzero=1))
    with pytest.raises(ValueError, match=r"cannot read .*a\.mat as a MATLAB file"):
        read_arrays(path)


def test_an_hdf5_dataset_larger_than_the_limit_is_refused(tmp_path):
    with h5py.File(tmp_path / "bomb.mat", "w") as file:
        file.create_dataset("X", shape=(10**6, 10**6), dtype="f8", chunks=(1000, 1000))
    with pytest.raises(ValueError, match=r"bomb\.mat.*X of shape"):
        read_arrays(tmp_path / "bomb.mat")


@pytest.mark.parametrize(
    "shape", [(2**32 - 1,) * 3, (2**32 - 1,)], ids=["beyond 64 bits", "beyond the limit"]
)
def test_an_idx_header_that_promises_too_much_is_refused(tmp_path, shape):
    header = struct.pack(">HBB", 0, 8, len(shape)) + struct.pack(f">{len(shape)}I", *shape)
    (tmp_path / "a.gz").write_bytes(gzip.compress(header))
    with pytest.raises(ValueError, match=r"a\.gz.*more than the limit"):
        read_idx(tmp_path / "a.gz")


def test_an_idx_header_of_many_axes_is_refused_with_the_name_of_the_file(tmp_path):
    (tmp_path / "a").write_bytes(struct.pack(">HBB", 0, 8, 255) + struct.pack(">255I", *[1] * 255) + b"x")
    with pytest.raises(ValueError, match=r"cannot read .*a as an IDX file: at most 4 axes"):
        read_idx(tmp_path / "a")


def test_an_idx_file_takes_no_more_memory_than_its_array(tmp_path):
    header = struct.pack(">HBB", 0, 8, 1) + struct.pack(">I", 20 * 10**6)
    (tmp_path / "a.gz").write_bytes(gzip.compress(header + bytes(20 * 10**6), 1))
    assert peak_bytes(lambda: read_idx(tmp_path / "a.gz")) < 25 * 10**6


def test_a_picture_of_16_bits_takes_little_more_memory_than_its_pixels(tmp_path):
    Image.fromarray(np.zeros((2000, 1000), np.uint16)).save(tmp_path / "a.png")
    assert peak_bytes(lambda: decode(tmp_path / "a.png")) < 8 * 2_000_000


def test_an_idx_bomb_is_read_no_further_than_its_header_says(tmp_path):
    header = struct.pack(">HBB", 0, 8, 1) + struct.pack(">I", 5)
    (tmp_path / "a.gz").write_bytes(gzip.compress(header + bytes(10**7)))
    assert read_idx(tmp_path / "a.gz").tolist() == [0] * 5


def test_an_error_does_not_quote_all_of_a_damaged_file(tmp_path):
    """zipfile quotes a member's name as it finds it, of up to 65 535 bytes."""
    np.savez(tmp_path / "a.npz", X=np.zeros(5000))
    content = bytearray((tmp_path / "a.npz").read_bytes())
    content[26:28] = struct.pack("<H", 30_000)  # the length of the first name
    (tmp_path / "a.npz").write_bytes(bytes(content))
    with pytest.raises(ValueError, match=r"a\.npz") as caught:
        read_arrays(tmp_path / "a.npz")
    assert len(str(caught.value)) < 1000


# --- HDF5 that leads elsewhere


def secret(tmp_path):
    (tmp_path / "secret").write_bytes(b"top secret" * 100)
    return tmp_path / "secret"


@pytest.mark.parametrize("through", [False, True], ids=["at once", "through a soft link"])
def test_an_external_link_is_refused(tmp_path, through):
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["X"] = np.ones((3, 2))
    with h5py.File(tmp_path / "a.mat", "w") as file:
        file["inner/X" if through else "X"] = h5py.ExternalLink("other.h5", "/X")
        if through:
            file["X"] = h5py.SoftLink("/inner/X")
        file["y"] = np.arange(3)
    with pytest.raises(ValueError, match=r"a\.mat.*X is a link to another place"):
        read_arrays(tmp_path / "a.mat")


def cell_of(file, **letters):
    """A MATLAB cell array `y` of one text, made as `letters` says."""
    text = file.create_dataset("#refs#/0", **letters)
    text.attrs["MATLAB_class"] = np.bytes_("char")
    file.create_dataset("y", (1, 1), dtype=h5py.ref_dtype)[0, 0] = text.ref


def test_a_cell_that_lies_in_another_file_is_refused(tmp_path):
    with h5py.File(tmp_path / "a.mat", "w") as file:
        cell_of(file, shape=(10,), dtype="u1", external=[(str(secret(tmp_path)), 0, 10)])
    with pytest.raises(ValueError, match=r"a\.mat.*y 0 lies in another file"):
        read_arrays(tmp_path / "a.mat")


def test_a_cell_larger_than_the_limit_is_refused(tmp_path):
    with h5py.File(tmp_path / "a.mat", "w") as file:
        cell_of(file, shape=(10**9,), dtype="u2", chunks=(10**6,))
    with pytest.raises(ValueError, match=r"a\.mat.*y of shape \(1, 1000000000\) takes 4000000000 bytes"):
        read_arrays(tmp_path / "a.mat")


def test_external_storage_is_refused(tmp_path):
    with h5py.File(tmp_path / "a.mat", "w") as file:
        file.create_dataset("X", (10,), "u1", external=[(str(secret(tmp_path)), 0, 10)])
    with pytest.raises(ValueError, match=r"a\.mat.*X lies in another file"):
        read_arrays(tmp_path / "a.mat")


def test_a_virtual_dataset_is_refused(tmp_path):
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["X"] = np.ones(4)
    layout = h5py.VirtualLayout(shape=(4,), dtype="f8")
    layout[:] = h5py.VirtualSource(str(tmp_path / "other.h5"), "X", shape=(4,))
    with h5py.File(tmp_path / "a.mat", "w") as file:
        file.create_virtual_dataset("X", layout)
    with pytest.raises(ValueError, match=r"a\.mat.*X lies in another file"):
        read_arrays(tmp_path / "a.mat")


# --- what readers used to stumble over
