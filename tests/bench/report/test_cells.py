"""Cells of tables."""

import pytest

from dcadl.bench.report.cells import duration_text


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
