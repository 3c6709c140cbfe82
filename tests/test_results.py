"""The results that are kept: tables and README come from the records, and the records from the choices."""

import shutil
from pathlib import Path

import pytest

from dcadl.bench import records
from dcadl.bench.report.cells import table
from dcadl.bench.report.findings import findings
from dcadl.bench.report.markdown import markdown
from dcadl.bench.report.readme import update_readme
from dcadl.bench.report.searches import searches_section
from dcadl.bench.report.summary import LEAST_CANDIDATES, hardware, summarise
from dcadl.bench.settings import benchmark_config, read_tuned

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


def test_the_readmes_table_is_what_the_records_give(summaries, tmp_path):
    shutil.copy(ROOT / "README.md", tmp_path)
    update_readme(tmp_path / "README.md", list(summaries.values()), "docs/results/")

    assert (tmp_path / "README.md").read_text() == (ROOT / "README.md").read_text()


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


@pytest.mark.parametrize(("name", "least"), [("extended_yaleb", 99.75), ("caltech101", 75.5)])
def test_dcadl_reaches_what_it_should_with_the_controls_beside_it(summaries, name, least):
    rows = {row.label: row for row in summaries[name].rows}

    assert 100 * rows["DCADL"].mean("accuracy") >= least
    assert (
        len(rows["DCADL"].records)
        == len(rows["PatchRidge"].records)
        == len(rows["RandomAtoms"].records)
        == 10
    )


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


def test_findings_begin_with_where_others_win(summaries):
    """Recomputed here from the means alone."""
    ranked = [s for s in summaries.values() if any(row.ranked for row in s.rows)]
    tops = {s.title: max((r for r in s.rows if r.ranked), key=lambda r: r.mean("accuracy")) for s in ranked}
    first = findings(list(summaries.values()))[0]

    for title, row in tops.items():
        assert title in first
        assert row.name in first
    others = [first.index(row.name) for row in tops.values() if row.group != "ours"]
    ours = [first.index(row.name) for row in tops.values() if row.group == "ours"]
    assert max(others, default=-1) < min(ours, default=len(first))
