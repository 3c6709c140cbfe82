"""The named data sets in every form they come in; small copies of each layout are written here."""

import gzip
import shutil
import struct
import tarfile
import warnings
import zipfile

import numpy as np
import pytest
from scipy.io import savemat

from dcadl.data import load
from dcadl.data.registry import facts, names

pytestmark = pytest.mark.filterwarnings("ignore:.*should have:UserWarning")


@pytest.fixture
def yale(tmp_path, draw):
    """Two people with the company the real archive has."""
    home = tmp_path / "root" / "CroppedYale"
    for person in ("yaleB01", "yaleB11"):
        for light in ("A+000E+00", "A-130E+20"):
            draw(home / person / f"{person}_P00{light}.pgm", (192, 168))
        draw(home / person / f"{person}_P00_Ambient.pgm", (480, 640))
        shutil.copy(
            home / person / f"{person}_P00A+000E+00.pgm", home / person / f"{person}_P00A+050E-40.pgm.bad"
        )
        (home / person / f"{person}_P00.info").write_text("names")
        (home / person / "WS_FTP.LOG").write_text("log")
    return home


@pytest.fixture
def ar(tmp_path, draw):
    home = tmp_path / "AR_warped"
    for person in ("m-001", "w-050"):
        for i in range(1, 27):
            draw(home / f"{person}-{i:02d}.bmp", (165, 120, 3))
    return home


def test_two_people_in_the_original_layout_equal_the_matching_rows_of_the_array_file(data_root):
    with pytest.warns(UserWarning, match=r"2414 images of 38.*124 of 2.*missing people: yaleB02"):
        original = load("extended_yaleb", data_root / "cropped_yale_two_people.tar")
    stored = load("extended_yaleb", data_root)
    assert np.bincount(original.target).tolist() == [64, 60]
    row = {name: i for i, name in enumerate(stored.filenames)}
    matching = [row[name.rsplit("/")[-1]] for name in original.filenames]
    np.testing.assert_array_equal(original.images, stored.images[matching])
    np.testing.assert_array_equal(
        original.target_names[original.target], stored.target_names[stored.target[matching]]
    )


@pytest.mark.parametrize("name", ["extended_yaleb", "caltech101", "scene15", "mnist"])
def test_the_array_files_are_whole(data_root, name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bunch = load(name, data_root, kind="arrays")
    assert len(bunch.data) == len(bunch.target) == facts(name).samples
    assert len(bunch.target_names) == facts(name).classes


def test_scene15_pictures_are_whole_and_in_the_order_of_the_feature_file(data_root):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pictures = load("scene15", data_root, kind="original")
    features = load("scene15", data_root, kind="arrays")
    np.testing.assert_array_equal(pictures.target, features.target)
    assert all(p.endswith(n) for p, n in zip(pictures.data, features.filenames))


def test_digits_need_no_files(monkeypatch):
    monkeypatch.delenv("DCADL_DATA", raising=False)
    bunch = load("digits")
    assert bunch.images.shape == (1797, 8, 8)
    np.testing.assert_array_equal(bunch.data, bunch.images.reshape(1797, -1))


def test_every_description_has_source_terms_and_citation():
    described = load("digits").DESCR
    assert all(word in described for word in ("Source:", "Terms:", "Citation:"))
    assert all(facts(name).owner.startswith("http") for name in names())


@pytest.mark.parametrize("inner", ["", "CroppedYale"], ids=["folder above", "folder itself"])
def test_yale_folders_give_usable_images_only(yale, inner):
    bunch = load("extended_yaleb", yale.parent / inner)
    assert bunch.images.shape == (4, 48, 42)
    assert list(bunch.target_names) == ["yaleB01", "yaleB11"]
    assert bunch.azimuth.tolist() == [0, -130, 0, -130]
    assert bunch.elevation.tolist() == [0, 20, 0, 20]


def test_yale_zip_and_tar_equal_the_folder(yale, tmp_path):
    shutil.make_archive(str(tmp_path / "zipped" / "CroppedYale"), "zip", yale.parent)
    shutil.make_archive(str(tmp_path / "tarred" / "CroppedYale"), "gztar", yale.parent)
    folder = load("extended_yaleb", yale.parent)
    for kind in ("zipped", "tarred"):
        np.testing.assert_array_equal(load("extended_yaleb", tmp_path / kind).images, folder.images)


def test_yale_from_mat_files_in_rows(tmp_path, rng):
    X, y = rng.random((6, 20)), np.array([1, 1, 2, 2, 3, 3])
    savemat(tmp_path / "YaleB_32x32.mat", {"fea": X, "gnd": y[:, None]})
    bunch = load("extended_yaleb", tmp_path)
    np.testing.assert_array_equal(bunch.data, X)


def test_ar_is_grey_at_a_third_of_its_size(ar):
    with pytest.warns(UserWarning, match=r"incomplete people: m-002 \(0 of 26\)"):
        bunch = load("ar", ar.parent)
    assert bunch.images.shape == (52, 55, 40)
    assert list(bunch.target_names) == ["m-001", "w-050"]


def test_ar_pixels_are_area_averages_of_luma(tmp_path, draw):
    values = draw(tmp_path / "ar" / "m-001-01.bmp", (165, 120, 3))
    luma = values @ np.array([0.299, 0.587, 0.114])
    means = luma.reshape(55, 3, 40, 3).mean(axis=(1, 3))
    np.testing.assert_allclose(load("ar", tmp_path / "ar").images[0], means, atol=1.1)  # two roundings


def test_caltech_folders_give_file_names(tmp_path, draw):
    for name in ("BACKGROUND_Google", "accordion"):
        draw(tmp_path / "101_ObjectCategories" / name / "image_0001.jpg", (20, 30))
    bunch = load("caltech101", tmp_path)
    assert list(bunch.target_names) == ["BACKGROUND_Google", "accordion"]
    assert bunch.data[1].endswith("image_0001.jpg")
    assert load("caltech101", tmp_path / "101_ObjectCategories").data.tolist() == bunch.data.tolist()


def test_caltech_zip_with_its_tar_inside(tmp_path, draw):
    draw(tmp_path / "101_ObjectCategories" / "accordion" / "image_0001.jpg", (20, 30))
    with tarfile.open(tmp_path / "101_ObjectCategories.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "101_ObjectCategories", "101_ObjectCategories")
    (tmp_path / "root").mkdir()
    with zipfile.ZipFile(tmp_path / "root" / "caltech-101.zip", "w") as archive:
        archive.write(tmp_path / "101_ObjectCategories.tar.gz", "caltech-101/101_ObjectCategories.tar.gz")
        archive.writestr("__MACOSX/caltech-101/._x", "x")
    assert list(load("caltech101", tmp_path / "root").target_names) == ["accordion"]


def test_scene_classes_have_one_name_in_all_distributions(tmp_path, draw):
    for name in ("CALsuburb", "MITcoast", "PARoffice", "bedroom"):
        draw(tmp_path / "scene_categories" / name / "image_0001.jpg", (20, 30))
    bunch = load("scene15", tmp_path)
    assert sorted(bunch.target_names) == ["bedroom", "coast", "office", "suburb"]


def test_scenes_may_be_wrapped_in_an_archive(tmp_path, draw):
    for name in ("MITcoast", "bedroom"):
        draw(tmp_path / "pictures" / "all" / "scene_categories" / name / "image_0001.jpg", (20, 30))
    (tmp_path / "pictures" / "__MACOSX").mkdir()
    (tmp_path / "root").mkdir()
    shutil.make_archive(str(tmp_path / "root" / "scene_categories"), "zip", tmp_path / "pictures")
    assert sorted(load("scene15", tmp_path / "root").target_names) == ["bedroom", "coast"]


def test_scene_features_from_mat_files_in_columns(tmp_path, rng):
    X, y = rng.random((6, 20)), np.array([0, 0, 1, 1, 2, 2])
    one_hot = (np.arange(3)[:, None] == y).astype(float)
    savemat(tmp_path / "spatialpyramidfeatures4scene15.mat", {"featureMat": X.T, "labelMat": one_hot})
    bunch = load("scene15", tmp_path)
    np.testing.assert_array_equal(bunch.data, X)
    np.testing.assert_array_equal(bunch.target, y)


def write_idx(path, array):
    header = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
    path.write_bytes(gzip.compress(header + array.tobytes()))


@pytest.fixture
def mnist(tmp_path, rng):
    arrays = {}
    for part, n in (("train", 6), ("t10k", 3)):
        arrays[part] = rng.integers(0, 256, (n, 28, 28), dtype=np.uint8), np.arange(n, dtype=np.uint8) % 3
        write_idx(tmp_path / f"{part}-images-idx3-ubyte.gz", arrays[part][0])
        write_idx(tmp_path / f"{part}-labels-idx1-ubyte.gz", arrays[part][1])
    return tmp_path, arrays


def test_mnist_in_its_own_format(mnist):
    folder, arrays = mnist
    bunch = load("mnist", folder)
    np.testing.assert_array_equal(bunch.images, np.concatenate([arrays["train"][0], arrays["t10k"][0]]))
    assert bunch.train_size == 6


def test_a_cut_mnist_file_is_named(mnist):
    folder, _ = mnist
    path = folder / "t10k-images-idx3-ubyte.gz"
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes())[:-5]))
    with pytest.raises(ValueError, match=r"t10k-images-idx3-ubyte\.gz is cut short"):
        load("mnist", folder)


def test_a_missing_set_says_what_should_be_where_and_who_has_it(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"m-001-01\.bmp.*ohio-state"):
        load("ar", tmp_path)


def test_without_a_folder_the_variable_is_named(monkeypatch):
    monkeypatch.delenv("DCADL_DATA", raising=False)
    with pytest.raises(FileNotFoundError, match="DCADL_DATA"):
        load("ar")


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"folder not found: .*nowhere"):
        load("ar", tmp_path / "nowhere")


def test_unknown_names_and_kinds_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"extended_yaleb, ar.*'imagenet'"):
        load("imagenet", tmp_path)
    with pytest.raises(ValueError, match="kind"):
        load("ar", tmp_path, kind="pickles")


def test_a_file_of_another_kind_is_refused(tmp_path):
    (tmp_path / "x.csv").write_text("1")
    with pytest.raises(ValueError, match=r"x\.csv"):
        load("ar", tmp_path / "x.csv")
