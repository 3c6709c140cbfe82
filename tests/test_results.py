"""The results that are kept: tables and README come from the records, and the records from the choices."""

import shutil
from pathlib import Path

import pytest

from dcadl.bench import records
from dcadl.bench.report.markdown import markdown
from dcadl.bench.report.readme import update_readme
from dcadl.bench.report.searches import searches_section
from dcadl.bench.report.summary import hardware, summarise
from dcadl.bench.settings import read_tuned

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results"


@pytest.fixture(scope="module")
def kept():
    return records.read(RESULTS / "records.jsonl")


@pytest.fixture(scope="module")
def summaries(kept):
    return {summary.name: summary for summary in summarise(kept)}


def test_the_tables_are_what_the_records_give(kept, summaries):
    searches = searches_section(RESULTS / "tuned.toml")

    assert (RESULTS / "tables.md").read_text() == markdown(list(summaries.values()), hardware(kept), searches)


def test_the_readmes_table_is_what_the_records_give(summaries, tmp_path):
    shutil.copy(ROOT / "README.md", tmp_path)
    update_readme(tmp_path / "README.md", list(summaries.values()))

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
