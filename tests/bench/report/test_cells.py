"""Cells of tables."""

import pytest

from dcadl.bench.report.cells import duration_text, footnotes
from dcadl.bench.report.summary import summarise


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "–"),
        (1.23e-6, "1.2 µs"),
        (1.2e-5, "12 µs"),
        (9.96e-6, "10 µs"),
        (2.6e-4, "260 µs"),
        (0.0351, "35 ms"),
        (0.9999, "1000 ms"),
        (1.0, "1.0 s"),
        (274.2, "274 s"),
    ],
)
def test_a_time_is_written_in_the_unit_that_a_person_reads(seconds, text):
    assert duration_text(seconds) == text


def test_a_table_says_what_was_not_run_and_which_ridge_the_papers_algorithm_had():
    record = {"dataset": "scene15", "group": "table", "status": "ok", "params": {}, "method": "DCADL"}
    known = {"n_train": 90, "n_test": 10, "seed": 0, "accuracy": 0.9}
    rows = [record | known | {"label": label} for label in ("DCADL", "DCADL-paper")]

    notes = footnotes(summarise(rows)[0])

    (missing,) = [note for note in notes if note.startswith("Not run here: ")]
    assert "Kernel ridge (RBF)" in missing
    assert "DCADL-100" in missing
    assert "DCADL-paper," not in missing
    assert "DCADL-paper: λ3/λ2 in line 10, as printed; the authors' release has λ3." in notes
