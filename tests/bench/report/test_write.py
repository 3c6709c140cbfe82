"""Records that no report can be made of."""

import pytest

from dcadl.bench.report import write_report


def test_records_that_are_not_found_are_refused(tmp_path):
    with pytest.raises(ValueError, match="dcadl bench"):
        write_report(tmp_path / "none.jsonl", tmp_path)


def test_records_of_no_known_data_set_are_refused(tmp_path):
    (tmp_path / "empty.jsonl").write_text("")

    with pytest.raises(ValueError, match="holds no records"):
        write_report(tmp_path / "empty.jsonl", tmp_path / "report")
    assert not (tmp_path / "report").exists()
