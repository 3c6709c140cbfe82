"""Archives, arrays and parameters, and what each promises of them."""

from __future__ import annotations

import io
import stat
import tarfile
import warnings
import zipfile
from pathlib import Path

import mutate
import numpy as np
from outcomes import REFUSED, WORKED, images, methods, refused

import dcadl
from dcadl.data.archives import unpack


class Archives:
    """`unpack` is a ValueError that leaves nothing, or writes plain files into its folder, within limits."""

    NAMES = (
        "a.txt",
        "b/c.txt",
        "../x",
        "/x",
        "..\\x",
        "C:\\x",
        "",
        ".",
        "a/../../x",
        "n" * 300,
        "\0",
        "a.txt/d",
        "é",
    )
    LIMIT = 200_000

    def __init__(self, folder):
        self.folder = folder
        (folder / "inside").mkdir()

    def case(self, rng):
        archive, target = self.folder / "archive", self.folder / "inside" / "content"
        data = (self._zip if rng.integers(2) else self._tar)(rng)
        archive.write_bytes(mutate.damaged_bytes(rng, data) if rng.integers(2) else data)
        before = set(self.folder.iterdir())
        try:
            unpack(archive, target, max_bytes=self.LIMIT, max_files=20)
        except ValueError as error:
            assert not list(target.parent.iterdir()), "something was left behind"
            return refused(error)
        finally:
            written = list(target.rglob("*"))
            size = sum(path.stat().st_size for path in written if path.is_file())
            plain = all(stat.S_IFMT(path.lstat().st_mode) in (stat.S_IFREG, stat.S_IFDIR) for path in written)
            _remove(target)
        assert set(self.folder.iterdir()) == before, "a file was written outside"
        assert plain, "a link was written"
        assert size <= self.LIMIT, "more than the limit was written"
        return WORKED

    def _member(self, rng):
        size = int(rng.choice([0, 10, 1000, 300_000], p=[0.2, 0.4, 0.3, 0.1]))
        return self.NAMES[rng.integers(len(self.NAMES))], bytes(size)

    def _zip(self, rng):
        stream = io.BytesIO()
        with warnings.catch_warnings(), zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
            warnings.simplefilter("ignore")  # names that are there twice
            for _ in range(rng.integers(1, 5)):
                name, content = self._member(rng)
                info = zipfile.ZipInfo(name or "a", (2000, 1, 1, 0, 0, 0))
                info.filename = name
                info.external_attr = int(rng.choice([0o644, 0o120777])) << 16
                archive.writestr(info, content)
        return stream.getvalue()

    def _tar(self, rng):
        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode=str(rng.choice(["w", "w:gz"]))) as archive:
            for _ in range(rng.integers(1, 5)):
                name, content = self._member(rng)
                info = tarfile.TarInfo(name.replace("\0", "a"))
                info.type = rng.choice(
                    [tarfile.REGTYPE] * 5 + [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE]
                )
                info.linkname = "/etc/hostname"
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
        return stream.getvalue()


class Arrays:
    """Data of any form is refused (TypeError where scikit-learn says so), or fitted to finite scores."""

    def __init__(self, folder):
        self.models = methods()
        self.fitted = [model.__class__(**model.get_params()).fit(*images()) for model in self.models]

    def case(self, rng):
        which = rng.integers(len(self.models))
        X, y = images()
        try:
            if rng.integers(2):
                self.fitted[which].predict(self._odd(rng, X[:5]))
                return WORKED
            model = self.models[which].fit(*self._pair(rng, X, y))
            scores = model.decision_function(X)
        except (ValueError, TypeError):
            return REFUSED  # at any length: scikit-learn quotes what it was given
        assert np.isfinite(scores).all(), "scores are no numbers"
        return WORKED

    def _pair(self, rng, X, y):
        match rng.integers(4):
            case 0:
                return self._odd(rng, X), y
            case 1:
                return X, self._odd(rng, y)
            case 2:
                return X, rng.permutation(np.array(["a", "b", "é" * 50, ""])[y])
            case _:
                return X * np.float32(10.0 ** rng.integers(-40, 38)), y

    def _odd(self, rng, array):
        match rng.integers(9):
            case 0:
                return array.astype(rng.choice(["f2", "i1", "u8", "c8", "S3", "U2", "O", "M8[s]"]))
            case 1:
                return array.reshape(-1)[: rng.integers(array.size)]
            case 2:
                return array.tolist()
            case 3:
                return mutate.any_value(rng)
            case 4:
                return array[:0]
            case 5:
                return array[..., None, None]
            case 6:
                return np.where(
                    rng.random(array.shape) < 0.01, rng.choice([np.nan, np.inf, 1e38, -1e38]), array
                )
            case 7:
                return [mutate.any_value(rng) for _ in range(len(array))]
            case _:
                return array[::-1] * 1e-30


class Parameters:
    """A parameter of any value is a ValueError, or gives a model that is saved, loaded and predicts alike."""

    VALUES = (
        *(
            None,
            True,
            -1,
            0,
            1,
            2,
            7,
            40,
            2**63,
            1.5,
            0.0,
            1e-300,
            1e-20,
            1e-6,
            0.3,
            1e3,
            1e20,
            1e300,
            -0.5,
            10**400,
        ),
        *(
            float("nan"),
            float("inf"),
            "x",
            "patch",
            "balanced",
            [],
            (2, 2),
            (0, 1),
            (1, 2, 3),
            {0: 2.0},
            {"x": 1},
        ),
        *(np.int64(3), np.float32(0.5), np.array([2, 3]), object()),
    )

    def __init__(self, folder):
        self.path = folder / "model"
        self.models = methods()

    def case(self, rng):
        model = self.models[rng.integers(len(self.models))]
        names = [name for name in model.get_params() if name != "backend"]
        changes = {
            names[rng.integers(len(names))]: self.VALUES[rng.integers(len(self.VALUES))]
            for _ in range(rng.integers(1, 3))
        }
        changed = model.__class__(**model.get_params() | changes)
        X, y = images()
        try:
            scores = changed.fit(X, y).decision_function(X)
            changed.save(self.path)
        except ValueError as error:
            return refused(error)
        assert np.isfinite(scores).all(), "scores are no numbers"
        assert np.array_equal(dcadl.load(self.path).decision_function(X), scores), (
            "the file gives other scores"
        )
        return WORKED


def _remove(path: Path):
    for inner in sorted(path.rglob("*"), reverse=True):
        inner.rmdir() if inner.is_dir() and not inner.is_symlink() else inner.unlink()
    if path.exists():
        path.rmdir()
