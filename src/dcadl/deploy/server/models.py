"""The models that are served: read from files, and read again when a file is replaced."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from dcadl.deploy.server.answers import Loaded, answers, explanations, loaded
from dcadl.deploy.server.batching import Batcher
from dcadl.deploy.server.limits import Limits, Refusal
from dcadl.model_files import load_classifier

BYTE = 1 / 255  # `dcadl fit` trains on values from 0 to 1
LOOK_AGAIN = 1.0  # seconds between two looks at the files


class Served:
    """One model file: the model in it, and two queues before it, of answers and of explanations."""

    def __init__(self, path: Path, limits: Limits) -> None:
        self.path = path
        self.name = path.stem
        self.error: str | None = None  # of the last attempt to read the file again
        self._stamp = _stamp(path)
        self.loaded = loaded(load_classifier(path))  # replaced in one assignment: whole or not at all
        self.answers = Batcher(lambda X: answers(self.loaded, X), limits)
        self.explanations = Batcher(lambda X: explanations(self._explained(), X), limits)

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """The shape of one sample."""
        return self.loaded.sample_shape

    @property
    def takes_pictures(self) -> bool:
        """Whether picture files can be made into samples."""
        shape = self.sample_shape
        return len(shape) > 1 and shape[2:] in ((), (1,), (3,))

    @property
    def waiting(self) -> int:
        """Samples in both queues."""
        return self.answers.waiting + self.explanations.waiting

    def reload_if_replaced(self) -> bool:
        """Read the file again if it is another one now; a file that cannot be read changes nothing."""
        try:
            stamp = _stamp(self.path)
            if stamp == self._stamp:
                return False
            self._stamp = stamp
            self.loaded = loaded(load_classifier(self.path))
        except (ValueError, OSError) as error:
            self.error = str(error)
            return False
        self.error = None
        return True

    def _explained(self) -> Loaded:
        """The model, if it has evidence maps."""
        found = self.loaded
        if found.program is None:
            raise Refusal(422, f"{type(found.model).__name__} gives no evidence maps.")
        return found


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
            entry.answers.start()
            entry.explanations.start()
        self._watch = asyncio.create_task(self._look(on_reload))

    async def stop(self) -> None:
        """Stop both."""
        if self._watch is not None:
            self._watch.cancel()
        for entry in self.by_name.values():
            await entry.answers.stop()
            await entry.explanations.stop()

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
