"""What is attacked, and what each promises: a case is refused, works as promised, or is outside of that."""

from __future__ import annotations

import io
import json

import mutate
import numpy as np
from data_files import DataFiles
from inputs import Archives, Arrays, Parameters
from outcomes import TINY, WORKED, images, methods, refused
from safetensors import safe_open
from safetensors.numpy import save as to_bytes
from sklearn.pipeline import make_pipeline

import dcadl
from dcadl import DCADL, LOOADL
from dcadl.bench import records
from dcadl.cli.info import _lines as info_lines
from dcadl.cli.info import describe
from dcadl.estimators.dcadl import checkpoint as checkpoints
from dcadl.features import SpatialPyramid


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


TARGETS = {
    "model files": ModelFiles,
    "pyramids": Pyramids,
    "checkpoints": Checkpoints,
    "records": Records,
    "archives": Archives,
    "arrays": Arrays,
    "parameters": Parameters,
    "data files": DataFiles,
}
