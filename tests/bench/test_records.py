"""Records: what is appended is read, what was half-written is cut off."""

import errno
import json

import pytest

from dcadl.bench import records

ONE = {
    "dataset": "digits",
    "label": "A",
    "seed": 0,
    "params": {"lam": 0.5, "shape": (3, 3)},
    "group": "table",
    "method": "A",
    "environment": {},
    "threads": 1,
    "status": "failed",
    "error": "none",
}


def test_what_is_appended_is_read_again(tmp_path):
    path = tmp_path / "r.jsonl"
    for seed in range(3):
        records.append(path, {**ONE, "seed": seed})

    assert [r["seed"] for r in records.read(path)] == [0, 1, 2]


def test_a_half_written_line_is_passed_over_and_cut_off_by_the_next_append(tmp_path):
    path = tmp_path / "r.jsonl"
    records.append(path, ONE)
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:20])

    assert len(records.read(path)) == 1
    records.append(path, {**ONE, "seed": 1})
    assert [r["seed"] for r in records.read(path)] == [0, 1]


def test_a_whole_line_without_its_end_is_a_record(tmp_path):
    """As an editor may leave it."""
    path = tmp_path / "r.jsonl"
    for seed in range(2):
        records.append(path, {**ONE, "seed": seed})
    path.write_bytes(path.read_bytes().rstrip(b"\n"))

    assert [r["seed"] for r in records.read(path)] == [0, 1]
    records.append(path, {**ONE, "seed": 2})
    assert [r["seed"] for r in records.read(path)] == [0, 1, 2]


@pytest.mark.parametrize("text", ["my notes", "{", '{"format": 1, "dat', ""])
def test_only_what_begins_a_record_may_be_cut_off(tmp_path, text):
    path = tmp_path / "r.jsonl"
    path.write_text(text)

    if text == "my notes":
        with pytest.raises(ValueError, match="no record of `dcadl bench`: 'my notes'"):
            records.read(path)
    else:
        assert records.read(path) == []


def test_a_key_survives_the_file(tmp_path):
    records.append(tmp_path / "r.jsonl", ONE)

    assert records.key(records.read(tmp_path / "r.jsonl")[0]) == records.key(ONE)


def test_another_parameter_makes_another_run():
    assert records.key(ONE) != records.key({**ONE, "params": {"lam": 0.6}})


@pytest.mark.parametrize(
    "line",
    [
        "{}",
        "no json",
        "5",
        json.dumps({**ONE, "format": 99}),
        json.dumps({**ONE, "format": "x"}),
        json.dumps({**ONE, "status": "well"}),
        json.dumps({**ONE, "status": "ok"}),  # no accuracy
        json.dumps({name: value for name, value in ONE.items() if name != "environment"}),
    ],
)
def test_a_foreign_line_is_refused_with_its_number(tmp_path, line):
    path = tmp_path / "r.jsonl"
    records.append(path, ONE)
    path.write_text(path.read_text() + line + "\n")

    with pytest.raises(ValueError, match="line 2"):
        records.read(path)


def test_not_a_number_is_never_written(tmp_path):
    with pytest.raises(ValueError):
        records.append(tmp_path / "r.jsonl", {**ONE, "accuracy": float("nan")})


def test_a_full_disk_is_said_with_the_file(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match=r"No space left on device.*r\.jsonl"):
        records.append(tmp_path / "r.jsonl", {})
