"""Data that is not loaded: the same model, within a given memory, and NaN found all the same."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits
from threadpoolctl import threadpool_limits

import dcadl
from dcadl import DCADL, PatchRidge
from dcadl.data import image_folder
from dcadl.estimators.validation import on_disk
from dcadl.solvers import spill, walk

FAST = {"n_atoms": 8, "patch_shape": 4, "stride": 2, "max_iter": 4, "tol": 0, "random_state": 0}
ENOUGH = "150MB"  # for the work on two chunks at once, on the few cores that tests get


@pytest.fixture(scope="module")
def digits():
    """Twelve hundred digits in [0, 1] and their labels."""
    found = load_digits()
    return found.images[:1200] / 16, found.target[:1200]


@pytest.fixture
def small_chunks(monkeypatch):
    """Many chunks, of 40 images each in float64."""
    monkeypatch.setattr(walk, "CHUNK_BYTES", 40 * 9 * 16 * 8)


def as_memmap(X, folder):
    np.save(folder / "x.npy", X)
    return np.load(folder / "x.npy", mmap_mode="r")


def as_private_memmap(X, folder):
    np.save(folder / "x.npy", X)
    return np.load(folder / "x.npy", mmap_mode="c")


def as_path(X, folder):
    np.save(folder / "x.npy", X)
    return str(folder / "x.npy")


def as_hdf5(X, folder):
    h5py = pytest.importorskip("h5py", reason="h5py is not installed: pip install 'dcadl[data]'")
    return h5py.File(folder / "x.h5", "w").create_dataset("x", data=X, chunks=(100, 8, 8))


def as_zarr(X, folder):
    zarr = pytest.importorskip("zarr", reason="zarr is not installed: pip install zarr")
    stored = zarr.create_array(str(folder / "x.zarr"), shape=X.shape, chunks=(100, 8, 8), dtype=X.dtype)
    stored[:] = X
    return stored


ON_DISK = [as_memmap, as_private_memmap, as_path, as_hdf5, as_zarr]


def same_model(one, other):
    np.testing.assert_allclose(one.atoms_, other.atoms_, atol=1e-10)
    np.testing.assert_allclose(one.coef_, other.coef_, atol=1e-10)
    np.testing.assert_allclose(one.objective_, other.objective_, rtol=1e-10)


@pytest.mark.parametrize("stored", ON_DISK)
def test_data_on_disk_gives_the_model_of_data_in_memory(digits, tmp_path, stored):
    X, y = digits
    there = stored(X, tmp_path)
    same_model(DCADL(**FAST).fit(there, y), DCADL(**FAST).fit(X, y))


@pytest.mark.parametrize("stored", ON_DISK)
def test_data_on_disk_is_predicted_like_data_in_memory(digits, tmp_path, monkeypatch, stored):
    X, y = digits
    monkeypatch.setattr("dcadl.estimators.prediction.PART_BYTES", 500 * 64 * 4)  # three parts
    model, there = DCADL(**FAST).fit(X, y), stored(X, tmp_path)
    np.testing.assert_array_equal(model.predict(there), model.predict(X))
    np.testing.assert_allclose(model.decision_function(there), model.decision_function(X), atol=1e-12)
    np.testing.assert_allclose(model.transform(there), model.transform(X), atol=1e-12)


def test_a_mapped_folder_of_pictures_is_fitted_where_it_is(digits, tmp_path):
    X, y = (digits[0][:60] * 255).astype(np.uint8), digits[1][:60]
    for i, (image, label) in enumerate(zip(X, y)):
        (tmp_path / "pictures" / str(label)).mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(tmp_path / "pictures" / str(label) / f"{i:02}.png")
    folder = image_folder(tmp_path / "pictures", memmap=tmp_path / "x.npy")
    assert on_disk(folder.images)
    assert on_disk(folder.data)
    order = np.argsort(y, kind="stable")
    there, here = DCADL(**FAST).fit(folder.images, folder.target), DCADL(**FAST).fit(X[order], y[order])
    np.testing.assert_allclose(there.atoms_, here.atoms_, atol=1e-5)


def test_data_on_disk_is_read_chunk_by_chunk(digits, tmp_path, small_chunks):
    X, y = digits
    asked = []

    class Watched(np.memmap):
        def __getitem__(self, part):
            asked.append(part)
            return np.asarray(super().__getitem__(part))

    DCADL(**FAST).fit(as_memmap(X, tmp_path).view(Watched), y)
    assert max(part.stop - part.start for part in asked) == 40


@pytest.mark.parametrize("room", [0, 40 * 9 * 8 * 8 * 10, 10**9], ids=["all spilled", "some", "none"])
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_a_memory_limit_does_not_change_the_model(digits, monkeypatch, small_chunks, room, weighted):
    X, y = digits
    real = spill.CodeStore
    monkeypatch.setattr("dcadl.estimators.dcadl.out_of_core.CodeStore", lambda _: real(room))
    weight = np.linspace(0.5, 2, len(y)) if weighted else None
    within = DCADL(**FAST, max_memory=ENOUGH).fit(X, y, weight)
    same_model(within, DCADL(**FAST).fit(X, y, weight))


@pytest.mark.parametrize("lam1", [1e-3, 0.3], ids=["none rejected", "some rejected"])
@pytest.mark.parametrize("room", [0, 40 * 9 * 8 * 8 * 10], ids=["no room", "some room"])
def test_recomputed_codes_give_the_same_model(digits, monkeypatch, small_chunks, room, lam1):
    X, y = digits
    real, written = spill.CodeStore, []

    class Watched(real):
        def write(self, U, offset):
            written.append(offset)
            super().write(U, offset)

    monkeypatch.setattr("dcadl.estimators.dcadl.out_of_core.CodeStore", lambda _: Watched(room))
    parameters = FAST | {"lam1": lam1}
    within = DCADL(**parameters, max_memory=ENOUGH, overflow="recompute").fit(X, y)
    same_model(within, DCADL(**parameters).fit(X, y))
    assert bool(written) == (lam1 > 0.1)


def test_eight_bit_pixels_within_a_memory_limit_are_taken_as_they_are(digits):
    X, y = digits
    pixels = (X * 255).astype(np.uint8)
    within, plain = DCADL(**FAST, max_memory=ENOUGH).fit(pixels, y), DCADL(**FAST).fit(pixels, y)
    np.testing.assert_allclose(within.atoms_, plain.atoms_, atol=1e-4)


def test_lists_and_other_things_are_loaded_and_fitted_within_the_limit(digits):
    X, y = digits
    rows = X.reshape(len(X), -1)[:200].tolist()
    same_model(
        DCADL(**FAST, image_shape=(8, 8), max_memory=ENOUGH).fit(rows, y[:200]),
        DCADL(**FAST, image_shape=(8, 8)).fit(rows, y[:200]),
    )


def test_a_backend_reads_chunk_by_chunk_too(digits, tmp_path):
    pytest.importorskip("torch", reason="torch is not installed: pip install 'dcadl[torch]'")
    X, y = digits
    away = DCADL(**FAST, backend="torch").fit(as_memmap(X, tmp_path), y)
    np.testing.assert_allclose(away.atoms_, DCADL(**FAST).fit(X, y).atoms_, atol=1e-8)


def test_nothing_is_left_in_the_folder_for_temporary_files(digits, monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(
        "dcadl.estimators.dcadl.out_of_core.CodeStore", lambda _, real=spill.CodeStore: real(0)
    )
    DCADL(**FAST, max_memory=ENOUGH).fit(*digits)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_bad_pixel_on_disk_is_refused_with_its_place(digits, tmp_path, small_chunks, bad):
    X, y = digits[0].copy(), digits[1]
    X[730, 2, 2] = bad
    with pytest.raises(ValueError, match="NaN or infinity among images 720 to 759"):
        DCADL(**FAST).fit(as_memmap(X, tmp_path), y)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda y: y[:-1], "inconsistent numbers of samples"),
        (lambda y: y + 0.5, "Unknown label type"),
        (lambda y: np.zeros(len(y)), "at least 2 classes; got one class"),
        (lambda y: np.where(y == 1, np.nan, y), "NaN"),
        (lambda y: None, "requires y to be passed"),
    ],
    ids=["lengths", "regression", "one class", "nan", "none"],
)
def test_bad_labels_of_data_on_disk_say_what_is_wrong(digits, tmp_path, spoil, message):
    with pytest.raises(ValueError, match=message):
        DCADL(**FAST).fit(as_memmap(digits[0], tmp_path), spoil(digits[1]))


@pytest.mark.parametrize("limit", ["much", "2XB", 0, -5, True, "GB1"])
def test_a_limit_that_is_no_size_is_refused(digits, limit):
    with pytest.raises(ValueError, match="max_memory must be a size such as '2GB'"):
        DCADL(**FAST, max_memory=limit).fit(*digits)


def test_too_low_a_limit_says_what_is_needed(digits):
    with pytest.raises(ValueError, match=r"max_memory must leave room .* got 1 MB"):
        DCADL(**FAST, max_memory="1MB").fit(*digits)


@pytest.mark.parametrize("other", [{"solver": "paper"}, {"backend": "torch"}], ids=["paper", "torch"])
def test_a_limit_that_could_not_be_kept_is_refused(digits, other):
    pytest.importorskip("torch", reason="torch is not installed: pip install 'dcadl[torch]'")
    with pytest.raises(ValueError, match="max_memory is kept by solver='descent' on backend='numpy'"):
        DCADL(**FAST, **other, max_memory="1GB").fit(*digits)


def test_a_path_that_is_no_npy_file_is_refused(digits, tmp_path):
    with pytest.raises(ValueError, match=r"path of a \.npy file that exists"):
        DCADL(**FAST).fit(str(tmp_path / "nowhere.npy"), digits[1])


def peak_of_fit(X, y, **how):
    """Most bytes that a fit holds at once beyond its input."""
    model = DCADL(n_atoms=50, patch_shape=7, stride=3, max_iter=3, tol=0, random_state=0, **how)
    tracemalloc.start()
    try:
        model.fit(X, y)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("overflow", ["spill", "recompute"])
def test_a_fit_stays_within_its_memory_limit(rng, overflow):
    """Patches and codes of these images take 126 MB."""
    y = np.arange(5_000) % 4
    X = (rng.standard_normal((4, 28, 28))[y] + rng.standard_normal((5_000, 28, 28))).astype(np.float32)
    with threadpool_limits(1):  # each thread has chunks of its own
        assert peak_of_fit(X, y, max_memory="90MB", overflow=overflow) < 90e6
        assert peak_of_fit(X, y) > 120e6


def damaged_zarr(X, folder):
    stored = as_zarr(X, folder)
    chunk = next(path for path in sorted((folder / "x.zarr" / "c").rglob("*")) if path.is_file())
    chunk.write_bytes(b"no chunk at all")
    return stored


def damaged_hdf5(X, folder):
    h5py = pytest.importorskip("h5py", reason="h5py is not installed: pip install 'dcadl[data]'")
    with h5py.File(folder / "x.h5", "w") as file:
        dataset = file.create_dataset("x", data=X, chunks=(100, 8, 8), compression="gzip")
        first = dataset.id.get_chunk_info(0).byte_offset
    content = bytearray((folder / "x.h5").read_bytes())
    content[first : first + 50] = bytes(50)
    (folder / "x.h5").write_bytes(bytes(content))
    return h5py.File(folder / "x.h5")["x"]


@pytest.mark.parametrize("name", ["DCADL", "LOOADL", "PatchRidge", "DPL"])
@pytest.mark.parametrize("damaged", [damaged_zarr, damaged_hdf5])
def test_a_damaged_chunk_is_said(digits, tmp_path, damaged, name):
    X, y = digits
    there = damaged(X, tmp_path)
    with pytest.raises(ValueError, match=r"Images \d+ to \d+ of X cannot be read .*damaged"):
        getattr(dcadl, name)().fit(there, y)
    with pytest.raises(ValueError, match=r"Images 0 to \d+ of X cannot be read .*damaged"):
        PatchRidge().fit(X, y).predict(there)
