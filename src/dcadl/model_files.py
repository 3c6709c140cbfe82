"""`dcadl.save` and `dcadl.load`: classifiers, and pipelines of features and a classifier, in one format."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, TypeAlias

from sklearn.pipeline import Pipeline

from dcadl.estimators.base import Classifier
from dcadl.estimators.files import Tensors, contents, open_model_file, rebuild, write
from dcadl.estimators.loaded import finite_array
from dcadl.features import SpatialPyramid

AnyModel: TypeAlias = Classifier | Pipeline  # what a model file holds
PIPELINE_FORMAT = 2
CLASSIFIER, FEATURES = "classifier.", "features."  # what names of arrays begin with
SUPPORTED = "a classifier of dcadl, or a Pipeline of SpatialPyramid and one"


def save(model: AnyModel, path: str | os.PathLike[str]) -> None:
    """
    Write a fitted model to a safetensors file that `load` reads; no pickle.

    Parameters
    ----------
    model : a classifier of dcadl, or a scikit-learn Pipeline of `SpatialPyramid` and one
    path : the file; what was there is replaced only once the new file is complete
    """
    if isinstance(model, Classifier):
        model.save(path)
        return
    features, classifier = _two_steps(model)
    header, arrays = contents(classifier)
    parameters, learned = features.contents()
    header |= {
        "format": PIPELINE_FORMAT,
        "features": {"class": "SpatialPyramid", "params": parameters},
        "steps": [name for name, _ in model.steps],
    }
    named = {CLASSIFIER + name: array for name, array in arrays.items()}
    write(path, header, named | {FEATURES + name: array for name, array in learned.items()})


def load(path: str | os.PathLike[str]) -> AnyModel:
    """
    The model that `save`, `model.save` or `dcadl fit` wrote to `path`.

    A file may come from anywhere: everything in its header is checked before it is used, and nothing of a
    size that the header alone names is allocated. Whatever is wrong is one ValueError.
    """
    with open_model_file(Path(path)) as (file, header):
        if header["format"] < PIPELINE_FORMAT:
            return rebuild(Tensors(file), header)
        features = _rebuild_features(Tensors(file, FEATURES), header["features"])
        classifier = rebuild(Tensors(file, CLASSIFIER), header)
        if features.n_features_out_ != classifier.n_features_in_:
            raise ValueError(
                f"its features have {features.n_features_out_} values, its classifier takes "
                f"{classifier.n_features_in_}"
            )
        return Pipeline(list(zip(_step_names(header["steps"]), (features, classifier))))


def load_classifier(path: str | os.PathLike[str]) -> Classifier:
    """The classifier in the file at `path`; one behind a feature pyramid is refused."""
    model = load(path)
    if features_of(model) is not None:
        raise ValueError(
            f"{path} makes features with SpatialPyramid before it classifies: it predicts and is evaluated, "
            "but can be neither explained nor drawn nor exported nor served."
        )
    return model


def classifier_of(model: AnyModel) -> Classifier:
    """The classifier at the end of a pipeline, or the model itself."""
    return model[-1] if isinstance(model, Pipeline) else model


def features_of(model: AnyModel) -> SpatialPyramid | None:
    """What makes features of pictures before the classifier; None where pixels go straight into it."""
    return model[0] if isinstance(model, Pipeline) else None


def _two_steps(model: AnyModel) -> tuple[SpatialPyramid, Classifier]:
    steps = [step for _, step in model.steps] if isinstance(model, Pipeline) else [model]
    match steps:
        case [SpatialPyramid() as features, Classifier() as classifier]:
            return features, classifier
    names = ", ".join(type(step).__name__ for step in steps)
    raise ValueError(f"a model file holds {SUPPORTED}; got {names}.")


def _step_names(names: Any) -> list[str]:
    well_formed = isinstance(names, list) and len(names) == 2 and all(isinstance(n, str) for n in names)
    if not well_formed or names[0] == names[1] or any("__" in name for name in names):
        raise ValueError(f"its steps must have two names; got {names!r}")
    return names


def _rebuild_features(tensors: Tensors, saved: dict[str, Any]) -> SpatialPyramid:
    if saved["class"] != "SpatialPyramid":
        raise ValueError(f"it makes features with {saved['class']!r}, which this dcadl does not know")
    strange = set(tensors.shapes) - {"codebook", "mean", "components"}
    if strange:
        raise ValueError(f"its features have arrays that no pyramid has: {sorted(strange)}")
    parameters = dict(saved["params"])
    running = {"cache_dir", "n_jobs", "progress", "random_state"} & set(parameters)
    if running:
        raise ValueError(f"its features say how to run: {sorted(running)}")
    learned = {name: finite_array(name, tensors.read(name)) for name in tensors.shapes}
    return SpatialPyramid.from_contents(parameters, learned)
