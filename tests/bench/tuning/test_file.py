"""The file of choices."""

from dcadl.bench.settings import read_tuned, settings
from dcadl.bench.tuning.file import ChoiceFile
from dcadl.bench.tuning.search import Choice, Search


def test_two_commands_keep_each_others_choices(tmp_path):
    one, other = (ChoiceFile(tmp_path / "t.toml", 6.0, 1, 3) for _ in range(2))
    for done, label in ((one, "PatchRidge"), (other, "DPL")):
        row = settings("digits", [label])[0]
        done.keep(Search("digits", row, 0), Choice({"lam": 0.5}, 3, 0.9, 1.0))

    assert set(read_tuned(tmp_path / "t.toml")["digits"]) == {"PatchRidge", "DPL"}
