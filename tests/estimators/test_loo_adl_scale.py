"""LOO-ADL beyond one array in memory: disk, clusters and limits give the model of one machine."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest
from after_passes import AfterPasses
from sklearn.datasets import load_digits

from dcadl import LOOADL
from dcadl.estimators.loo_adl import choice
from dcadl.estimators.loo_adl import learn as learning
from dcadl.solvers import loo_adl

QUICK = {"patch_shape": 3, "normalize": "whitened", "pool": (2,), "n_atoms": 4, "max_iter": 2}


@pytest.fixture(scope="module")
def digits():
    """Six hundred digits in [0, 1], some of them twice, and their labels."""
    found = load_digits()
    X, y = found.images[:600] / 16, found.target[:600]
    return np.concatenate([X, X[:40]]), np.concatenate([y, y[:40]])


@pytest.fixture
def summed(monkeypatch):
    """Sums instead of features, as beyond some ten thousand images."""
    monkeypatch.setattr(learning, "FEATURE_BYTES", 0)
    monkeypatch.setattr(learning, "LEARNING_IMAGES", 200)
    monkeypatch.setattr(learning, "JUDGED_IMAGES", 200)
    monkeypatch.setattr(learning, "SUMMED_IMAGES", 64)


def assert_same_model(one, other):
    for name in ("classes_", "atoms_", "coef_", "intercept_", "objective_"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), atol=1e-8)
    assert one.expected_accuracy_ == other.expected_accuracy_


def spread(X, y, size=150):
    da = pytest.importorskip("dask.array", reason="dask is not installed: pip install 'dcadl[dask]'")
    return da.from_array(X, chunks=(size, *X.shape[1:])), da.from_array(y, chunks=size)


def cluster_of(n, processes=False):
    distributed = pytest.importorskip("distributed", reason="distributed is not installed")
    return distributed.Client(
        n_workers=n, threads_per_worker=1, processes=processes, dashboard_address=":0", set_as_default=True
    )


@pytest.mark.parametrize("size", [150, 40], ids=["blocks", "a block of copies alone"])
def test_a_cluster_gives_the_model_of_one_machine(digits, summed, size):
    X, y = digits
    weight = np.linspace(0.5, 2, len(y))
    with cluster_of(2):
        there = LOOADL(**QUICK, random_state=0).fit(*spread(X, y, size), weight)

    assert_same_model(there, LOOADL(**QUICK, random_state=0).fit(X, y, weight))


def test_a_worker_that_dies_takes_nothing_with_it(digits, summed, monkeypatch):
    real = learning.last_ridge

    with cluster_of(2, processes=True) as client:
        victim = next(iter(client.run(os.getpid).values()))

        def after_a_kill(*given):
            os.kill(victim, signal.SIGKILL)
            return real(*given)

        monkeypatch.setattr(learning, "last_ridge", after_a_kill)
        survived = LOOADL(**QUICK, random_state=0).fit(*spread(*digits))
        assert victim not in client.run(os.getpid).values()

    monkeypatch.setattr(learning, "last_ridge", real)
    assert_same_model(survived, LOOADL(**QUICK, random_state=0).fit(*digits))


def test_what_a_cluster_does_not_support_is_refused(digits):
    with pytest.raises(ValueError, match="without max_memory"):
        LOOADL(max_memory="1GB").fit(*spread(*digits))


def test_without_a_client_the_way_out_is_named(digits):
    with pytest.raises(ValueError, match=r"make one with dask\.distributed\.Client"):
        LOOADL().fit(*spread(*digits))


def test_a_limit_that_features_exceed_has_them_summed_up(digits, monkeypatch):
    X, y = digits
    monkeypatch.setattr(learning, "LEARNING_IMAGES", 0)  # so that all are judged
    monkeypatch.setattr(learning, "SUMMED_IMAGES", 64)
    D = 2 * QUICK["n_atoms"] * 4
    limit = learning.FEATURE_COPIES * 4 * D * 600 - 1  # enough for sums
    plain = {**QUICK, "learn": False, "random_state": 0}

    assert not learning.keeps_features(600, D, limit)
    assert_same_model(LOOADL(**plain, max_memory=limit).fit(X, y), LOOADL(**plain).fit(X, y))


def test_a_limit_without_room_for_the_sums_is_refused(digits):
    with pytest.raises(ValueError, match="max_memory must leave room for 32 features"):
        LOOADL(**QUICK, max_memory=30_000).fit(*digits)


def as_hdf5(X, folder):
    h5py = pytest.importorskip("h5py", reason="h5py is not installed: pip install 'dcadl[data]'")
    return h5py.File(folder / "x.h5", "w").create_dataset("x", data=X, chunks=(100, 8, 8))


def as_zarr(X, folder):
    zarr = pytest.importorskip("zarr", reason="zarr is not installed: pip install zarr")
    return zarr.create_array(str(folder / "x.zarr"), data=X, chunks=(100, 8, 8))


@pytest.mark.parametrize("stored", [as_hdf5, as_zarr])
def test_hdf5_and_zarr_give_the_model_of_an_array(digits, summed, tmp_path, stored):
    X, y = digits
    there, model = stored(X, tmp_path), LOOADL(**QUICK, random_state=0).fit(X, y)

    assert_same_model(LOOADL(**QUICK, random_state=0).fit(there, y), model)
    np.testing.assert_allclose(model.decision_function(there), model.decision_function(X), atol=1e-12)


def broken_off(model, passes, X, y, path):
    """A fit that is interrupted after some passes."""

    def pull_the_plug():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model.set_callbacks(AfterPasses(passes, pull_the_plug)).fit(X, y, checkpoint=path)


@pytest.mark.parametrize("passes", [1, 3])
def test_a_resumed_fit_ends_with_the_undisturbed_model(digits, tmp_path, passes, monkeypatch):
    X, y = digits[0].astype(np.float32), digits[1]
    how = QUICK | {"max_iter": 4, "tol": 0}
    undisturbed = LOOADL(**how, random_state=0).fit(X, y)
    broken_off(LOOADL(**how, random_state=0), passes, X, y, tmp_path / "c")
    monkeypatch.setattr(choice, "choose", None)  # neither choice nor halves are made again
    monkeypatch.setattr(learning, "_cross_fitted", None)
    made, step = [], loo_adl.step
    monkeypatch.setattr(loo_adl, "step", lambda *given: made.append(1) or step(*given))

    resumed = LOOADL(**how, random_state=0).fit(X, y, checkpoint=tmp_path / "c")

    assert len(made) == 4 - passes
    undisturbed.save(tmp_path / "one")
    resumed.save(tmp_path / "other")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()


def test_a_checkpoint_of_another_fit_or_a_damaged_one_is_refused(digits, tmp_path):
    X, y = digits
    path = tmp_path / "c"
    LOOADL(**QUICK, random_state=0).fit(X, y, checkpoint=path)
    other = X.copy()
    other[5, 3, 3] += 0.5
    for model, images in ((LOOADL(**QUICK, random_state=1), X), (LOOADL(**QUICK, random_state=0), other)):
        with pytest.raises(ValueError, match="other data or parameters"):
            model.fit(images, y, checkpoint=path)
    whole = path.read_bytes()
    for place in (len(whole) - 3, whole.index(b"identity"), whole.index(b"max_iter"), whole.index(b"digest")):
        raw = bytearray(whole)
        raw[place] ^= 1
        path.write_bytes(raw)
        with pytest.raises(ValueError, match=r"damaged.*[Dd]elete it"):
            LOOADL(**QUICK, random_state=0).fit(X, y, checkpoint=path)


def test_a_checkpoint_without_a_folder_is_refused_in_the_words_that_were_given(digits, tmp_path):
    with pytest.raises(ValueError, match=r"nowhere/c must be a file in a folder that exists"):
        LOOADL(**QUICK).fit(*digits, checkpoint=tmp_path / "nowhere" / "c")
