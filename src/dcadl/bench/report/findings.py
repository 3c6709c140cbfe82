"""What the tables say, in a few sentences made from the records: first where a method of others wins."""

from __future__ import annotations

from collections import defaultdict

from dcadl.bench.methods import METHODS, method
from dcadl.bench.report.cells import duration_text
from dcadl.bench.report.curves import learning_curves
from dcadl.bench.report.summary import DatasetSummary, Row, paired_difference

NEAR = 1.0  # points of accuracy that one gives up for speed
OURS = "ours"
CONTROLS = ("RandomAtoms", "PCAAtoms", "PatchRidge")  # of DCADL: they see the same patches


def findings(summaries: list[DatasetSummary]) -> list[str]:
    """Who wins where, what learned atoms are worth, few images, speed: only what the records bear out."""
    ranked = [summary for summary in summaries if any(row.ranked for row in summary.rows)]
    sentences = [_winners(ranked), _worth_of_learning(ranked), _few_images(summaries), _speed(ranked)]
    return [sentence for sentence in sentences if sentence]


def _winners(summaries: list[DatasetSummary]) -> str:
    """Others' wins first, then ours."""
    where: dict[str, list[str]] = defaultdict(list)
    for summary in summaries:
        where[_top(summary).name].append(summary.title)
    names = {method(name).title for name in METHODS if method(name).group == OURS}
    others = {name: sets for name, sets in where.items() if not any(name.startswith(n) for n in names)}
    ours = {name: sets for name, sets in where.items() if name not in others}
    said = [f"{name} has the highest mean on {_listed(sets)}" for name, sets in (others | ours).items()]
    return "; ".join(said) + "." if said else ""


def _worth_of_learning(summaries: list[DatasetSummary]) -> str:
    """DCADL against the controls that see the same patches: its worst and its best data set."""
    parts = []
    for label in CONTROLS:
        pairs = [(s.title, s.row("DCADL"), s.row(label)) for s in summaries]
        gaps = {title: gap for title, own, control in pairs if (gap := _gap(own, control)) is not None}
        if gaps:
            parts.append(f"{_range(gaps)} over {method(label).title}")
    return f"DCADL's learned atoms are worth {_listed(parts)}." if parts else ""


def _few_images(summaries: list[DatasetSummary]) -> str:
    """Who leads with the fewest images of each class, and the best method of others there."""
    parts = []
    for curves in learning_curves(summaries):
        fewest = curves.images[0]
        there = {line.name: line for line in curves.lines if line.images[0] == fewest and line.ranked}
        if len(there) > 1:
            first, second = sorted(there.values(), key=lambda line: line.errors[0])[:2]
            parts.append(
                f"with {fewest} images of each class on {curves.title}, {first.name} errs in "
                f"{first.errors[0]:.1f} % and {second.name}, the next, in {second.errors[0]:.1f} %"
            )
    return _sentence("; ".join(parts))


def _speed(summaries: list[DatasetSummary]) -> str:
    """The fastest to classify an image among those within a point of the best."""
    where: dict[str, list[str]] = defaultdict(list)
    for summary in summaries:
        best = _top(summary).mean("accuracy") or 0.0
        ranked = [row for row in summary.rows if row.ranked and row.mean("test_batch_s") is not None]
        timed = [row for row in ranked if 100 * (best - (row.mean("accuracy") or 0.0)) <= NEAR]
        if len(timed) > 1:
            fastest = min(timed, key=lambda row: row.mean("test_batch_s") or 0.0)
            where[fastest.name].append(f"{summary.title} ({duration_text(fastest.mean('test_batch_s'))})")
    parts = [f"{name} on {_listed(sets)}" for name, sets in where.items()]
    said = f"Fastest to classify an image, of those within {NEAR:g} point of the best: {'; '.join(parts)}."
    return said if parts else ""


def _top(summary: DatasetSummary) -> Row:
    return max((row for row in summary.rows if row.ranked), key=lambda row: row.mean("accuracy") or 0.0)


def _gap(own: Row | None, control: Row | None) -> float | None:
    """Paired difference in points, where both are ranked."""
    if own is None or control is None or not (own.ranked and control.ranked):
        return None
    difference = paired_difference(own.records, control.records)
    return None if difference is None else difference.mean


def _range(gaps: dict[str, float]) -> str:
    low, high = min(gaps, key=lambda t: gaps[t]), max(gaps, key=lambda t: gaps[t])
    ends = [f"{gaps[title]:+.1f} points ({title})" for title in dict.fromkeys((low, high))]
    return " to ".join(ends)


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + "." if text else ""
