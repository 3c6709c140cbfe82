"""What tuning cost, as a table."""

from dcadl.bench.report.searches import searches_section


def test_a_line_counts_splits_candidates_minutes_and_other_choices(tmp_path):
    (tmp_path / "t.toml").write_text("""
[tuned.digits."PatchRidge"]
seed0 = { lam = "auto" }
seed1 = { lam = 9.0 }
[tuned.digits."SADL"]
seed0 = {}
seed1 = {}
[searches.digits."PatchRidge"]
seed0 = { candidates = 3, spent_s = 60.0, budget_s = 120.0, folds = 10, cross_validated = 0.9 }
seed1 = { candidates = 7, spent_s = 90.0, budget_s = 120.0, folds = 10, cross_validated = 0.9 }
[searches.digits."SADL"]
seed0 = { candidates = 1, spent_s = 30.0, budget_s = 120.0, folds = 10 }
seed1 = { candidates = 1, spent_s = 0.0, budget_s = 120.0, folds = 10 }
""")

    lines = searches_section(tmp_path / "t.toml").splitlines()

    assert lines[-2:] == [
        "| Digits | PatchRidge | 2 of 2 | 3–7 | 4 | 2.5 | 1 |",  # its own ridge is chosen in fit
        "| Digits | SADL | 0 of 2 | – | 4 | 0.5 | – |",
    ]
