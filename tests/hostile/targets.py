"""What is attacked, and what each promises: a case is refused, works as promised, or is outside of that."""

from __future__ import annotations

import io
import json
import stat
import tarfile
import warnings
import zipfile
from pathlib import Path

import mutate
import numpy as np
from safetensors import safe_open
from safetensors.numpy import save as to_bytes
from sklearn.pipeline import make_pipeline

import dcadl
from dcadl import DCADL, LOOADL
from dcadl.bench import records
from dcadl.cli.info import _lines as info_lines
from dcadl.cli.info import describe
from dcadl.data.archives import unpack
from dcadl.estimators.dcadl import checkpoint as checkpoints
from dcadl.features import SpatialPyramid

TINY = {
    "n_atoms": 6,
    "patch_shape": 3,
    "stride": 3,
    "max_iter": 2,
    "tol": 0,
    "init_iter": 1,
    "sparsity": 2,
    "n_filters": 3,
    "filter_shape": 3,
    "random_state": 0,
}
REFUSED, WORKED = "refused", "worked"


def methods():
    """Every method that needs no framework, with little work to do."""
    models = (getattr(dcadl, name)() for name in sorted(set(dcadl.estimators.__all__) - {"ConvNet"}))
    return [m.set_params(**{k: v for k, v in TINY.items() if k in m.get_params()}) for m in models]


def images(n=24):
    """Small images in [0, 1] of three classes."""
    rng = np.random.default_rng(0)
    y = np.arange(n) % 3
    return (0.5 * rng.random((3, 6, 6))[y] + 0.5 * rng.random((n, 6, 6))).astype(np.float32), y


def refused(error, one_line=False):
    """In a few words, and in one line where that is promised."""
    text = str(error)
    assert not one_line or "\n" not in text, "the error has more than one line"
    assert text, "the error says nothing"
    assert len(text) < 2000, f"the error has {len(text)} characters"
    return REFUSED


class ModelFiles:
    """`dcadl.load` gives a ValueError of one line, or a model that `dcadl info` can tell of and whose scores
    are finite or a ValueError."""

    def __init__(self, folder):
        self.path = folder / "model"
        self.X = images()[0][:3]
        self.files = []
        for model in methods():
            model.fit(*images()).save(self.path)
            with safe_open(self.path, framework="numpy") as file:
                arrays = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
                self.files.append((self.path.read_bytes(), json.loads(file.metadata()["dcadl"]), arrays))

    def case(self, rng):
        whole, header, arrays = self.files[rng.integers(len(self.files))]
        self.path.write_bytes(self._damaged(rng, whole, header, arrays))
        try:
            model = dcadl.load(self.path)
        except ValueError as error:
            return refused(error, one_line=True)
        assert info_lines(describe(self.path)), "`dcadl info` says nothing"
        for X in (self.X, np.zeros((2, *model.image_shape_), np.float32)):
            self._predict(model, X)
        return WORKED

    def _damaged(self, rng, whole, header, arrays):
        match rng.integers(4):
            case 0:
                return mutate.damaged_bytes(rng, whole)
            case 1:
                name = list(arrays)[rng.integers(len(arrays))]
                arrays = {**arrays, name: mutate.damaged_array(rng, arrays[name])}
                return to_bytes(arrays, metadata={"dcadl": json.dumps(header)})
            case _:
                return to_bytes(arrays, metadata={"dcadl": mutate.damaged_text(rng, header)})

    def _predict(self, model, X):
        try:
            scores, labels = model.decision_function(X), model.predict(X)
        except ValueError:
            return
        assert np.isfinite(scores).all(), "scores are no numbers"
        assert np.isin(labels, model.classes_).all(), "labels are none of the classes"


class Pyramids:
    """Files of feature pyramids, alone or before a classifier: a ValueError, or finite features."""

    def __init__(self, folder):
        rng = np.random.default_rng(0)
        self.pictures = [rng.integers(0, 255, (16, 20), dtype=np.uint8) for _ in range(8)]
        self.alone, self.whole = folder / "pyramid.npz", folder / "pipeline"
        pyramid = SpatialPyramid(n_words=6, levels=(1, 2), n_components=4, n_jobs=1, progress=False)
        pipeline = make_pipeline(pyramid, dcadl.PatchRidge()).fit(self.pictures, np.arange(8) % 2)
        dcadl.save(pipeline, self.whole)
        self.parameters, self.learned = pipeline[0].contents()
        with safe_open(self.whole, framework="numpy") as file:
            self.arrays = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
            self.header = json.loads(file.metadata()["dcadl"])

    def case(self, rng):
        alone = rng.integers(2)
        (self._write_alone if alone else self._write_whole)(rng)
        try:
            model = SpatialPyramid.load(self.alone, n_jobs=1) if alone else dcadl.load(self.whole)
        except ValueError as error:
            return refused(error, one_line=True)
        try:
            found = (
                model.transform(self.pictures[:1]) if alone else model.decision_function(self.pictures[:1])
            )
        except ValueError as error:
            return refused(error)
        assert np.isfinite(found).all(), "features or scores are no numbers"
        return WORKED

    def _write_alone(self, rng):
        arrays, text = dict(self.learned), json.dumps(self.parameters)
        if rng.integers(2):
            text = mutate.damaged_text(rng, self.parameters)
        else:
            name = list(arrays)[rng.integers(len(arrays))]
            arrays[name] = mutate.damaged_array(rng, arrays[name])
        stream = io.BytesIO()
        np.savez(stream, **arrays, parameters=np.array(text))
        whole = stream.getvalue()
        self.alone.write_bytes(whole if rng.integers(4) else mutate.damaged_bytes(rng, whole))

    def _write_whole(self, rng):
        arrays, text = dict(self.arrays), json.dumps(self.header)
        if rng.integers(4):
            text = mutate.damaged_text(rng, self.header)
        else:
            name = list(arrays)[rng.integers(len(arrays))]
            arrays[name] = mutate.damaged_array(rng, arrays[name])
        self.whole.write_bytes(to_bytes(arrays, metadata={"dcadl": text}))


class Checkpoints:
    """A fit from a damaged checkpoint is a ValueError, or ends with the model of an undisturbed one."""

    def __init__(self, folder):
        self.path = folder / "checkpoint"
        checkpoints.WRITE_SPACING = 0
        self.fits = []
        for model in (DCADL(), LOOADL()):
            model.set_params(**{k: v for k, v in TINY.items() if k in model.get_params()})
            self.path.unlink(missing_ok=True)
            model.fit(*images(), checkpoint=self.path)
            self.fits.append((model, self.path.read_bytes(), model.coef_.copy()))

    def case(self, rng):
        model, whole, expected = self.fits[rng.integers(2)]
        damaged = mutate.damaged_bytes(rng, whole)
        self.path.write_bytes(damaged)
        try:
            model.fit(*images(), checkpoint=self.path)
        except ValueError as error:
            assert self.path.read_bytes() == damaged, "the refused file was changed"
            return refused(error)
        assert np.array_equal(model.coef_, expected), "another model came out"
        return WORKED


class Records:
    """`records.read` is a ValueError, or gives records that tables can be made of; appending loses none."""

    def __init__(self, folder):
        self.path = folder / "records.jsonl"
        self.record = {
            "dataset": "digits",
            "label": "DPL",
            "seed": 0,
            "params": {"n_atoms": 3},
            "status": "ok",
            "group": "g",
            "method": "DPL",
            "environment": {"python": "3"},
            "threads": 1,
            "accuracy": 0.9,
            "n_train": 9,
            "n_test": 9,
            "test_counts": [3, 3, 3],
            "errors": [[1, 0, 2]],
            "train_s": 0.1,
        }
        self.lines = records.line(self.record) * 3

    def case(self, rng):
        self.path.write_bytes(self._damaged(rng))
        try:
            found = records.read(self.path)
            records.append(self.path, self.record)
            again = records.read(self.path)
        except ValueError as error:
            return refused(error)
        assert again[: len(found)] == found, "appending lost a record"
        assert len(again) == len(found) + 1, "what was appended is not there"
        return WORKED

    def _damaged(self, rng):
        if rng.integers(2):
            return mutate.damaged_bytes(rng, self.lines.encode())
        text = mutate.damaged_text(rng, {"format": 1, **self.record})
        return (self.lines + text + "\n" * int(rng.integers(2)) + self.lines[: rng.integers(300)]).encode()


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
        *(None, True, -1, 0, 1, 2, 7, 40, 2**63, 1.5, 0.0, 1e-300, 1e-20, 1e-6, 0.3, 1e3, 1e20, 1e300, -0.5),
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


TARGETS = {
    "model files": ModelFiles,
    "pyramids": Pyramids,
    "checkpoints": Checkpoints,
    "records": Records,
    "archives": Archives,
    "arrays": Arrays,
    "parameters": Parameters,
}


def _remove(path: Path):
    for inner in sorted(path.rglob("*"), reverse=True):
        inner.rmdir() if inner.is_dir() and not inner.is_symlink() else inner.unlink()
    if path.exists():
        path.rmdir()
