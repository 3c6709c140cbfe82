"""Rows and differences from records made by hand."""

import numpy as np
import pytest
from scipy import stats

from dcadl.bench.report.markdown import difference_text, markdown
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

    texts = {row.label: difference_text(row) for row in summary.rows}

    assert texts["PatchRidge"].startswith("**+")
    assert texts["RandomAtoms"] == "+0.00"
    assert texts["DCADL"] == "–"


@pytest.mark.parametrize(("samples", "bold"), [(1, False), (50, True)])
def test_the_same_step_in_three_seeds_is_no_proof(samples, bold):
    """Differences without any spread: of one test sample in a thousand, and of fifty."""
    shared = {"n_train": 1000, "n_test": 1000}
    summary = _summarise_one(
        *[_record("DCADL", s, 0.9, **shared) for s in range(3)],
        *[_record("PatchRidge", s, 0.9 - samples / 1000, **shared) for s in range(3)],
    )

    assert difference_text(summary.rows[1]).startswith("**") is bold


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

    assert "| DPL | failed |" in text
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
