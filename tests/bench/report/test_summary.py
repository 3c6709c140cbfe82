"""Rows and differences from records made by hand."""

import re

import numpy as np
import pytest
from scipy import stats

from dcadl.bench.report.cells import difference_cell
from dcadl.bench.report.markdown import cell_text, markdown
from dcadl.bench.report.summary import paired_difference, summarise

ENVIRONMENT = {"processor": "p", "cores": 1, "memory_gb": 1, "system": "s", "python": "3", "versions": {}}


def _record(label, seed, accuracy, **more):
    shared = {
        "dataset": "digits",
        "group": "table",
        "status": "ok",
        "params": {},
        "n_train": 90,
        "n_test": 10,
    }
    return {
        **shared,
        "environment": ENVIRONMENT,
        "threads": 1,
        "label": label,
        "seed": seed,
        "accuracy": accuracy,
    } | more


def _summarise_one(*found):
    return summarise(list(found))[0]


def test_the_test_of_a_difference_is_nadeau_and_bengios():
    rng = np.random.default_rng(0)
    a, b = rng.uniform(0.8, 0.9, 6), rng.uniform(0.7, 0.8, 6)
    many = {"n_train": 9000, "n_test": 1000}

    found = paired_difference(
        [_record("DCADL", i, v, **many) for i, v in enumerate(a)],
        [_record("B", i, v, **many) for i, v in enumerate(b)],
    )

    d = 100 * (a - b)
    t = d.mean() / np.sqrt(d.var(ddof=1) * (1 / 6 + 1 / 9))
    assert found.mean == pytest.approx(d.mean())
    assert found.p == pytest.approx(2 * stats.t.sf(abs(t), 5))


def test_only_seeds_that_both_have_are_compared():
    found = paired_difference(
        [_record("DCADL", s, 0.9) for s in (0, 1, 2)], [_record("B", s, 0.8) for s in (1, 2, 3)]
    )

    assert found.seeds == 2


def test_one_common_seed_gives_no_difference():
    assert paired_difference([_record("DCADL", 0, 0.9)], [_record("B", 0, 0.8)]) is None


def test_a_clear_difference_is_bold_and_none_at_all_is_not():
    clear = [_record("PatchRidge", s, 0.5 + 0.001 * s) for s in range(5)]
    same = [_record("RandomAtoms", s, 0.9) for s in range(5)]
    summary = _summarise_one(*[_record("DCADL", s, 0.9) for s in range(5)], *clear, *same)

    texts = {row.label: cell_text(difference_cell(row)) for row in summary.rows}

    assert texts["PatchRidge"].startswith("**+")
    assert texts["RandomAtoms"] == "+0.00, 0–0"
    assert texts["DCADL"] == "–"


@pytest.mark.parametrize(("samples", "bold"), [(1, False), (50, True)])
def test_the_same_step_in_three_seeds_is_no_proof(samples, bold):
    """Differences without any spread: of one test sample in a thousand, and of fifty."""
    shared = {"n_train": 1000, "n_test": 1000}
    summary = _summarise_one(
        *[_record("DCADL", s, 0.9, **shared) for s in range(3)],
        *[_record("PatchRidge", s, 0.9 - samples / 1000, **shared) for s in range(3)],
    )

    assert difference_cell(summary.rows[1]).strong is bold


def test_atoms_of_each_class_are_counted_together():
    record = _record("DPL", 0, 0.9, method="DPL", params={"n_atoms": 7}, test_counts=[5, 5, 5])

    assert _summarise_one(record).rows[0].atoms == 21


@pytest.mark.parametrize("order", [("paper", "tuned"), ("tuned", "paper")])
def test_a_tuned_record_counts_before_another(order):
    accuracy = {"paper": 0.1, "tuned": 0.9}
    row = _summarise_one(*(_record("DCADL", 0, accuracy[source], source=source) for source in order)).rows[0]

    assert row.values("accuracy") == [0.9]


def test_a_later_record_of_the_same_seed_counts():
    row = _summarise_one(_record("DCADL", 0, 0.1), _record("DCADL", 0, 0.9)).rows[0]

    assert row.values("accuracy") == [0.9]


def test_a_failed_row_stays_in_the_table_with_its_error():
    failed = {**_record("DPL", 0, None), "status": "failed", "error": "ValueError: too small"}

    text = markdown([_summarise_one(_record("DCADL", 0, 0.9), failed)], [])

    assert re.search(r"^\| DPL \| failed \|", text, re.M)
    assert "DPL failed: ValueError: too small" in text


def test_the_papers_rows_that_nobody_ran_are_in_the_table_all_the_same():
    text = markdown(summarise([_record("DCADL", 0, 0.99, dataset="extended_yaleb")]), [])

    assert "| HDL-2 |" in text
    assert "98.50 †" in text
    assert "99.57 ± 0.08" in text


@pytest.mark.parametrize(
    ("sources", "title"),
    [
        (["tuned", "tuned"], "DCADL (tuned)"),
        (["tuned", "paper"], "DCADL (tuned in 1 of 2)"),
        (["paper"], "DCADL"),
    ],
)
def test_a_row_says_for_how_many_seeds_it_was_tuned(sources, title):
    summary = _summarise_one(
        *(_record("DCADL", seed, 0.9, source=source) for seed, source in enumerate(sources))
    )

    assert next(row for row in summary.rows if row.label == "DCADL").title == title


def test_wins_and_losses_count_the_splits():
    ahead = [0.9, 0.9, 0.8, 0.9]
    found = paired_difference(
        [_record("DCADL", s, v) for s, v in enumerate(ahead)], [_record("B", s, 0.85) for s in range(4)]
    )

    assert (found.wins, found.losses) == (3, 1)


def test_what_has_the_same_accuracy_has_neither_won_nor_lost():
    same = [_record("DCADL", s, 0.9) for s in range(3)]

    assert paired_difference(same, same)[3:5] == (0, 0)


@pytest.mark.parametrize(("seeds", "ranked"), [(4, False), (5, True)])
def test_a_row_of_few_seeds_is_never_the_best(seeds, ranked):
    lucky = [_record("PatchRidge", s, 0.99) for s in range(seeds)]
    summary = _summarise_one(*[_record("DCADL", s, 0.9) for s in range(5)], *lucky)

    assert ("PatchRidge" in summary.best) is ranked
    assert ("DCADL" in summary.best) is not ranked


def test_what_is_within_one_standard_error_of_the_best_is_as_good():
    top = [_record("DCADL", s, v) for s, v in enumerate([0.90, 0.92, 0.91, 0.93, 0.90])]
    near = [_record("PatchRidge", s, v) for s, v in enumerate([0.91, 0.91, 0.92, 0.91, 0.905])]
    far = [_record("RandomAtoms", s, 0.8) for s in range(5)]

    assert _summarise_one(*top, *near, *far).best == {"DCADL", "PatchRidge"}


def test_others_are_compared_with_loo_adl_where_it_was_run():
    rows = [_record(label, s, 0.9) for label in ("LOOADL", "DCADL") for s in range(2)]
    summary = _summarise_one(*rows)

    assert summary.reference == "LOOADL"
    assert [row.label for row in summary.rows if row.difference is None] == ["LOOADL"]
    assert "| LOO-ADL − method, won–lost |" in markdown([summary], [])


@pytest.mark.parametrize(
    ("how", "few"),
    [
        ({"candidates": 10, "cross_validated": 0.9}, False),
        ({"candidates": 9, "cross_validated": 0.9}, True),
        ({"candidates": 27}, True),  # there was no time to search
        (None, True),
    ],
)
def test_a_row_is_marked_where_its_parameters_were_chosen_from_few(how, few):
    searches = {} if how is None else {"digits": {"DPL": {"seed0": how}}}
    summary = summarise([_record("DPL", 0, 0.9, method="DPL", test_counts=[5])], searches)[0]

    assert bool(re.search(r"\| DPL( \(best of \d+\))? ‡ \|", markdown([summary], []))) is few


@pytest.mark.parametrize(("candidates", "few"), [(12, False), (9, True)])
def test_a_method_that_searches_by_itself_says_from_how_many(candidates, few):
    row = _summarise_one(_record("RBFSVM", 0, 0.9, method="RBFSVM", candidates=candidates)).rows[0]

    assert row.few_candidates is few


@pytest.mark.parametrize("label", ["LOOADL", "DCADL-paper"])
def test_what_is_not_meant_to_be_tuned_carries_no_mark(label):
    row = _summarise_one(_record(label, 0, 0.9, method=label.partition("-")[0])).rows[0]

    assert not row.few_candidates


def test_rows_come_by_group_ours_first():
    labels = ["RBFSVM", "PatchRidge", "DPL", "DCADL"]
    summary = _summarise_one(*(_record(label, 0, 0.9, method=label) for label in labels))

    assert [row.label for row in summary.rows] == ["DCADL", "PatchRidge", "DPL", "RBFSVM"]


def test_every_cell_of_an_accuracy_says_over_how_many_splits():
    rows = [_record("DCADL", s, 0.9) for s in range(6)] + [_record("DPL", 0, 0.8, method="DPL")]
    text = markdown([_summarise_one(*rows)], [])

    assert "90.00 ± 0.00, n=6" in text
    assert "80.00, n=1" in text.partition("Fewer than 5 splits, not ranked:")[2]


def test_the_number_of_comparisons_is_said_with_what_chance_would_give():
    rows = [_record(label, s, 0.9) for label in ("DCADL", "PatchRidge", "RandomAtoms") for s in range(5)]

    assert "2 comparisons with DCADL at 5%, not corrected" in markdown([_summarise_one(*rows)], [])


@pytest.mark.parametrize("label", ["LCKSVD", "SADL", "DADL"])
def test_a_row_says_where_it_departs_from_its_paper(label):
    text = markdown([_summarise_one(_record(label, 0, 0.9, method=label))], [])

    assert "differs from its paper:" in text


def test_names_from_records_have_no_power_over_the_tables():
    evil = "a | b\n\n# c <img src=x> [d](http://e) *f* `g`"
    text = markdown([_summarise_one(_record(evil, 0, 0.9))], [])

    line = next(line for line in text.splitlines() if "img" in line)
    assert line.startswith("| a \\| b # c \\<img")
    assert "[d](" not in text


def test_times_of_another_processor_are_not_compared():
    there = {"environment": ENVIRONMENT | {"processor": "q"}, "train_s": 1.0}
    found = [_record("DCADL", 0, 0.9, train_s=2.0), _record("B", 0, 0.8, **there)]
    summary = _summarise_one(*found, _record("C", 0, 0.8, train_s=3.0))

    ours, other, third = (summary.row(label) for label in ("DCADL", "B", "C"))
    assert (ours.mean("train_s"), other.mean("train_s"), third.mean("train_s")) == (2.0, None, 3.0)
    assert other.mean("accuracy") == 0.8
    assert "B §" in markdown([summary], [])
    assert "C §" not in markdown([summary], [])
    assert "Ran on another processor than DCADL" in markdown([summary], [])
