"""The page of promises names tests that exist, and a table that the attack wrote."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from attack import MARKS, SHARES, line, write

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reliability.md").read_text()
NAMED = sorted(set(re.findall(r"`(tests/\S+\.py)::(\w+)`", PAGE)))


@pytest.mark.parametrize(("path", "name"), NAMED)
def test_a_promise_names_a_test_that_exists(path, name):
    tree = ast.parse((ROOT / path).read_text())
    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_promise_names_a_test():
    promises = [row for row in PAGE.partition(MARKS[0])[0].splitlines() if row.startswith("| ")]
    headings = [row for row in promises if row.startswith("| promise")]
    assert len(promises) - len(headings) == PAGE.count("::test_")


def test_the_table_covers_every_target_and_none_was_outside():
    rows = re.findall(r"^\| ([a-z ]+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|", PAGE, flags=re.MULTILINE)
    assert {row[0] for row in rows} == set(SHARES)
    assert sum(int(row[1]) for row in rows) == 100_000
    assert {row[4] for row in rows} == {"0"}
    assert all(int(cases) == int(refused) + int(worked) for _, cases, refused, worked, _ in rows)


def test_the_table_is_written_between_its_marks(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"before\n{MARKS[0]}\nold\n{MARKS[1]}\nafter\n")
    row = ("records", 10, 4, 6, 0, 0.1, 2.0)

    write(page, [row], seed=3)

    assert line(row) in page.read_text()
    assert "old" not in page.read_text()
    assert page.read_text().startswith("before")
    assert page.read_text().endswith("after\n")
