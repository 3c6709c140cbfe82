"""Labelled data a user names: .npz, .mat of both kinds and both layouts, folders, archives."""

import zipfile

import numpy as np
import pytest
from scipy.io import savemat
from scipy.sparse import csc_matrix

from dcadl.data import read_labelled

h5py = pytest.importorskip("h5py", reason="MATLAB v7.3 files need the extra `data`")


@pytest.fixture
def samples(rng):
    """Seven rows of five features in three classes."""
    return rng.random((7, 5)), np.array([3, 1, 1, 2, 3, 2, 1])


def write_v73(path, **arrays):
    """As MATLAB writes them: columns first, and its own header before the signature."""
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, array in arrays.items():
            file[name] = np.asarray(array).T
    with path.open("r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file".ljust(512, b" "))


def one_hot_columns(y):
    return (np.unique(y)[:, None] == y[None, :]).astype(float)


@pytest.mark.parametrize("x_name", ["images", "X", "data", "features", "fea"])
@pytest.mark.parametrize("y_name", ["labels", "y", "target", "gnd"])
def test_npz_files_are_read_under_the_common_names(tmp_path, samples, x_name, y_name):
    X, y = samples
    np.savez(tmp_path / "a.npz", **{x_name: X, y_name: y})
    bunch = read_labelled(tmp_path / "a.npz")
    np.testing.assert_array_equal(bunch.data, X)
    np.testing.assert_array_equal(bunch.target, y - 1)
    assert list(bunch.target_names) == ["1", "2", "3"]


@pytest.mark.parametrize("write", [lambda p, **a: savemat(p, a), write_v73], ids=["v5", "v7.3"])
def test_mat_files_with_samples_in_columns(tmp_path, samples, write):
    X, y = samples
    write(tmp_path / "a.mat", featureMat=X.T, labelMat=one_hot_columns(y))
    bunch = read_labelled(tmp_path / "a.mat")
    np.testing.assert_array_equal(bunch.data, X)
    np.testing.assert_array_equal(bunch.target, y - 1)


@pytest.mark.parametrize("write", [lambda p, **a: savemat(p, a), write_v73], ids=["v5", "v7.3"])
def test_mat_files_with_samples_in_rows(tmp_path, samples, write):
    X, y = samples
    write(tmp_path / "a.mat", fea=X, gnd=y[:, None].astype(float))
    bunch = read_labelled(tmp_path / "a.mat")
    np.testing.assert_array_equal(bunch.data, X)
    np.testing.assert_array_equal(bunch.target, y - 1)


def test_square_matrices_are_told_apart_by_their_name(tmp_path, rng):
    X, y = rng.random((4, 4)), np.array([0, 1, 0, 1])
    savemat(tmp_path / "columns.mat", {"featureMat": X, "labels": y})
    savemat(tmp_path / "rows.mat", {"fea": X, "gnd": y})
    np.testing.assert_array_equal(read_labelled(tmp_path / "columns.mat").data, X.T)
    np.testing.assert_array_equal(read_labelled(tmp_path / "rows.mat").data, X)


def test_matlab_stacks_of_pictures_have_the_sample_last(tmp_path, rng):
    images = rng.random((6, 8, 5))
    savemat(tmp_path / "a.mat", {"images": images, "labels": [0, 1, 0, 1, 1]})
    np.testing.assert_array_equal(read_labelled(tmp_path / "a.mat").images, np.moveaxis(images, -1, 0))


def test_sparse_mat_files_become_dense(tmp_path, samples):
    X, y = samples
    savemat(tmp_path / "a.mat", {"fea": csc_matrix(X), "gnd": y})
    np.testing.assert_array_equal(read_labelled(tmp_path / "a.mat").data, X)


def test_string_labels_and_class_names_are_kept(tmp_path, rng):
    X = rng.random((3, 2))
    np.savez(tmp_path / "a.npz", X=X, y=np.array(["emu", "ant", "emu"]))
    np.savez(tmp_path / "b.npz", X=X, y=[1, 0, 1], class_names=np.array(["zebra", "ant"]))
    assert list(read_labelled(tmp_path / "a.npz").target_names) == ["ant", "emu"]
    assert list(read_labelled(tmp_path / "b.npz").target_names) == ["zebra", "ant"]


def test_training_and_test_parts_are_joined_in_order(tmp_path, rng):
    parts = {
        "x_train": rng.random((4, 3)),
        "y_train": [0, 1, 0, 1],
        "x_test": rng.random((2, 3)),
        "y_test": [1, 0],
    }
    np.savez(tmp_path / "a.npz", **parts)
    bunch = read_labelled(tmp_path / "a.npz")
    assert bunch.train_size == 4
    np.testing.assert_array_equal(bunch.data, np.concatenate([parts["x_train"], parts["x_test"]]))


@pytest.mark.parametrize("shape", [(-1,), (1, -1)], ids=["vector", "row"])
def test_a_boolean_mask_tells_the_training_part(tmp_path, samples, shape):
    X, y = samples
    mask = np.arange(7) % 3 == 0
    np.savez(tmp_path / "a.npz", features=X, labels=y, train=mask.reshape(shape))
    bunch = read_labelled(tmp_path / "a.npz")
    np.testing.assert_array_equal(bunch.train, mask)
    np.testing.assert_array_equal(bunch.data, X)


@pytest.mark.parametrize(
    "train",
    [np.ones(7, bool), np.zeros(7, bool), np.arange(7), np.array(True)],
    ids=["all", "none", "0…6", "()"],
)
def test_what_tells_no_two_parts_apart_is_no_mask(tmp_path, samples, train):
    X, y = samples
    np.savez(tmp_path / "a.npz", features=X, labels=y, train=train)
    assert "train" not in read_labelled(tmp_path / "a.npz")


def test_pictures_in_arrays_are_resized(tmp_path, rng):
    np.savez(tmp_path / "a.npz", images=rng.integers(0, 256, (3, 8, 6), dtype=np.uint8), labels=[0, 1, 0])
    assert read_labelled(tmp_path / "a.npz", size=(4, 3)).images.shape == (3, 4, 3)


def test_rows_are_folded_into_pictures_of_the_size_given(tmp_path, rng):
    X = rng.random((3, 12))
    np.savez(tmp_path / "a.npz", X=X, y=[0, 1, 0])
    np.testing.assert_array_equal(read_labelled(tmp_path / "a.npz", size=(4, 3)).images, X.reshape(3, 4, 3))
    with pytest.raises(ValueError, match="12"):
        read_labelled(tmp_path / "a.npz", size=(5, 5))


def test_half_precision_is_for_files_only(tmp_path, rng):
    X = rng.random((3, 4)).astype(np.float16)
    np.savez(tmp_path / "a.npz", features=X, labels=[0, 1, 0])
    data = read_labelled(tmp_path / "a.npz").data
    assert data.dtype == np.float32
    np.testing.assert_array_equal(data, X)


def test_pickled_objects_are_never_loaded(tmp_path):
    np.savez(tmp_path / "a.npz", X=np.array([{"evil": 1}], dtype=object), y=[0])
    with pytest.raises(ValueError, match="pickled"):
        read_labelled(tmp_path / "a.npz")


@pytest.mark.parametrize("suffix", ["npz", "mat"])
def test_damaged_files_are_named(tmp_path, suffix):
    (tmp_path / f"a.{suffix}").write_bytes(b"PK\x03\x04 this is not what it claims to be" * 20)
    with pytest.raises(ValueError, match=rf"a\.{suffix}"):
        read_labelled(tmp_path / f"a.{suffix}")


def test_a_damaged_v73_file_is_named(tmp_path):
    (tmp_path / "a.mat").write_bytes(b"MATLAB 7.3 MAT-file".ljust(512) + b"\x89HDF\r\n\x1a\n" + b"x" * 99)
    with pytest.raises(ValueError, match=r"a\.mat"):
        read_labelled(tmp_path / "a.mat")


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"y": [0, 1]}, "no samples.*found y"),
        ({"X": np.ones((2, 3))}, "no labels.*found X"),
        ({"X": np.ones((2, 3)), "y": [0, 1, 0, 1]}, "4 samples.*got shape"),
        ({"X": np.full((2, 3), np.nan), "y": [0, 1]}, "NaN"),
        ({"X": np.array([["a"], ["b"]]), "y": [0, 1]}, "must hold numbers"),
        ({"X": np.ones((2, 3)), "y": [0.5, 1]}, "integers or strings"),
        ({"X": np.ones((2, 3)), "y": [0, 5], "class_names": ["a", "b"]}, "labels must lie in 0..1"),
        ({"X": np.ones((2, 3)), "y": [0, 1], "class_names": ["a", "a"]}, "distinct; repeated: a"),
        ({"X": np.ones((2, 3)), "y": np.full((2, 2), 0.0)}, "one-hot"),
        ({"X": np.ones((0, 3)), "y": np.zeros(0)}, "at least one"),
        ({"X": np.ones((2, 3)), "y": [0, 1], "train": [True, False, True]}, r"train must.*\(3,\)"),
    ],
)
def test_arrays_that_do_not_fit_say_why(tmp_path, arrays, message):
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(ValueError, match=message):
        read_labelled(tmp_path / "a.npz")


def test_a_folder_and_its_zip_give_the_same(pets, tmp_path):
    with zipfile.ZipFile(tmp_path / "pets.zip", "w") as archive:
        for file in sorted(pets.rglob("*.png")):
            archive.write(file, file.relative_to(pets))
    folder, zipped = read_labelled(pets), read_labelled(tmp_path / "pets.zip")
    np.testing.assert_array_equal(folder.data, zipped.data)
    np.testing.assert_array_equal(folder.target, zipped.target)


def test_a_zip_as_macos_writes_it_gives_the_same(pets, tmp_path):
    with zipfile.ZipFile(tmp_path / "pets.zip", "w") as archive:
        for file in sorted(pets.rglob("*.png")):
            archive.write(file, file.relative_to(pets.parent))
            archive.writestr(f"__MACOSX/pets/{file.parent.name}/._{file.name}", b"x")
    folder, zipped = read_labelled(pets), read_labelled(tmp_path / "pets.zip")
    np.testing.assert_array_equal(folder.data, zipped.data)
    assert list(zipped.target_names) == ["cat", "dog"]
    assert zipped.ignored == zipped.loose == []


def test_other_files_are_refused_and_missing_ones_named(tmp_path):
    (tmp_path / "a.csv").write_text("1,2")
    with pytest.raises(ValueError, match=r"\.npz"):
        read_labelled(tmp_path / "a.csv")
    with pytest.raises(FileNotFoundError, match="nowhere"):
        read_labelled(tmp_path / "nowhere")
