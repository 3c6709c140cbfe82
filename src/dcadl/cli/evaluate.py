"""`dcadl evaluate`: a model and labelled data in, accuracy and mistakes out."""

import json
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer

from dcadl.atomic import check_writable
from dcadl.cli.predict import Model
from dcadl.cli.read import (
    NO_LIMITS,
    Limits,
    MaxBytes,
    MaxPixels,
    SkipUnreadable,
    data_path,
    may_be_trained_on,
    read_for,
    refuse_overwrites,
    samples_to_judge,
)
from dcadl.cli.terminal import cell, clean_exit, note, say

ROWS_SHOWN = 20
SURE = 0.9


class Evaluation(NamedTuple):
    """How a model did on labelled data."""

    classes: Any  # (C,) names
    confusion: Any  # (C, C) true class in rows, predicted in columns
    seconds: float  # of prediction; the median of several
    confidence: Any = None  # (n,) probability of each answer, where the model has probabilities
    right: Any = None  # (n,) whether it was right
    seen: bool = False  # whether these may be the samples that the model was trained on

    @property
    def n(self) -> int:
        """Samples."""
        return int(self.confusion.sum())

    @property
    def accuracy(self) -> float:
        """Share of samples named rightly."""
        return float(np.trace(self.confusion) / self.n)

    @property
    def calibration_error(self) -> float | None:
        """How far probabilities and accuracy lie apart; None without probabilities."""
        from dcadl.deploy.calibration import expected_calibration_error

        if self.confidence is None:
            return None
        return expected_calibration_error(self.confidence, self.right)


def evaluate(
    model: Model,
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA", help="Labelled data, as for `dcadl fit`; of a file with a test part, only that."
        ),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    skip_unreadable: SkipUnreadable = False,
    max_pixels: MaxPixels = None,
    max_bytes: MaxBytes = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            help="Draw confusions, and where there are probabilities how honest they are, into this picture "
            "(.png, .pdf, .svg)."
        ),
    ] = None,
) -> None:
    """Measure a model on labelled data: accuracy class by class, and how far its probabilities are right."""
    with clean_exit():
        refuse_overwrites({"--plot": plot}, {"MODEL": model, "DATA": data_path(data)})
        if plot is not None:
            check_writable(plot)
        limits = Limits(max_pixels, max_bytes)
        evaluation = evaluate_model(model, data, skip=skip_unreadable, limits=limits)
        if plot is not None:
            from dcadl.cli.pictures import evaluation_picture, write_figure

            write_figure(evaluation_picture(evaluation), plot)
        show = _json if as_json else _table
        show(evaluation)
        if evaluation.seen:
            note(f"{data} may be what the model was trained on: it has its name. Expect less of new samples")


def evaluate_model(path: Path, data: str, *, skip: bool = False, limits: Limits = NO_LIMITS) -> Evaluation:
    """The confusion matrix of the model at `path` on `data`, with `skip` less what cannot be read."""
    from sklearn.metrics import confusion_matrix

    from dcadl import load
    from dcadl.bench.measure import median_seconds

    model = load(path)
    samples = read_for(model, data, skip=skip, limits=limits)
    seen, (X, y) = may_be_trained_on(model, samples, data), samples_to_judge(samples)
    classes = model.classes_.astype(str)
    strange = sorted(set(y) - set(classes))
    if strange:
        raise ValueError(f"{data} has classes that {path} does not know: {', '.join(strange[:5])}.")
    found: list[Any] = []
    seconds = median_seconds(lambda: found.append(model.predict(X)))
    predicted = found[0].astype(str)
    confusion = confusion_matrix(y, predicted, labels=classes)
    if not hasattr(model, "predict_proba"):
        return Evaluation(classes, confusion, seconds, seen=seen)
    confidence = model.predict_proba(X).max(axis=1)
    return Evaluation(classes, confusion, seconds, confidence, predicted == y, seen)


def _rows(evaluation: Evaluation) -> list[dict[str, Any]]:
    """Class by class: samples, share named rightly, and what it is most often mistaken for."""
    rows = []
    for i, counts in enumerate(evaluation.confusion):
        wrong = np.where(np.arange(len(counts)) == i, 0, counts)
        rows.append({
            "class": str(evaluation.classes[i]),
            "samples": int(counts.sum()),
            "recall": float(counts[i] / counts.sum()) if counts.sum() else None,
            "mistaken_for": str(evaluation.classes[wrong.argmax()]) if wrong.any() else None,
            "mistakes": int(wrong.max()),
        })  # fmt: skip
    return rows


def _json(evaluation: Evaluation) -> None:
    say(
        json.dumps(
            {
                "accuracy": evaluation.accuracy,
                "samples": evaluation.n,
                "seconds": evaluation.seconds,
                "classes": _rows(evaluation),
                "confusion": evaluation.confusion.tolist(),
                **_honesty(evaluation),
            },
            ensure_ascii=False,
        )
    )


def _honesty(evaluation: Evaluation) -> dict[str, Any]:
    """Calibration error, reliability bins, and accuracy of the surest answers; nothing without them."""
    from dcadl.deploy.calibration import accuracy_by_coverage, reliability

    if evaluation.confidence is None:
        return {}
    bins = reliability(evaluation.confidence, evaluation.right)
    coverage, accuracy = accuracy_by_coverage(evaluation.confidence, evaluation.right)
    steps = np.unique(np.ceil(np.linspace(0.05, 1, 20) * evaluation.n).astype(int)) - 1
    return {
        "calibration_error": evaluation.calibration_error,
        "reliability": {name: values.tolist() for name, values in bins._asdict().items()},
        "coverage": {"share": coverage[steps].tolist(), "accuracy": accuracy[steps].tolist()},
    }


def _sure_line(evaluation: Evaluation) -> str:
    """What `dcadl predict --reject` would answer."""
    sure = evaluation.confidence >= SURE
    if not sure.any():
        return f"no answer is {SURE:.0%} sure"
    right = evaluation.right[sure].mean()
    return (
        f"{sure.mean():.1%} of the answers are at least {SURE:.0%} sure, and {right:.1%} of those are right"
    )


def _table(evaluation: Evaluation) -> None:
    from rich.console import Console
    from rich.table import Table

    from dcadl.bench.report.cells import duration_text

    rows = [row for row in _rows(evaluation) if row["samples"]]
    worst = sorted(rows, key=lambda row: row["recall"])[:ROWS_SHOWN]
    shown = rows if len(rows) <= ROWS_SHOWN else worst
    table = Table("class", "samples", "right", "most often mistaken for")
    for row in shown:
        mistake = f"{row['mistaken_for']} ({row['mistakes']})" if row["mistakes"] else ""
        table.add_row(cell(row["class"]), str(row["samples"]), f"{row['recall']:.1%}", cell(mistake))
    console = Console()
    console.print(table)
    if len(rows) > len(shown):
        console.print(f"the {len(shown)} worst of {len(rows)} classes; --json has all")
    each = duration_text(evaluation.seconds / evaluation.n)
    console.print(f"accuracy: {evaluation.accuracy:.2%} of {evaluation.n} samples ({each} each)")
    if evaluation.confidence is not None:
        console.print(
            f"calibration error: {evaluation.calibration_error:.1%} "
            f"(how far probabilities and shares of right answers lie apart); {_sure_line(evaluation)}"
        )
