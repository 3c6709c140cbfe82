"""The README's table comes from records and replaces nothing else."""

import re

import pytest

from dcadl.bench.records import read
from dcadl.bench.report.choosing import choosing_table
from dcadl.bench.report.readme import BEGIN, END, short_table, write_between_markers
from dcadl.bench.report.summary import summarise


def test_only_what_stands_between_the_markers_is_replaced(recorded, tmp_path):
    path, summaries = tmp_path / "README.md", summarise(read(recorded))
    path.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")

    for _ in range(2):
        write_between_markers(path, short_table(summaries))

    assert path.read_text() == f"before\n{BEGIN}\n{short_table(summaries)}\n{END}\nafter\n"


def test_the_table_has_each_method_with_its_accuracy_and_says_how_many_splits(recorded):
    text = short_table(summarise(read(recorded)))

    assert re.search(r"^\| DCADL \| \*9\d\.\d\d ± \d\.\d\d, n=2\* \|", text, re.M)
    assert "italics: fewer than 5 splits" in text


def test_a_file_without_markers_is_left_alone(recorded, tmp_path):
    path = tmp_path / "README.md"
    path.write_text("no table here")

    with pytest.raises(ValueError, match="results: begin"):
        write_between_markers(path, short_table(summarise(read(recorded))))
    assert path.read_text() == "no table here"


def test_the_choice_table_names_the_best_of_the_others(recorded):
    found = [{**r, "seed": seed} for r in read(recorded) if r["seed"] == 0 for seed in range(5)]
    text = choosing_table(summarise(found))

    assert re.search(
        r"^\| digits, .* \| 50% \| – \| .*9\d\.\d, n=5.* \| .*, n=5.* \| `digits` \|$", text, re.M
    )
    assert text.count("n=5") == 2


def test_few_splits_give_no_choice(recorded):
    assert "n=2" not in choosing_table(summarise(read(recorded)))
