"""Checkpoints: all that a fit needs to go on after it was killed, in one safetensors file."""

from __future__ import annotations

import json
import os
import warnings
import zlib
from collections.abc import Iterator
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors import SafetensorError, safe_open

from dcadl.arrays import Array, array_namespace, as_float64, fetch, send
from dcadl.atomic import replacing
from dcadl.estimators.fitting import Progress
from dcadl.estimators.validation import TrainingSet
from dcadl.ops.ridge import KroneckerPreconditioner
from dcadl.solvers.descent import BLOCKS, Best, PassNumbers, Problem, State
from dcadl.solvers.spill import codes_at
from dcadl.solvers.walk import Chunk

if TYPE_CHECKING:
    from dcadl.estimators.dcadl.estimator import DCADL

WRITE_SPACING = 10  # a write is followed by at least so many times its duration without another
GOLDEN = 0.6180339887498949  # its multiples lie evenly between integers
BLANK = "0" * 64  # where the digest goes once it is known
READ_BYTES = 4_000_000
KINDS = {"float32": "F32", "float64": "F64"}
ARRAYS = ("Omega", "W", "scale")
AHEAD = ("ahead.Omega", "ahead.W")
BEST = ("best.Omega", "best.W")
PRECONDITIONER = tuple(f"preconditioner.{name}" for name in KroneckerPreconditioner._fields)


class Checkpoint:
    """The state after the last pass that was written to `path`, of one fit only.

    `identity` says which fit: parameters and labels. The images are known by their X̄X̄ᵀ, and by a sum in which
    each has a weight of its place: their order and their signs do not show in the first.
    """

    def __init__(self, path: str | os.PathLike[str], identity: dict[str, Any]) -> None:
        self._path = Path(path)
        if self._path.is_dir() or not self._path.resolve().parent.is_dir():
            raise ValueError(f"checkpoint must name a file in a folder that exists; got {self._path}.")
        self._identity = json.dumps(identity, sort_keys=True, default=str)
        self._next = 0.0
        self._marks: dict[str, np.ndarray] = {}

    def restore(self, problem: Problem, backend: str) -> Progress | None:
        """The loop as it was when it was written, or None where there is none yet."""
        self._marks = {"G": fetch(problem.G), "by_place": fetch(_sum_by_place(problem, backend))}
        if not self._path.exists():
            return None
        try:
            with safe_open(self._path, framework="numpy") as file:
                head = json.loads((file.metadata() or {})["dcadl-checkpoint"])
                check_digest(self._path, head["digest"])
                self._check(head, {name: file.get_tensor(name) for name in self._marks})
                return self._read(file, head, problem, backend)
        except (SafetensorError, KeyError, TypeError, RecursionError, json.JSONDecodeError) as error:
            raise ValueError(
                f"{self._path} is no checkpoint of dcadl, or damaged ({type(error).__name__}); "
                "delete it to start again, or name another file."
            ) from None

    def write_in_time(self, state: State) -> None:
        """Write the state after a pass, unless the last write took too large a share of the time since.

        A full disk is no reason to lose the fit as well: the last checkpoint stays, and the fit goes on.
        """
        if monotonic() >= self._next:
            begun = monotonic()
            try:
                self._write(state)
            except OSError as error:
                warnings.warn(
                    f"The checkpoint {self._path} could not be written ({error.strerror or error}); the fit "
                    "goes on, and could be resumed from the last one that was.",
                    RuntimeWarning,
                    stacklevel=2,
                )
            self._next = monotonic() + WRITE_SPACING * (monotonic() - begun)

    def _check(self, head: dict[str, Any], marks: dict[str, np.ndarray]) -> None:
        same = all(_close(mark, self._marks[name]) for name, mark in marks.items())
        if head["identity"] != self._identity or not same:
            raise ValueError(
                f"{self._path} was written by a fit with other data or parameters; "
                "delete it, or name another file."
            )

    def _read(self, file: Any, head: dict[str, Any], problem: Problem, backend: str) -> Progress:
        codes, ends = file.get_slice("codes"), _ends(problem)

        def chunk_codes(start: int, stop: int) -> tuple[Any, tuple[()]]:
            return send(codes[start:stop], backend), ()

        found, _ = problem.walk(chunk_codes, ends[:-1], ends[1:])

        def restored(name: str) -> Array:
            x = send(file.get_tensor(name), backend)
            return x.T if name in head.get("transposed", ()) else x

        arrays = {name: restored(name) for name in ARRAYS}
        parts = [restored(name) for name in PRECONDITIONER if name in file.keys()]  # noqa: SIM118
        state = State(
            **arrays,
            codes=found,
            ahead=(restored(AHEAD[0]), restored(AHEAD[1])),
            momentum=head["momentum"],
            trace=tuple(head["trace"]),
            numbers=PassNumbers(**head["numbers"]),
            preconditioner=KroneckerPreconditioner(*parts) if parts else None,
            best=Best(*(restored(name) for name in BEST), *head["best"]) if head["best"] else None,
        )
        return Progress.after(state, state.trace[BLOCKS - 1 :: BLOCKS])

    def _write(self, state: State) -> None:
        arrays = {name: fetch(getattr(state, name)) for name in ARRAYS}
        best = state.best or ()
        arrays |= {name: fetch(array) for name, array in zip(AHEAD + BEST, (*state.ahead, *best[:2]))}
        if state.preconditioner is not None:
            arrays |= {name: fetch(part) for name, part in zip(PRECONDITIONER, state.preconditioner)}
        # Products of an array in another memory order differ in their last bits, and so would the model.
        transposed = [name for name, a in arrays.items() if a.ndim == 2 and a.T.flags.c_contiguous]
        arrays |= {name: arrays[name].T for name in transposed}
        arrays = {name: np.ascontiguousarray(a) for name, a in (arrays | self._marks).items()}
        shapes = [entry.shape for entry in state.codes]
        head = {
            "digest": BLANK,
            "identity": self._identity,
            "transposed": transposed,
            "momentum": state.momentum,
            "best": best[2:],
            "trace": state.trace,
            "numbers": state.numbers._asdict(),
        }
        layout = {name: (a.dtype.name, a.shape) for name, a in arrays.items()}
        whole = (sum(shape[0] for shape in shapes), *shapes[0][1:])
        layout["codes"] = (arrays["Omega"].dtype.name, whole)
        _write_pieces(self._path, _pieces(layout, head, arrays, state.codes))


def check_digest(path: Path, digest: str) -> None:
    """Refuse a file of which a single bit is not as it was written: its fit would end with another model."""
    found = blake2b(digest_size=len(BLANK) // 2)
    with open(path, "rb") as stream:
        size = int.from_bytes(stream.read(8), "little")
        stream.seek(0)
        found.update(stream.read(8 + size).replace(digest.encode(), BLANK.encode(), 1))
        while piece := stream.read(READ_BYTES):
            found.update(piece)
    if len(digest) != len(BLANK) or found.hexdigest() != digest:
        raise ValueError(
            f"{path} is damaged: it is not as it was written. Delete it to start again, or name another file."
        )


def _sum_by_place(problem: Problem, backend: str) -> Array:
    """(d,) Σ_j r_j Σ_i x̄_ij over images j and their patches i; r_j depends on j, and not on the chunks."""

    def part(chunk: Chunk, start: int) -> tuple[None, tuple[Array]]:
        P = chunk.patches()
        places = np.arange(start, start + P.shape[0])
        weights = send(1.0 + places * GOLDEN % 1.0, backend)
        return None, (as_float64(weights) @ as_float64(array_namespace(P).sum(P, axis=1)),)

    _, (total,) = problem.walk(part, problem.chunks, _ends(problem)[:-1])
    return total


def _ends(problem: Problem) -> list[int]:
    """Places of the images between which chunks lie, from 0 on."""
    ends: list[int] = np.cumsum([0, *(chunk.Y.shape[0] for chunk in problem.chunks)]).tolist()
    return ends


def _close(one: np.ndarray, other: np.ndarray) -> bool:
    """The same but for rounding, which another device does in another way."""
    return one.shape == other.shape and bool(np.linalg.norm(one - other) <= 1e-5 * np.linalg.norm(other))


def identity_of(model: DCADL, data: TrainingSet) -> dict[str, Any]:
    """What makes a fit another fit: parameters, labels, weights, precision. Not where it runs."""
    params = model.get_params(deep=False)
    seed = params.pop("random_state")
    for name in ("backend", "max_memory", "overflow"):
        params.pop(name)
    names, index = np.unique(data.y, return_inverse=True)
    return {
        "params": {name: repr(value) for name, value in params.items()},
        "seed": int(seed) if isinstance(seed, int | np.integer) else None,
        "shape": list(data.image_shape),
        "labels": [names.tolist(), len(data.y), zlib.crc32(index.tobytes())],
        "weight": None if data.weight is None else zlib.crc32(data.weight.tobytes()),
        "dtype": np.dtype(data.dtype).name,
    }


def _pieces(
    layout: dict[str, tuple[str, Any]], head: dict[str, Any], arrays: dict[str, np.ndarray], codes: Any
) -> Iterator[Any]:
    """A safetensors file piece by piece: codes are never all in memory on its account."""
    header: dict[str, Any] = {"__metadata__": {"dcadl-checkpoint": json.dumps(head)}}
    end = 0
    for name, (dtype, shape) in layout.items():
        begin, end = end, end + int(np.prod(shape)) * np.dtype(dtype).itemsize
        header[name] = {"dtype": KINDS[dtype], "shape": list(shape), "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little") + text
    for name in arrays:
        yield arrays[name]
    for entry in codes:
        yield np.ascontiguousarray(codes_at(entry))


def _write_pieces(path: Path, pieces: Iterator[Any]) -> None:
    """The pieces at `path`, or what was there before.

    The digest of them all goes where the first one, the header, has a blank for it.
    """
    digest = blake2b(digest_size=len(BLANK) // 2)
    with replacing(path) as stream:
        header = next(pieces)
        for piece in chain([header], pieces):
            stream.write(piece)
            digest.update(piece)
        stream.seek(header.index(BLANK.encode()))
        stream.write(digest.hexdigest().encode())
