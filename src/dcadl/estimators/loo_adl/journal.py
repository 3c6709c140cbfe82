"""Checkpoints of LOO-ADL: what a fit has found so far, in one small safetensors file."""

from __future__ import annotations

import json
import os
import warnings
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from dcadl.arrays import fetch, send
from dcadl.atomic import write_atomically
from dcadl.estimators.loo_adl.held_out import CrossFitted
from dcadl.estimators.loo_adl.images import Images
from dcadl.ops.maps import WindowTransform
from dcadl.ops.patches import Grid
from dcadl.ops.pool import Pyramid
from dcadl.solvers.loo_adl import Atoms, Model, State
from dcadl.solvers.structure import Candidate

KEY = "dcadl-loo-adl-checkpoint"
Arrays = dict[str, np.ndarray]


class Journal:
    """Notes under names, written whole after each. Without a path nothing is kept, and nothing recalled.

    `identity` says of which fit: other parameters, images or labels are refused.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None, identity: str = "") -> None:
        self._path = None if path is None else Path(path)
        self._identity = identity
        self._numbers: dict[str, Any] = {}
        self._arrays: dict[str, Arrays] = {}
        if self._path is None:
            return
        if self._path.is_dir() or not self._path.resolve().parent.is_dir():
            raise ValueError(f"checkpoint must name a file in a folder that exists; got {self._path}.")
        if self._path.exists():
            self._read()

    def recall(self, name: str) -> tuple[Any, Arrays] | None:
        """Numbers and arrays as they were noted, or None."""
        return (self._numbers[name], self._arrays[name]) if name in self._numbers else None

    def note(self, name: str, numbers: Any, arrays: Arrays) -> None:
        """Keep this from now on. A full disk is a warning: the last file stays, and the fit goes on."""
        if self._path is None:
            return
        self._numbers[name], self._arrays[name] = numbers, arrays
        flat = {
            f"{n}/{k}": np.ascontiguousarray(a) for n, one in self._arrays.items() for k, a in one.items()
        }
        digest = _digest(flat, [self._identity, self._numbers])
        head = {"identity": self._identity, "numbers": self._numbers, "digest": digest}
        try:
            write_atomically(self._path, save(flat, {KEY: json.dumps(head)}))
        except OSError as error:
            warnings.warn(
                f"The checkpoint {self._path} could not be written ({error.strerror or error}); the fit goes "
                "on, and could be resumed from the last one that was.",
                RuntimeWarning,
                stacklevel=2,
            )

    def _read(self) -> None:
        assert self._path is not None
        try:
            raw = self._path.read_bytes()
            size = int.from_bytes(raw[:8], "little")
            head = json.loads(json.loads(raw[8 : 8 + size])["__metadata__"][KEY])
            flat = load(raw)
            whole = head["digest"] == _digest(flat, [head["identity"], head["numbers"]])
        except (SafetensorError, KeyError, TypeError, ValueError, RecursionError) as error:
            raise ValueError(
                f"{self._path} is no checkpoint of LOOADL, or damaged ({type(error).__name__}); "
                "delete it to start again, or name another file."
            ) from None
        if not whole:
            raise ValueError(
                f"{self._path} is damaged: it is not as it was written. Delete it to start again."
            )
        if head["identity"] != self._identity:
            raise ValueError(
                f"{self._path} was written by a fit with other data or parameters; "
                "delete it, or name another file."
            )
        self._numbers = head["numbers"]
        self._arrays = {name: {} for name in self._numbers}
        for name, array in flat.items():
            self._arrays[name.partition("/")[0]][name.partition("/")[2]] = array


def _digest(flat: Arrays, plain: Any) -> str:
    found = blake2b(json.dumps(plain, sort_keys=True).encode(), digest_size=32)
    for name in sorted(flat):
        found.update(f"{name} {flat[name].dtype} {flat[name].shape}".encode() + flat[name].tobytes())
    return found.hexdigest()


def identity_of(params: dict[str, Any], images: Images, classes: np.ndarray) -> str:
    """What makes a fit another fit. Not where it runs."""
    kept = {name: repr(value) for name, value in params.items() if name not in ("backend", "max_memory")}
    if not isinstance(params["random_state"], int | np.integer):
        kept.pop("random_state")
    found = blake2b(images.mark.encode(), digest_size=16)
    for values in (images.places, images.numbers, images.weight):
        found.update(np.ascontiguousarray(values).tobytes())
    return json.dumps([kept, images.shape, classes.tolist(), found.hexdigest()], default=str)


def note_structure(journal: Journal, found: list[Candidate], model: Model, first: Atoms) -> None:
    """The candidates, the whitening of the best and its first atoms."""
    arrays = {"whitener": fetch(model.transform.whitener), "Omega": first.Omega, "t": first.t}
    journal.note("structure", {"found": found, "usual": model.transform.typical_length}, arrays)


def recalled_structure(
    journal: Journal, grids: list[Grid], backend: str
) -> tuple[list[Candidate], Model, Atoms] | None:
    """What `note_structure` noted, or None."""
    kept = journal.recall("structure")
    if kept is None:
        return None
    numbers, arrays = kept
    found = [Candidate(tuple(p), how, tuple(pool), *rest) for p, how, pool, *rest in numbers["found"]]
    grid = next(grid for grid in grids if grid.patch == found[0].patch_shape)
    whitener = send(arrays["whitener"], backend)
    transform = WindowTransform(grid, whitener, found[0].normalize is not None, numbers["usual"])
    return found, Model(transform, Pyramid(grid.counts, found[0].pool)), Atoms(arrays["Omega"], arrays["t"])


def note_halves(journal: Journal, found: CrossFitted) -> None:
    """What the halves say of each other."""
    journal.note("halves", [found.lam, found.learning_lam], {"scores": found.scores})


def recalled_halves(journal: Journal) -> CrossFitted | None:
    """What `note_halves` noted, or None."""
    kept = journal.recall("halves")
    if kept is None:
        return None
    lams, arrays = kept
    return CrossFitted(arrays["scores"], *lams)


def note_state(journal: Journal, state: State) -> None:
    """Where learning stands after a pass."""
    pairs = np.array(state.pairs).reshape(len(state.pairs), 2, len(state.x))
    journal.note("state", list(state.trace), {"x": state.x, "gradient": state.gradient, "pairs": pairs})


def recalled_state(journal: Journal) -> State | None:
    """What `note_state` noted last, or None."""
    kept = journal.recall("state")
    if kept is None:
        return None
    trace, arrays = kept
    pairs = tuple((one[0].copy(), one[1].copy()) for one in arrays["pairs"])
    return State(arrays["x"], arrays["gradient"], pairs, tuple(trace))
