"""What a method says of samples left out, by cross-validation: expected accuracy and probabilities."""

from __future__ import annotations

import warnings
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from dcadl.cli.summary import Judged, expected_judgement
from dcadl.cli.terminal import note, progress_bar

if TYPE_CHECKING:
    from dcadl.model_files import AnyModel

FOLDS = 5
PATIENCE = 120.0  # seconds that judging a model may take when nobody asked for it


def cross_validated(
    model: AnyModel, X: Any, y: Any, *, seconds: float, seed: int, wanted: bool | None, tested: bool
) -> Judged | None:
    """Judge a fitted model on its training samples by folds, and give it probabilities where it has none.

    Nothing is done for a method that knows what it says of a sample left out, and nothing, with a note, where
    the folds would take too long and `wanted` is not True: `seconds` is what one fit took.
    """
    known = tested or expected_judgement(model) is not None
    if wanted is False or (known and hasattr(model, "temperature_")):
        return None
    fewest = min(Counter(y.tolist()).values())
    if fewest < 2:
        unsaid = "nothing can" if hasattr(model, "temperature_") else "neither probabilities nor anything can"
        note(f"a class has one sample only: {unsaid} be said of new samples")
        return None
    folds = min(FOLDS, fewest)
    if folds * seconds > PATIENCE and not wanted:
        note(
            f"no probabilities: they take {folds} more fits of {seconds:.0f} s; --probabilities asks for them"
        )
        return None
    return _by_folds(model, X, y, folds, seed)


def _by_folds(model: AnyModel, X: Any, y: Any, folds: int, seed: int) -> Judged:
    from sklearn.metrics import confusion_matrix
    from sklearn.model_selection import StratifiedKFold

    from dcadl.estimators.probabilities import left_out_scores
    from dcadl.ops.ridge import best_temperature

    with progress_bar() as bar, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the fit itself has said what there is to say
        bar.add_task(f"judging in {folds} folds", total=None)
        splits = StratifiedKFold(folds, shuffle=True, random_state=seed)
        scores = left_out_scores(model, X, y, splits)
    numbers = np.searchsorted(model.classes_, y)
    if not hasattr(model, "temperature_"):
        model.temperature_ = best_temperature(scores, numbers)
    named = scores.argmax(axis=1)
    confusion = confusion_matrix(numbers, named, labels=np.arange(len(model.classes_)))
    return Judged(float(np.mean(named == numbers)), len(y), confusion, f"in {folds}-fold cross-validation")
