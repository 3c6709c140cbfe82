"""`dcadl fit` with checkpoints, a memory limit and a cluster: the same model each time."""

from __future__ import annotations

import signal
import subprocess
import sys

import numpy as np
import pytest

import dcadl

SMALL = ("--method", "dcadl", "--patch", 6, "--atoms", 8, "--param", "max_iter=5", "--param", "tol=0")


def same_atoms(one, other):
    np.testing.assert_allclose(dcadl.load(one).atoms_, dcadl.load(other).atoms_, atol=1e-4)


def test_a_memory_limit_gives_the_same_model(call, tmp_path, folder, model):
    result = call("fit", folder, "-o", tmp_path / "m", *SMALL, "--max-memory", "1GB")
    assert result.exit_code == 0, result.output
    same_atoms(tmp_path / "m", model)


def test_a_checkpoint_is_gone_once_the_model_is_saved(call, tmp_path, folder, model):
    result = call("fit", folder, "-o", tmp_path / "m", *SMALL, "--checkpoint", tmp_path / "c")
    assert result.exit_code == 0, result.output
    assert [p.name for p in tmp_path.iterdir()] == ["m"]
    same_atoms(tmp_path / "m", model)


KILLED = """
import os, signal, sys
from dcadl.cli import app
from dcadl.{home} import {owner}

write = {owner}.{name}

def write_and_die(self, *given):
    write(self, *given)
    if {when}:
        os.kill(os.getpid(), signal.SIGKILL)

{owner}.{name} = write_and_die
app(sys.argv[1:])
"""
WRITES = {
    "dcadl": {
        "home": "estimators.dcadl.checkpoint",
        "owner": "Checkpoint",
        "name": "_write",
        "when": "True",
    },
    "loo-adl": {
        "home": "estimators.loo_adl.journal",
        "owner": "Journal",
        "name": "note",
        "when": "given[0] == 'state' and self._path",
    },
}


@pytest.mark.bits
@pytest.mark.parametrize("method", WRITES)
def test_a_killed_command_goes_on_and_writes_the_same_bytes(tmp_path, arrays, method):
    """Killed right after the first checkpoint of its passes, on a machine of any speed."""
    np.savez(tmp_path / "data.npz", images=arrays[0], labels=arrays[1])
    small = SMALL if method == "dcadl" else ("--method", method, "--seed", "0")

    def run(name, *how):
        words = ["fit", tmp_path / "data.npz", "-o", tmp_path / name, *small, "--checkpoint", tmp_path / "c"]
        return subprocess.run([sys.executable, *how, *map(str, words)]).returncode

    command = ("-m", "dcadl.cli")
    assert run("whole", *command) == 0
    assert run("killed", "-c", KILLED.format(**WRITES[method])) == -signal.SIGKILL
    assert (tmp_path / "c").exists()
    assert not (tmp_path / "killed").exists()
    assert run("killed", *command) == 0
    assert (tmp_path / "killed").read_bytes() == (tmp_path / "whole").read_bytes()


@pytest.mark.parametrize("how", ["workers", "address"])
def test_a_cluster_gives_the_same_model(call, tmp_path, folder, model, how):
    distributed = pytest.importorskip("distributed", reason="distributed is not installed")
    with distributed.LocalCluster(
        n_workers=1, processes=False, dashboard_address=":0", threads_per_worker=1
    ) as cluster:
        words = {"workers": ("--workers", 1), "address": ("--dask", cluster.scheduler_address)}[how]
        result = call("fit", folder, "-o", tmp_path / "m", *SMALL, *words)
    assert result.exit_code == 0, result.output
    same_atoms(tmp_path / "m", model)


REFUSALS = {
    "both clusters": (("--dask", "tcp://a:1", "--workers", "2"), "not both"),
    "no size": (("--max-memory", "much"), "--max-memory"),
    "no folder": (("--method", "dcadl", "--checkpoint", "nowhere/at/all"), "checkpoint must name a file"),
    "method without checkpoints": (
        ("--method", "patch-ridge", "--checkpoint", "c"),
        "does not support checkpoints",
    ),
    "method without a limit": (("--method", "patch-ridge", "--max-memory", "1GB"), "'max_memory'"),
    "method without clusters": (("--method", "patch-ridge", "--workers", "1"), "--workers"),
}


@pytest.mark.parametrize(("words", "names"), REFUSALS.values(), ids=REFUSALS)
def test_bad_words_are_refused_in_one_line_and_write_nothing(refused, tmp_path, folder, words, names):
    assert names in refused("fit", folder, "-o", tmp_path / "m", *words)
    assert not list(tmp_path.iterdir())
