"""The file of choices."""

from dcadl.bench.settings import read_tuned, settings
from dcadl.bench.tuning.file import ChoiceFile
from dcadl.bench.tuning.search import Budget, Choice, Search


def test_two_commands_keep_each_others_choices(tmp_path):
    one, other = (ChoiceFile(tmp_path / "t.toml", Budget(6.0, 3)) for _ in range(2))
    for done, label in ((one, "PatchRidge"), (other, "DPL")):
        row = settings("digits", [label])[0]
        done.keep(Search("digits", row, 0), Choice({"lam": 0.5}, 3, 0.9, 1.0))

    assert set(read_tuned(tmp_path / "t.toml")["digits"]) == {"PatchRidge", "DPL"}


def test_a_choice_from_too_few_candidates_is_searched_again(tmp_path):
    row = settings("digits", ["DPL"])[0]
    search = Search("digits", row, 0)
    ChoiceFile(tmp_path / "t.toml", Budget(6.0, 3)).keep(search, Choice({"lam": 0.5}, 7, 0.9, 1.0))

    assert [ChoiceFile(tmp_path / "t.toml", Budget(6.0, 3, n)).has(search) for n in (0, 7, 8)] == [
        True,
        True,
        False,
    ]
