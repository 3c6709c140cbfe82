"""The screen at the end of `dcadl fit`: what was chosen, what to expect, what to be careful of, what next."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dcadl.cli.control import Control, ridge_on_pixels
from dcadl.cli.pyramids import WithFeatures
from dcadl.cli.read import Labelled, Parts, image_shape
from dcadl.cli.reading_plan import ReadingPlan
from dcadl.cli.terminal import note, say, size_text, times_text
from dcadl.ops.interval import interval

if TYPE_CHECKING:
    from dcadl.model_files import AnyModel

CLASSES_LISTED = 12
FEW_JUDGED = 20
FEW_OF_A_CLASS = 5
SOME = 200  # training samples that atoms are tried on
NORMALISED = {
    "whitened": "whitened",
    "whitened-once": "whitened, their lengths kept",
    "centred": "centred",
    None: "as they are",
}


class Judged(NamedTuple):
    """Accuracy on samples that the model had not seen, and what they were named."""

    accuracy: float
    n: int
    confusion: Any  # (C, C) true class in rows
    how: str  # on what


class Fitted(NamedTuple):
    """A fitted classifier, what makes features before it, how long the fit took, and DATA as typed."""

    model: AnyModel
    features: WithFeatures | None
    seconds: float
    data: str

    def save(self, path: Path) -> None:
        """One file of all that leads from a picture to its label."""
        from sklearn.pipeline import make_pipeline

        from dcadl import save

        save(self.model if self.features is None else make_pipeline(self.features.pyramid, self.model), path)


def report(
    fitted: Fitted, samples: Labelled, parts: Parts, plan: ReadingPlan, output: Path, crossed: Judged | None
) -> None:
    """The screen at the end; the model is saved once more with what was measured."""
    model, features, _, data = fitted
    name, y = type(model).__name__, samples.y[parts.train]
    say(_first_line(fitted, len(y)))
    judged = _tested(model, samples, parts) or expected_judgement(model) or crossed
    test = None if parts.test is None else (samples.X[parts.test], samples.y[parts.test])
    control = ridge_on_pixels(samples.X[parts.train], y, test)
    model.training_ |= {"control_accuracy": round(control.accuracy, 6)}
    if parts.test is not None and judged is not None:
        say(f"accuracy: {judged.accuracy:.2%} of {judged.n} samples not trained on")
        model.training_ |= {"accuracy": round(judged.accuracy, 6), "tested_on": judged.n}
    elif crossed is not None:
        model.training_ |= {"cross_validated_accuracy": round(crossed.accuracy, 6)}
    fitted.save(output)
    if features is not None:
        say(f"features: {features.sentence()}")
    for word, text in _lines(model, y, plan, judged, control_line(judged, control, name)):
        say(f"{word}: {text}")
    say(f"saved: {output} ({size_text(output.stat().st_size)})")
    pixels = samples.X.ndim > 2
    drawn = pixels and any(hasattr(model, name) for name in ("atoms_", "filters_", "confusion_"))
    for line in next_lines(output, judged, model.classes_, pictures=pixels or bool(features), drawn=drawn):
        say(f"next: {line}")
    if judged is not None and is_behind(judged, control):
        say(f"next: dcadl compare {shlex.quote(data)}")
    if idle := idle_atoms(model, samples.X[parts.train]):
        note(f"{idle} of {len(model.atoms_)} atoms respond to no sample that was tried: fewer would do")
    for line in _cautions(samples, y, parts, plan, judged):
        note(line)


def _first_line(fitted: Fitted, n: int) -> str:
    model = fitted.model
    passes = f", {model.n_iter_} pass{'es' * (model.n_iter_ != 1)}" if hasattr(model, "n_iter_") else ""
    return (
        f"{type(model).__name__}: {n} samples of {times_text(image_shape(model))}, "
        f"{len(model.classes_)} classes{passes}, {fitted.seconds:.2f} s"
    )


def idle_atoms(model: AnyModel, X: Any) -> int:
    """How many atoms respond to none of some samples of X; 0 for methods whose codes are no responses."""
    from dcadl.estimators import LOOADL
    from dcadl.estimators.base import PatchClassifier

    if not isinstance(model, LOOADL | PatchClassifier):
        return 0
    m = len(model.atoms_)
    codes = np.asarray(model.transform(X[:: max(1, len(X) // SOME)]))
    # LOO-ADL's columns are ordered by sign, atom, cell; the others' by patch, atom.
    cells = codes.shape[1] // (2 * m) if isinstance(model, LOOADL) else 1
    reach = np.ptp(codes, axis=0).reshape(-1, m, cells)  # a threshold below zero passes what is no response
    return int((reach <= np.finfo(np.float32).eps * max(1.0, reach.max())).all(axis=(0, 2)).sum())


def _lines(
    model: AnyModel, y: Any, plan: ReadingPlan, judged: Judged | None, control: str
) -> Iterator[tuple[str, str]]:
    yield "classes", classes_line(y)
    if plan.sentence():
        yield "pictures", plan.sentence()
    if choice_sentence(model):
        yield "chosen", choice_sentence(model)
    if judged is not None:
        yield "expected accuracy", accuracy_line(judged)
    yield "control", control
    if judged is not None:
        yield "most confused", confused_line(judged, model.classes_)


def _tested(model: AnyModel, samples: Labelled, parts: Parts) -> Judged | None:
    """How the model does on its test part, where there is one."""
    if parts.test is None:
        return None
    from sklearn.metrics import confusion_matrix

    y = samples.y[parts.test]
    confusion = confusion_matrix(y, model.predict(samples.X[parts.test]), labels=model.classes_)
    return Judged(float(np.trace(confusion) / len(y)), len(y), confusion, "not trained on")


def _cautions(samples: Labelled, y: Any, parts: Parts, plan: ReadingPlan, judged: Judged | None) -> list[str]:
    found = few_samples_cautions(y, judged)
    if samples.X.ndim > 2:
        seen = (None, None) if plan.survey is None else (plan.survey.sizes, plan.survey.target)
        found += picture_cautions(samples.X, samples.y, parts.test, *seen)
    return found


def choice_sentence(model: AnyModel) -> str:
    """What was chosen for the pictures, and why; empty for models without a choice."""
    if not hasattr(model, "candidates_"):
        return ""
    shape = times_text(model.patch_shape_ if len(model.image_shape_) > 1 else model.patch_shape_[-1:])
    axes = len(model.image_shape_[:2])  # a signal has one
    cells = _listed([times_text((side,) * axes) for side in model.pool_])
    tried = len(model.candidates_)
    chosen = "as asked for"
    if tried > 1:
        accuracies, looked_at = zip(*((one["accuracy"], one["n_images"]) for one in model.candidates_))
        chosen = (
            f"the least leave-one-out error of {tried} structures on {_span(looked_at)} samples "
            f"({max(accuracies):.0%} to {min(accuracies):.0%} right before learning)"
        )
    learned = (
        "; filters learned from the labels were kept, for they did better on pictures they had not seen"
        if model.learned_
        else "; its filters were found without the labels"
    )
    reduced = f" on pictures reduced to {times_text(_working_shape(model))}" if model.reduction_ > 1 else ""
    return (
        f"windows of {shape}{reduced}, {NORMALISED[model.normalize_]}, averaged over {cells} cells: "
        f"{chosen}{learned}"
    )


def _span(counts: Sequence[int]) -> str:
    """`400`, or `400 to 1400` where the best were compared again on more."""
    fewest, most = min(counts), max(counts)
    return f"{most}" if fewest == most else f"{fewest} to {most}"


def _working_shape(model: AnyModel) -> tuple[int, ...]:
    """Height and width, or the length, that LOO-ADL reduces its images to."""
    from dcadl.estimators.loo_adl.images import reduced_shape

    return reduced_shape(image_shape(model), model.reduction_)[:2]


def expected_judgement(model: AnyModel) -> Judged | None:
    """What the fit itself says of new samples; None for methods that do not say, and where none could.

    Whoever leaves out the only sample of a class has no such class left.
    """
    if not hasattr(model, "expected_accuracy_") or model.n_judged_ <= len(model.classes_):
        return None
    return Judged(model.expected_accuracy_, model.n_judged_, model.confusion_, "left out one at a time")


def classes_line(y: Any) -> str:
    """The classes and their counts."""
    counts = Counter(y.tolist())
    if len(counts) <= CLASSES_LISTED:
        return ", ".join(f"{name} {counts[name]}" for name in sorted(counts))
    fewest = min(counts, key=lambda name: (counts[name], name))
    most = max(counts, key=lambda name: (counts[name], name))
    return f"{len(counts)}, from {counts[fewest]} ({fewest}) to {counts[most]} ({most}) samples"


def accuracy_line(judged: Judged) -> str:
    """The accuracy with its interval."""
    low, high = interval(judged.accuracy, judged.n)
    return f"{judged.accuracy:.1%} ({low:.1%} to {high:.1%}; {judged.n} samples {judged.how})"


def control_line(judged: Judged | None, control: Control, name: str) -> str:
    """What plain ridge reaches beside it."""
    if judged is None:
        return f"plain ridge on the same numbers reaches {control.accuracy:.1%}"
    low, _ = interval(judged.accuracy, judged.n)
    both = f"plain ridge on the same numbers reaches {control.accuracy:.1%}, {name} {judged.accuracy:.1%}"
    if is_behind(judged, control):
        return f"{both}: plain ridge is better here; `dcadl compare` says which method to use"
    return both if control.accuracy < low else f"{both}: no clear difference"


def is_behind(judged: Judged, control: Control) -> bool:
    """Whether plain ridge does clearly better."""
    return control.accuracy > interval(judged.accuracy, judged.n)[1]


def confused_line(judged: Judged, classes: Any) -> str:
    """The two classes that are most often taken for each other."""
    both = judged.confusion + judged.confusion.T
    pairs = np.triu(both, 1)
    i, j = np.unravel_index(pairs.argmax(), pairs.shape)
    if not pairs[i, j]:
        return "no sample was taken for another class"
    total = judged.confusion[[i, j]].sum()
    return f"{classes[i]} and {classes[j]} ({pairs[i, j]:.0f} of their {total:.0f} samples)"


def next_lines(
    output: Path, judged: Judged | None, classes: Any, *, pictures: bool, drawn: bool
) -> list[str]:
    """What to do now."""
    typed = shlex.quote(str(output))
    lines = [f"dcadl predict {typed} PICTURES_OR_FOLDERS"] if pictures else []
    lines += [f"dcadl show {typed}"] if drawn else [f"dcadl info {typed}"]
    if judged is None:
        lines.append("to know the accuracy, have several samples of each class and fit with --holdout 0.25")
    elif judged.accuracy < 1 and np.triu(judged.confusion + judged.confusion.T, 1).any():
        pair = confused_line(judged, classes).rpartition(" (")[0]
        lines.append(f"to get better, add pictures of {pair} first" if pictures else f"look at {pair} first")
    return lines


def few_samples_cautions(y: Any, judged: Judged | None) -> list[str]:
    """Small classes, and too few samples to judge by."""
    counts = Counter(y.tolist())
    small = [f"{name} ({n})" for name, n in sorted(counts.items()) if n < FEW_OF_A_CLASS]
    found = []
    if small:
        shown = ", ".join(small[:8]) + (f" and {len(small) - 8} more" if len(small) > 8 else "")
        found.append(
            f"too few samples to learn from: {shown}; have {FEW_OF_A_CLASS} of a class at least, better 20"
        )
    if judged is not None and judged.n < FEW_JUDGED:
        found.append(
            f"only {judged.n} samples to judge by: the accuracy may be far off, as its interval says"
        )
    if judged is not None and interval(judged.accuracy, judged.n)[0] <= max(counts.values()) / len(y):
        found.append(
            "this is no clear gain over always naming the largest class: more samples are needed, or "
            "others, for what is asked is not seen in these"
        )
    return found


def picture_cautions(X: Any, y: Any, test: Any, sizes: Any, size_labels: Any) -> list[str]:
    """Near-duplicates, and classes that differ in what new pictures need not share."""
    from dcadl.data.cautions import tells_apart

    repeats = _repeats(X, test)
    found = [f"{repeats}: the accuracy is too good where new pictures do not"] if repeats else []
    light = tells_apart(X.reshape(len(X), -1).mean(axis=1, dtype=float)[:, None], y)
    if light is not None:
        found.append(f"brightness alone tells the classes apart ({light:.0%} right); is that meant?")
    by_size = None if sizes is None or not len(sizes) else tells_apart(sizes, size_labels)
    if by_size is not None:
        found.append(f"picture sizes alone tell the classes apart ({by_size:.0%} right); is that meant?")
    return found


def _repeats(X: Any, test: Any) -> str:
    """How many pictures nearly repeat another one; of test pictures, one that was trained on."""
    from dcadl.data.cautions import near_duplicates, small_copies

    copies = small_copies(X)
    if test is None:
        n = int((near_duplicates(copies) >= 0).sum())
        return f"{n} of {len(X)} pictures nearly repeat another one" if n else ""
    tested = np.zeros(len(X), bool)
    tested[test] = True
    n = int((near_duplicates(copies[tested], copies[~tested]) >= 0).sum())
    return f"{n} of {tested.sum()} test pictures nearly repeat a training picture" if n else ""


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
