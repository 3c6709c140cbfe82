"""Checkpoints: a fit that was killed goes on, and ends as if nothing had happened."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from after_passes import AfterPasses
from sklearn.datasets import load_digits

from dcadl import DCADL
from dcadl.estimators.dcadl import checkpoint
from dcadl.solvers import descent, spill

FAST = {"n_atoms": 8, "patch_shape": 4, "stride": 2, "max_iter": 6, "tol": 0, "random_state": 0}


@pytest.fixture(scope="module")
def digits():
    """Four hundred digits in [0, 1] and their labels."""
    found = load_digits()
    return found.images[:400] / 16, found.target[:400]


@pytest.fixture(autouse=True)
def every_pass(monkeypatch):
    """Write after every pass."""
    monkeypatch.setattr(checkpoint, "WRITE_SPACING", 0)


def pull_the_plug():
    raise KeyboardInterrupt


def broken_off(model, passes, X, y, **how):
    with pytest.raises(KeyboardInterrupt):
        model.set_callbacks(AfterPasses(passes, pull_the_plug)).fit(X, y, **how)


def assert_same_to_the_bit(one, other):
    for name in ("atoms_", "coef_", "intercept_", "objective_"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert one.n_iter_ == other.n_iter_


@pytest.mark.parametrize("passes", [1, 2, 5, 6])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_resumed_fit_ends_with_the_undisturbed_model(digits, tmp_path, passes, dtype):
    X, y = digits[0].astype(dtype), digits[1]
    broken_off(DCADL(**FAST), passes, X, y, checkpoint=tmp_path / "c")
    assert_same_to_the_bit(DCADL(**FAST).fit(X, y, checkpoint=tmp_path / "c"), DCADL(**FAST).fit(X, y))


def test_a_resumed_fit_does_not_repeat_passes(digits, tmp_path, monkeypatch):
    broken_off(DCADL(**FAST), 4, *digits, checkpoint=tmp_path / "c")
    made, step = [], descent.step
    monkeypatch.setattr(descent, "step", lambda *given: made.append(1) or step(*given))
    DCADL(**FAST).fit(*digits, checkpoint=tmp_path / "c")
    assert len(made) == 2


@pytest.mark.bits
def test_a_fit_that_was_done_is_done_at_once_and_alike(digits, tmp_path):
    tolerant = FAST | {"max_iter": 200, "tol": 2e-2}
    first = DCADL(**tolerant).fit(*digits, checkpoint=tmp_path / "c")
    assert 2 < first.n_iter_ < 200
    assert_same_to_the_bit(DCADL(**tolerant).fit(*digits, checkpoint=tmp_path / "c"), first)


@pytest.mark.bits
@pytest.mark.parametrize("passes", [2, 7, 11])  # before the first look, and before and after the best pass
def test_a_resumed_fit_ends_where_its_error_ends_an_undisturbed_one(digits, tmp_path, passes):
    tolerant = FAST | {"max_iter": 200, "tol": 2e-2}
    whole = DCADL(**tolerant).fit(*digits)
    assert whole.best_iter_ < whole.n_iter_ < 200
    broken_off(DCADL(**tolerant), passes, *digits, checkpoint=tmp_path / "c")
    resumed = DCADL(**tolerant).fit(*digits, checkpoint=tmp_path / "c")
    assert_same_to_the_bit(resumed, whole)
    assert (resumed.best_iter_, resumed.refit_lam_) == (whole.best_iter_, whole.refit_lam_)
    assert len(resumed.objective_) == 3 * resumed.n_iter_  # of all passes, before and after


def test_spilled_codes_and_weights_are_resumed_too(digits, tmp_path, monkeypatch):
    X, y = digits
    monkeypatch.setattr(
        "dcadl.estimators.dcadl.out_of_core.CodeStore", lambda _, real=spill.CodeStore: real(0)
    )
    weight = np.linspace(0.5, 2, len(y))
    how = {"checkpoint": tmp_path / "c", "sample_weight": weight}
    broken_off(DCADL(**FAST, max_memory="1GB"), 3, X, y, **how)
    resumed = DCADL(**FAST, max_memory="1GB").fit(X, y, **how)
    assert_same_to_the_bit(resumed, DCADL(**FAST, max_memory="1GB").fit(X, y, weight))


def test_a_fit_may_go_on_elsewhere(digits, tmp_path):
    pytest.importorskip("torch", reason="torch is not installed: pip install 'dcadl[torch]'")
    broken_off(DCADL(**FAST), 3, *digits, checkpoint=tmp_path / "c")
    away = DCADL(**FAST, backend="torch").fit(*digits, checkpoint=tmp_path / "c")
    np.testing.assert_allclose(away.atoms_, DCADL(**FAST).fit(*digits).atoms_, atol=1e-8)


def test_a_write_that_breaks_off_leaves_the_last_checkpoint(digits, tmp_path, monkeypatch):
    broken_off(DCADL(**FAST), 2, *digits, checkpoint=tmp_path / "c")
    before = (tmp_path / "c").read_bytes()
    monkeypatch.setattr("os.fsync", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        DCADL(**FAST).fit(*digits, checkpoint=tmp_path / "c")
    assert (tmp_path / "c").read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["c"]


@pytest.mark.parametrize(
    ("parameters", "spoil"),
    [
        ({"lam1": 0.1}, lambda X, y: (X, y)),
        ({"random_state": 1}, lambda X, y: (X, y)),
        ({}, lambda X, y: (X, y[::-1])),
        ({}, lambda X, y: (X[::-1] ** 2, y)),
        ({}, lambda X, y: (X[::-1], y)),
        ({}, lambda X, y: (-X, y)),
        ({}, lambda X, y: (X[:300], y[:300])),
        ({}, lambda X, y: (X.astype(np.float32), y)),
    ],
    ids=["parameter", "seed", "labels", "images", "order", "sign", "fewer", "precision"],
)
def test_a_checkpoint_of_another_fit_is_refused(digits, tmp_path, parameters, spoil):
    broken_off(DCADL(**FAST), 2, *digits, checkpoint=tmp_path / "c")
    with pytest.raises(ValueError, match="other data or parameters; delete it"):
        DCADL(**FAST | parameters).fit(*spoil(*digits), checkpoint=tmp_path / "c")


def test_two_images_that_changed_places_are_noticed(digits, tmp_path):
    """Of one class, and with codes that are mostly zero: neither labels nor codes tell them apart."""
    X, y = digits
    params = FAST | {"lam1": 0.3}
    broken_off(DCADL(**params), 2, X, y, checkpoint=tmp_path / "c")
    places = np.arange(len(y))
    one, other = np.flatnonzero(y == y[0])[:2]
    places[[one, other]] = other, one
    with pytest.raises(ValueError, match="other data or parameters; delete it"):
        DCADL(**params).fit(X[places], y, checkpoint=tmp_path / "c")


@pytest.mark.parametrize("content", [b"", b"some text that is no checkpoint", b"\0" * 100])
def test_a_file_that_is_no_checkpoint_is_refused_and_kept(digits, tmp_path, content):
    (tmp_path / "c").write_bytes(content)
    with pytest.raises(ValueError, match="is no checkpoint of dcadl"):
        DCADL(**FAST).fit(*digits, checkpoint=tmp_path / "c")
    assert (tmp_path / "c").read_bytes() == content


def test_a_model_file_is_no_checkpoint(digits, tmp_path):
    DCADL(**FAST).fit(*digits).save(tmp_path / "m")
    with pytest.raises(ValueError, match="is no checkpoint of dcadl"):
        DCADL(**FAST).fit(*digits, checkpoint=tmp_path / "m")


def test_a_checkpoint_without_a_folder_is_refused_before_the_fit(digits, tmp_path):
    with pytest.raises(ValueError, match="checkpoint must name a file in a folder that exists"):
        DCADL(**FAST).fit(*digits, checkpoint=tmp_path / "nowhere" / "c")


def test_the_papers_solver_knows_no_checkpoints(digits, tmp_path):
    with pytest.raises(ValueError, match="neither weights nor checkpoints"):
        DCADL(**FAST, solver="paper").fit(*digits, checkpoint=tmp_path / "c")


KILLED = """
import os, signal, sys
from sklearn.datasets import load_digits
from dcadl import DCADL
from dcadl.estimators.dcadl import checkpoint
checkpoint.WRITE_SPACING = 0
checkpoint_path, model_path, place, last = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
writes, move = [], os.replace

def wait_for_the_end():
    print("here", flush=True)
    signal.pause()

def replace(part, path):
    writes.append(path)
    if place == "before" and len(writes) == last:
        wait_for_the_end()
    move(part, path)
    if place == "after" and len(writes) == last:
        wait_for_the_end()

os.replace = replace
found = load_digits()
model = DCADL(n_atoms=8, patch_shape=4, stride=2, max_iter=30, tol=0, random_state=0)
model.fit(found.images / 16, found.target, checkpoint=checkpoint_path).save(model_path)
"""


@pytest.mark.bits
def test_killed_again_and_again_the_fit_ends_with_the_same_bytes(tmp_path):
    """Killed with a checkpoint just written, or written and not yet moved to its place."""

    def begin(name, place="nowhere", write=0):
        words = [sys.executable, "-c", KILLED, tmp_path / f"{name}.checkpoint", tmp_path / name, place, write]
        return subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE, text=True)

    assert begin("whole").wait(timeout=300) == 0
    for place, write in (("after", 1), ("before", 3), ("after", 7), ("before", 1)):
        process = begin("killed", place, write)
        assert process.stdout.readline() == "here\n"
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        assert not (tmp_path / "killed").exists()
    assert begin("killed").wait(timeout=300) == 0
    assert (tmp_path / "killed").read_bytes() == (tmp_path / "whole").read_bytes()


def memory_orders(state):
    arrays = [getattr(state, name) for name in checkpoint.ARRAYS] + list(state.preconditioner or ())
    return [(a.flags.c_contiguous, a.flags.f_contiguous) for a in arrays]


@pytest.mark.parametrize("n_atoms", [8, 64], ids=["exact classifier", "classifier by steps"])
def test_arrays_come_back_in_the_memory_order_they_had(digits, tmp_path, monkeypatch, n_atoms):
    """BLAS rounds otherwise in another order, on some processors."""
    params = FAST | {"n_atoms": n_atoms}
    written, read = [], []
    write, restore = checkpoint.Checkpoint._write, checkpoint.Checkpoint._read

    def watched_write(self, state):
        written.append(memory_orders(state))
        write(self, state)

    def watched_read(self, *arguments):
        progress = restore(self, *arguments)
        read.append(memory_orders(progress.state))
        return progress

    monkeypatch.setattr(checkpoint.Checkpoint, "_write", watched_write)
    monkeypatch.setattr(checkpoint.Checkpoint, "_read", watched_read)
    broken_off(DCADL(**params), 3, *digits, checkpoint=tmp_path / "c")
    DCADL(**params).fit(*digits, checkpoint=tmp_path / "c")
    assert read == [written[2]]


@pytest.fixture(scope="module")
def written(digits, tmp_path_factory):
    """The bytes of a checkpoint."""
    path = tmp_path_factory.mktemp("checkpoint") / "c"
    DCADL(**FAST | {"max_iter": 2}).fit(*digits, checkpoint=path)
    return path.read_bytes()


@pytest.mark.parametrize("share", np.linspace(0, 1, 40, endpoint=False))
def test_a_single_flipped_bit_is_noticed(digits, written, tmp_path, share):
    at, bit = int(share * len(written)), int(share * 40) % 8
    damaged = written[:at] + bytes([written[at] ^ 1 << bit]) + written[at + 1 :]
    (tmp_path / "c").write_bytes(damaged)
    with pytest.raises(ValueError, match=r"damaged.*[Dd]elete it"):
        DCADL(**FAST | {"max_iter": 2}).fit(*digits, checkpoint=tmp_path / "c")
    assert (tmp_path / "c").read_bytes() == damaged


def test_two_fits_do_not_share_a_checkpoint(digits, tmp_path):
    def fit_too():
        DCADL(**FAST).fit(*digits, checkpoint=tmp_path / "c")

    with pytest.raises(ValueError, match="in use by another command or fit"):
        DCADL(**FAST).set_callbacks(AfterPasses(2, fit_too)).fit(*digits, checkpoint=tmp_path / "c")
    assert [p.name for p in tmp_path.iterdir()] == ["c"]


def test_a_full_disk_does_not_end_the_fit(digits, tmp_path, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.warns(RuntimeWarning, match="could not be written .No space left"):
        model = DCADL(**FAST).fit(*digits, checkpoint=tmp_path / "c")
    monkeypatch.undo()
    assert_same_to_the_bit(model, DCADL(**FAST).fit(*digits))
    assert not list(tmp_path.iterdir())
