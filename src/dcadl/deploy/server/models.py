"""The models that are served: read from files, and read again when a file is replaced."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dcadl.deploy.operations import Program
from dcadl.deploy.server.batching import Batcher
from dcadl.deploy.server.limits import Limits, Refusal
from dcadl.deploy.translate import operations_of
from dcadl.estimators.probabilities import softmax
from dcadl.model_files import load_classifier

if TYPE_CHECKING:
    from dcadl.estimators.base import Classifier

BYTE = 1 / 255  # `dcadl fit` trains on values from 0 to 1
LOOK_AGAIN = 1.0  # seconds between two looks at the files


class Served:
    """One model file: the model in it, its queue, and what its operations are where it has any."""

    def __init__(self, path: Path, limits: Limits) -> None:
        self.path = path
        self.name = path.stem
        self.error: str | None = None  # of the last attempt to read the file again
        self.loads = 0
        self._stamp = _stamp(path)
        self._take(load_classifier(path))
        self.batcher = Batcher(lambda X: self._scores(X), limits)

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """The shape of one sample."""
        return tuple(self.model.image_shape_)

    @property
    def takes_pictures(self) -> bool:
        """Whether picture files can be made into samples."""
        shape = self.sample_shape
        return len(shape) > 1 and shape[2:] in ((), (1,), (3,))

    def probabilities(self, scores: np.ndarray) -> np.ndarray:
        """A softmax of the scores, at the model's temperature where it has one."""
        return softmax(scores, float(getattr(self.model, "temperature_", 1.0)))

    def reload_if_replaced(self) -> bool:
        """Read the file again if it is another one now; a file that cannot be read changes nothing."""
        try:
            stamp = _stamp(self.path)
            if stamp == self._stamp:
                return False
            self._stamp = stamp
            self._take(load_classifier(self.path))
        except (ValueError, OSError) as error:
            self.error = str(error)
            return False
        self.error = None
        return True

    def _take(self, model: Classifier) -> None:
        """The new model and all that is derived from it, in one assignment."""
        program: Program | None
        try:
            program = operations_of(model, scale=1.0)
        except ValueError:  # a method that is no list of operations predicts all the same
            program = None
        self.model, self.program, self.loads = model, program, self.loads + 1

    def _scores(self, X: np.ndarray) -> np.ndarray:
        if X.shape[1:] != self.sample_shape:  # the model was replaced while the request waited
            raise Refusal(409, f"The model was replaced and now takes samples of shape {self.sample_shape}.")
        scores = np.asarray(self.model.decision_function(X))
        return np.stack([-scores / 2, scores / 2], axis=1) if scores.ndim == 1 else scores


class Models:
    """All that is served, by name; the first is meant where a request names none."""

    def __init__(self, paths: Sequence[Path], limits: Limits) -> None:
        served = [Served(Path(path), limits) for path in paths]
        self.by_name = {entry.name: entry for entry in served}
        if len(self.by_name) < len(served) or not served:
            names = ", ".join(entry.name for entry in served)
            raise ValueError(f"models must be one or more files of different names; got {names or 'none'}.")
        self._watch: asyncio.Task[None] | None = None

    def named(self, name: str | None) -> Served:
        """The model of that name."""
        if name is None:
            return next(iter(self.by_name.values()))
        if name not in self.by_name:
            raise Refusal(404, f"There is no model of that name; there are: {', '.join(self.by_name)}.")
        return self.by_name[name]

    def start(self, on_reload: Callable[[str], None]) -> None:
        """Begin to answer and to look for replaced files."""
        for entry in self.by_name.values():
            entry.batcher.start()
        self._watch = asyncio.create_task(self._look(on_reload))

    async def stop(self) -> None:
        """Stop both."""
        if self._watch is not None:
            self._watch.cancel()
        for entry in self.by_name.values():
            await entry.batcher.stop()

    async def _look(self, on_reload: Callable[[str], None]) -> None:
        while True:
            await asyncio.sleep(LOOK_AGAIN)
            for entry in self.by_name.values():
                if await asyncio.to_thread(entry.reload_if_replaced):
                    on_reload(entry.name)


def _stamp(path: Path) -> tuple[int, int, int]:
    """What changes when a file is replaced."""
    found = path.stat() if path.is_file() else None
    return (found.st_mtime_ns, found.st_size, found.st_ino) if found else (0, 0, 0)
