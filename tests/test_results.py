"""The results that are kept: tables and README come from the records, and the records from the choices."""

import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from dcadl.bench import records
from dcadl.bench.report.cells import duration_text, table
from dcadl.bench.report.choosing import choosing_table
from dcadl.bench.report.findings import findings
from dcadl.bench.report.markdown import markdown
from dcadl.bench.report.readme import short_table, write_between_markers
from dcadl.bench.report.searches import searches_section
from dcadl.bench.report.summary import LEAST_CANDIDATES, LEAST_SEEDS, hardware, paired_difference, summarise
from dcadl.bench.settings import benchmark_config, dataset_config, read_tuned

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results"
SPACES, UNTUNED = benchmark_config()["spaces"], benchmark_config()["untuned"]


@pytest.fixture(scope="module")
def kept():
    return records.read(RESULTS / "records.jsonl")


@pytest.fixture(scope="module")
def summaries(kept):
    searches = read_tuned(RESULTS / "tuned.toml", "searches")
    return {summary.name: summary for summary in summarise(kept, searches)}


def test_the_tables_are_what_the_records_give(kept, summaries):
    searches = searches_section(RESULTS / "tuned.toml")

    assert (RESULTS / "tables.md").read_text() == markdown(list(summaries.values()), hardware(kept), searches)


@pytest.mark.parametrize("name", ["README.md", "docs/choosing.md"])
def test_the_short_tables_are_what_the_records_give(summaries, tmp_path, name):
    found = list(summaries.values())
    table = short_table(found, "docs/results/") if name == "README.md" else choosing_table(found)
    copy = shutil.copy(ROOT / name, tmp_path)
    write_between_markers(copy, table)

    assert Path(copy).read_text() == (ROOT / name).read_text()


def test_tuned_runs_had_what_was_chosen_for_them(kept):
    chosen = read_tuned(RESULTS / "tuned.toml")
    tuned = [r for r in kept if r["source"] == "tuned"]

    assert tuned
    for record in tuned:
        choice = chosen[record["dataset"]][record["label"]][f"seed{record['seed']}"]
        assert choice.items() <= record["params"].items()


def test_no_run_passed_over_a_choice(kept):
    chosen = read_tuned(RESULTS / "tuned.toml")
    for r in kept:
        if r["source"] == "paper":
            assert not chosen.get(r["dataset"], {}).get(r["label"], {}).get(f"seed{r['seed']}")


@pytest.mark.parametrize(
    ("name", "label", "least"),
    [
        ("extended_yaleb-5", "LOOADL", 98.5),
        ("extended_yaleb", "LOOADL", 99.6),
        ("mnist-500", "LOOADL", 97.8),
        ("digits", "LOOADL", 98.7),
        ("scene15-80x80", "LOOADL", 63.0),
        ("extended_yaleb", "DCADL", 99.8),
        ("scene15", "DCADL-split", 79.0),
        ("caltech101", "DCADL-split", 77.0),
    ],
)
def test_our_methods_reach_what_they_should_with_a_control_beside_them(summaries, name, label, least):
    rows = {row.label: row for row in summaries[name].rows}

    assert 100 * rows[label].mean("accuracy") >= least
    seeds = [[r["seed"] for r in rows[found].records] for found in (label, "PatchRidge", "RandomAtoms")]
    assert seeds[0] == seeds[1] == seeds[2]
    assert len(seeds[0]) >= LEAST_SEEDS


def test_dcadl_is_as_good_as_ridge_regression_on_its_patches_where_these_are_many(summaries):
    rows = {row.label: row for row in summaries["mnist-500"].rows}
    assert 100 * (rows["PatchRidge"].mean("accuracy") - rows["DCADL"].mean("accuracy")) <= 0.3


def test_every_cell_says_over_how_many_splits(summaries):
    for summary in summaries.values():
        heads, lines = table(summary, summary.rows)
        for row, line in zip(summary.rows, lines):
            assert line[heads.index("Accuracy %")].text.endswith(f", n={len(row.records)}")


def test_rows_chosen_from_few_candidates_are_marked_and_no_others(summaries):
    searches = read_tuned(RESULTS / "tuned.toml", "searches")
    for summary in summaries.values():
        found = searches.get(summary.name, {})
        for row, line in zip(summary.rows, table(summary, summary.rows)[1]):
            seeds = [found.get(row.label, {}).get(f"seed{r['seed']}", {"candidates": 0}) for r in row.records]
            counts = [how["candidates"] * ("cross_validated" in how) for how in seeds]
            own = [r["candidates"] for r in row.records if r.get("candidates")]
            meant = row.method in SPACES and row.label not in UNTUNED
            assert line[0].text.endswith("‡") is (
                min(own or counts) < LEAST_CANDIDATES and (meant or bool(own))
            )


def test_rows_say_from_how_many_candidates_their_parameters_are(summaries):
    searches = read_tuned(RESULTS / "tuned.toml", "searches")
    for summary in summaries.values():
        for row in summary.rows:
            how = searches.get(summary.name, {}).get(row.label, {})
            own = [r["candidates"] for r in row.records if r.get("candidates")]
            before = [how[seed] for r in row.records if (seed := f"seed{r['seed']}") in how]
            fewest = min(own or [h["candidates"] if "cross_validated" in h else 1 for h in before], default=1)
            assert (f"best of {fewest}" in row.title) is (fewest > 1)


def test_loo_adl_is_never_tuned(kept):
    assert "LOOADL" not in SPACES
    assert not [r for r in kept if r["method"] == "LOOADL" and r["source"] == "tuned"]


# Every sentence of the findings, said again here from the rows' accuracies alone.


def _ranked(summary):
    return [row for row in summary.rows if len(row.records) >= LEAST_SEEDS]


def _mean(row):
    return np.mean([r["accuracy"] for r in row.records])


def _tops(summaries):
    return {s.title: max(_ranked(s), key=_mean) for s in summaries.values() if _ranked(s)}


def _gaps(summaries, learned, other):
    """Points between two labels in each data set, over the seeds that both have."""
    gaps = {}
    for summary in summaries.values():
        rows = {row.label: {r["seed"]: r["accuracy"] for r in row.records} for row in _ranked(summary)}
        if learned in rows and other in rows:
            seeds = rows[learned].keys() & rows[other].keys()
            gaps[summary.title] = 100 * np.mean([rows[learned][k] - rows[other][k] for k in seeds])
    return gaps


def _check_winners(sentence, summaries):
    clauses = sentence.removesuffix(".").split("; ")
    tops = _tops(summaries)
    for title, row in tops.items():
        assert any(c.startswith(f"{row.name} has the highest mean on ") and title in c for c in clauses)
    assert len(clauses) == len({row.name for row in tops.values()})
    leaders = [next(r for r in tops.values() if c.startswith(f"{r.name} has ")) for c in clauses]
    ours = [row.group == "ours" for row in leaders]
    assert ours == sorted(ours)  # others first
    for summary in summaries.values():
        top = tops.get(summary.title)
        for row in _ranked(summary) if top is not None and top.group != "ours" else ():
            if row.group == "ours":
                gap = paired_difference(top.records, row.records)
                beside = rf"{re.escape(summary.title)} \([^()]*{re.escape(row.name)}[^()]*within one"
                assert bool(re.search(beside, sentence)) is (gap.mean <= gap.error)


def _check_worth(sentence, summaries):
    pairs = [("LOOADL", "LOOADL-unlearned"), ("LOOADL-8", "LOOADL-8-unlearned")]
    if sentence.startswith("DCADL"):
        pairs = [("DCADL", label) for label in ("RandomAtoms", "PCAAtoms", "PatchRidge")]
    meant = [gaps for pair in pairs if (gaps := _gaps(summaries, *pair))]
    ends = [
        (gaps[t], t)
        for gaps in meant
        for t in dict.fromkeys((min(gaps, key=gaps.get), max(gaps, key=gaps.get)))
    ]
    said = re.findall(r"([+-]\d+\.\d) points \(((?:[^()]|\([^()]*\))*)\)", sentence)
    assert [title for _, title in said] == [title for _, title in ends]
    for (text, _), (gap, _) in zip(said, ends):
        assert float(text) == pytest.approx(gap, abs=0.0501)


def _check_ahead(sentence, summaries):
    titles = {"RandomAtoms": "Random atoms", "PCAAtoms": "PCA atoms", "PatchRidge": "Patch ridge"}
    for label, title in titles.items():
        gaps = _gaps(summaries, "DCADL", label).values()
        ahead = sum(bool(gap < 0) for gap in gaps)
        assert (f"{title} on {ahead} of {len(gaps)} data sets" in sentence) is (ahead > 0)


def _check_few_images(sentence, summaries):
    who = r"(.+?) errs in ([\d.]+) % and (.+?), the next method, in ([\d.]+) %"
    found = re.findall(rf"ith (\d+) images of each class on (.+?), {who}", sentence)
    assert found
    for number, title, first, error, second, next_error in found:
        family = [s for s in summaries.values() if s.title.partition(" (")[0] == title]
        fewest = min(family, key=lambda s: s.rows[0].records[0]["n_train"])
        assert int(number) == dataset_config(fewest.name)["per_class"]
        best = max(_ranked(fewest), key=_mean)
        following = max((row for row in _ranked(fewest) if row.method != best.method), key=_mean)
        assert (best.name, following.name) == (first, second)
        assert [float(error), float(next_error)] == pytest.approx(
            [100 * (1 - _mean(best)), 100 * (1 - _mean(following))], abs=0.0501
        )


def _check_speed(sentence, summaries):
    for summary in summaries.values():
        near = [row for row in _ranked(summary) if row.mean("test_batch_s") is not None]
        near = [row for row in near if 100 * (_mean(_tops(summaries)[summary.title]) - _mean(row)) <= 1]
        if len(near) > 1:
            fastest = min(near, key=lambda row: row.mean("test_batch_s"))
            clause = next(c for c in re.split("; |best: ", sentence) if c.startswith(f"{fastest.name} on "))
            assert f"{summary.title} ({duration_text(fastest.mean('test_batch_s'))})" in clause


CHECKS = {
    " has the highest mean on ": _check_winners,
    "'s learned atoms are worth ": _check_worth,
    "Ahead of DCADL without learning": _check_ahead,
    " images of each class on ": _check_few_images,
    "Fastest to classify an image": _check_speed,
}


def test_every_sentence_of_the_findings_follows_from_the_records(summaries):
    said = findings(list(summaries.values()))

    assert said
    for sentence in said:
        (check,) = [check for words, check in CHECKS.items() if words in sentence]
        check(sentence, summaries)
