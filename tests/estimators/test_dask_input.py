"""DCADL on dask arrays: the model of one machine, data that stays away, and workers that die."""

from __future__ import annotations

import os
import re
import signal

import numpy as np
import pytest
from after_passes import AfterPasses
from sklearn.datasets import load_digits

from dcadl import DCADL
from dcadl.solvers import code_ridge, dask_watch

da = pytest.importorskip("dask.array", reason="dask is not installed: pip install 'dcadl[dask]'")
distributed = pytest.importorskip("distributed", reason="distributed is not installed")

FAST = {
    "n_atoms": 8,
    "patch_shape": 4,
    "stride": 2,
    "normalize": "patch",
    "max_iter": 4,
    "tol": 0,
    "random_state": 0,
}


@pytest.fixture(scope="module")
def digits():
    """Twelve hundred digits in [0, 1] and their labels."""
    found = load_digits()
    return found.images[:1200] / 16, found.target[:1200]


def cluster_of(n, processes=False):
    return distributed.Client(
        n_workers=n, threads_per_worker=1, processes=processes, dashboard_address=":0", set_as_default=True
    )


@pytest.fixture(scope="module")
def client():
    """Two workers in this process."""
    with cluster_of(2) as client:
        yield client


def spread(X, y, size=170):
    return da.from_array(X, chunks=(size, *X.shape[1:])), da.from_array(y, chunks=size)


def assert_same_model(one, other):
    np.testing.assert_array_equal(one.classes_, other.classes_)
    for name in ("atoms_", "coef_", "intercept_"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), atol=1e-8)
    np.testing.assert_allclose(one.objective_, other.objective_, rtol=1e-8)


def test_without_a_client_the_way_out_is_named(digits):
    with pytest.raises(ValueError, match=r"make one with dask\.distributed\.Client"):
        DCADL(**FAST).fit(*spread(*digits))


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_any_number_of_workers_gives_the_model_of_one_machine(digits, workers):
    with cluster_of(workers):
        model = DCADL(**FAST).fit(*spread(*digits))
    assert_same_model(model, DCADL(**FAST).fit(*digits))


@pytest.mark.parametrize(
    "class_weight", [None, "balanced", {3: 2.0, 8: 0.5}], ids=["none", "balanced", "dict"]
)
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_weights_count_as_on_one_machine(client, digits, class_weight, weighted):
    X, y = digits
    weight = np.linspace(0.5, 2, len(y)) if weighted else None
    model = DCADL(**FAST, class_weight=class_weight)
    assert_same_model(model.fit(*spread(X, y), weight), DCADL(**model.get_params()).fit(X, y, weight))


def test_names_as_labels_chunks_of_any_kind_and_labels_in_memory_are_taken(client, digits):
    X, y = digits
    names = np.array(list("jihgfedcba"))[y]
    there = da.from_array(X, chunks=((1000, 1, 199), 3, 8))
    assert_same_model(DCADL(**FAST).fit(there, names), DCADL(**FAST).fit(X, names))


@pytest.mark.parametrize("refit", [False, True])
def test_of_more_images_no_more_comes_home(client, digits, monkeypatch, refit):
    monkeypatch.setattr(code_ridge, "FEW_IMAGES", 100)
    monkeypatch.setattr(code_ridge, "JUDGES", 60)
    X, y = digits
    came = []
    gather, result = distributed.Client.gather, distributed.Future.result
    note = lambda found: came.append(distributed.protocol.pickle.dumps(found)) or found  # noqa: E731
    monkeypatch.setattr(distributed.Client, "gather", lambda *a, **k: note(gather(*a, **k)))
    monkeypatch.setattr(distributed.Future, "result", lambda *a, **k: note(result(*a, **k)))
    few, many = spread(X[:600], y[:600], 300), spread(np.tile(X, (4, 1, 1)), np.tile(y, 4), 2400)
    DCADL(**FAST, refit=refit).fit(*few)
    from_few, _ = sum(map(len, came)), came.clear()
    DCADL(**FAST, refit=refit).fit(*many)
    assert sum(map(len, came)) < 1.1 * from_few


@pytest.mark.parametrize("classes", [2, 10])
def test_predictions_are_lazy_and_those_of_one_machine(client, digits, classes):
    X, y = digits[0], digits[1] % classes
    there, _ = spread(X, y)
    model = DCADL(**FAST).fit(X, y)
    for method in (model.predict, model.decision_function, model.transform):
        lazy = method(there)
        assert isinstance(lazy, da.Array)
        assert lazy.chunks[0] == there.chunks[0]
        expected = method(X)
        assert (lazy.shape, lazy.dtype) == (expected.shape, expected.dtype)
        np.testing.assert_allclose(lazy.compute(), expected, atol=1e-12)


def test_a_worker_killed_in_mid_fit_changes_nothing(digits):
    with cluster_of(2, processes=True) as client:
        undisturbed = DCADL(**FAST).fit(*spread(*digits))
        victim = next(iter(client.run(os.getpid).values()))
        killer = AfterPasses(2, lambda: os.kill(victim, signal.SIGKILL))
        survived = DCADL(**FAST).set_callbacks(killer).fit(*spread(*digits))
        assert victim not in client.run(os.getpid).values()
    np.testing.assert_array_equal(survived.atoms_, undisturbed.atoms_)
    np.testing.assert_array_equal(survived.coef_, undisturbed.coef_)
    np.testing.assert_array_equal(survived.objective_, undisturbed.objective_)


@pytest.fixture
def impatient(monkeypatch):
    """Half a second without a sign of life is too long."""
    monkeypatch.setattr(dask_watch, "LOOK", 0.1)
    monkeypatch.setattr(dask_watch, "PATIENCE", 0.5)


def test_a_cluster_without_workers_is_said(digits, impatient):
    with cluster_of(0), pytest.raises(ConnectionError, match=r"has had no worker for 0\.5 s"):
        DCADL(**FAST).fit(*spread(*digits))


def test_a_scheduler_lost_in_mid_fit_is_said_in_one_line(digits, impatient):
    options = {"n_workers": 1, "threads_per_worker": 1, "processes": False, "dashboard_address": ":0"}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster.scheduler_address):
        lost = AfterPasses(2, cluster.close)
        with pytest.raises(ConnectionError, match=r"scheduler at \S+ is lost") as caught:
            DCADL(**FAST | {"max_iter": 1000, "tol": 0}).set_callbacks(lost).fit(*spread(*digits))
    assert "\n" not in str(caught.value)


def test_images_are_named_by_their_number_in_the_whole_array(client, digits):
    X, y = digits
    X = X.copy()
    X[1100] = np.inf
    with pytest.raises(ValueError, match="among images") as caught:
        DCADL(**FAST).fit(*spread(X, y))
    first, last = map(int, re.search(r"images (\d+) to (\d+)", str(caught.value)).groups())
    assert 1020 <= first <= 1100 <= last < 1200  # chunks have 170 images: the seventh begins at 1020


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda X, y: (da.where(X > 0.99, np.nan, X), y), "NaN or infinity"),
        (lambda X, y: (X, y[:-1]), "inconsistent numbers of samples"),
        (lambda X, y: (X, y + 0.5), "Unknown label type"),
        (lambda X, y: (X, 0 * y), "at least 2 classes"),
        (lambda X, y: (X[:0], y[:0]), "0 sample"),
        (lambda X, y: (X[X[:, 4, 4] > 0.5], y), "unknown sizes"),
        (lambda X, y: (X[:, 0, 0], y), "must hold rows"),
    ],
    ids=["nan", "lengths", "regression", "one class", "empty", "unknown", "one axis"],
)
def test_bad_dask_arrays_say_what_is_wrong(client, digits, spoil, message):
    with pytest.raises(ValueError, match=message):
        DCADL(**FAST).fit(*spoil(*spread(*digits)))


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (-1.0, "sample_weight must not be negative"),
        (0.0, "must not be zero"),
        (np.nan, "NaN"),
        (1e300, "lie between"),
        (1e-300, "lie between"),
    ],
)
def test_bad_weights_are_refused(client, digits, weight, message):
    with pytest.raises(ValueError, match=message):
        DCADL(**FAST).fit(*spread(*digits), np.full(1200, weight))


@pytest.mark.parametrize("other", [{"solver": "paper"}, {"max_memory": "1GB"}])
def test_what_a_cluster_cannot_do_is_refused(client, digits, other):
    with pytest.raises(ValueError, match="Dask arrays are fitted with solver='descent'"):
        DCADL(**FAST | other).fit(*spread(*digits))
