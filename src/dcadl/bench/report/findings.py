"""What the tables say, in a few sentences made from the records: first where a method of others wins."""

from __future__ import annotations

from collections import defaultdict

from dcadl.bench.methods import method
from dcadl.bench.report.cells import duration_text
from dcadl.bench.report.curves import by_images, family_title
from dcadl.bench.report.summary import DatasetSummary, Row, paired_difference

NEAR = 1.0  # points of accuracy that one gives up for speed
OURS = "ours"
CONTROLS = ("RandomAtoms", "PCAAtoms", "PatchRidge")  # of DCADL: they see the same patches
UNLEARNED = {"LOOADL": "unlearned ones", "LOOADL-8": "unlearned ones where there are eight"}


def findings(summaries: list[DatasetSummary]) -> list[str]:
    """Who wins where, what learned atoms are worth, few images, speed: only what the records bear out."""
    ranked = [summary for summary in summaries if any(row.ranked for row in summary.rows)]
    sentences = [
        _winners(ranked),
        _worth_of_learning(
            ranked, "LOO-ADL", [(label, f"{label}-unlearned", UNLEARNED[label]) for label in UNLEARNED]
        ),
        _worth_of_learning(ranked, "DCADL", [("DCADL", label, method(label).title) for label in CONTROLS]),
        _ahead_of_us(ranked),
        _few_images(ranked),
        _speed(ranked),
    ]
    return [sentence for sentence in sentences if sentence]


def _winners(summaries: list[DatasetSummary]) -> str:
    """Others' wins first, with what of ours ties; then ours."""
    others: dict[str, list[str]] = defaultdict(list)
    ours: dict[str, list[str]] = defaultdict(list)
    for summary in summaries:
        top = _top(summary)
        ties = [row.name for row in summary.rows if row.group == OURS and row.label in summary.best]
        tied = f" ({_listed(ties)} within one standard error)" if ties and top.group != OURS else ""
        (ours if top.group == OURS else others)[top.name].append(summary.title + tied)
    said = [
        f"{name} has the highest mean on {_listed(sets)}" for name, sets in [*others.items(), *ours.items()]
    ]
    return "; ".join(said) + "." if said else ""


def _worth_of_learning(summaries: list[DatasetSummary], name: str, pairs: list[tuple[str, str, str]]) -> str:
    """Learned atoms against others, label by label: the worst and the best data set of each pair."""
    parts = []
    for learned, other, words in pairs:
        found = [(summary.title, summary.row(learned), summary.row(other)) for summary in summaries]
        gaps = {title: gap for title, own, control in found if (gap := _gap(own, control)) is not None}
        if gaps:
            parts.append(f"{_range(gaps)} over {words}")
    return f"{name}'s learned atoms are worth {_listed(parts)}." if parts else ""


def _ahead_of_us(summaries: list[DatasetSummary]) -> str:
    """On how many data sets a control of DCADL, which learns nothing, has the higher mean."""
    parts = []
    for label in CONTROLS:
        found = [_gap(summary.row("DCADL"), summary.row(label)) for summary in summaries]
        gaps = [gap for gap in found if gap is not None]
        if ahead := sum(gap < 0 for gap in gaps):
            parts.append(f"{method(label).title} on {ahead} of {len(gaps)} data sets")
    return f"Ahead of DCADL without learning an atom: {_listed(parts)}." if parts else ""


def _few_images(summaries: list[DatasetSummary]) -> str:
    """Who leads with the fewest images of each class, and the next method there."""
    parts = []
    for found in by_images(summaries).values():
        fewest, summary = next(iter(found.items()))
        first = _top(summary)
        others = [row for row in summary.rows if row.ranked and row.method != first.method]
        if others:
            second = max(others, key=lambda row: row.mean("accuracy") or 0.0)
            parts.append(
                f"with {fewest} images of each class on {family_title(summary)}, {first.name} errs in "
                f"{_error(first):.1f} % and {second.name}, the next method, in {_error(second):.1f} %"
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


def _error(row: Row) -> float:
    return 100 * (1 - (row.mean("accuracy") or 0.0))


def _gap(own: Row | None, control: Row | None) -> float | None:
    """Paired difference in points, where both are ranked."""
    if own is None or control is None or not (own.ranked and control.ranked):
        return None
    difference = paired_difference(own.records, control.records)
    return None if difference is None else difference.mean


def _range(gaps: dict[str, float]) -> str:
    low, high = min(gaps, key=lambda t: gaps[t]), max(gaps, key=lambda t: gaps[t])
    ends = [f"{round(gaps[title], 1) + 0.0:+.1f} points ({title})" for title in dict.fromkeys((low, high))]
    return " to ".join(ends)


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + "." if text else ""
