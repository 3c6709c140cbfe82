"""`dcadl compare`, and `bench`, `tune` and `report` on one's own data."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

from dcadl.bench import compare as comparing
from dcadl.bench.outsiders import RBFSVM
from dcadl.bench.own import count_folds, own_fold, own_name, read_own
from dcadl.bench.settings import build, settings
from dcadl.cli import pyramids
from dcadl.cli.compare import lines, parse_budget


def test_the_folds_of_a_shuffle_test_every_sample_once():
    y = np.repeat([0, 1, 2], [5, 9, 20])

    tested = np.concatenate([own_fold(y, seed)[1] for seed in range(5)])

    assert sorted(tested) == list(range(len(y)))
    assert not np.array_equal(own_fold(y, 0)[1], own_fold(y, 5)[1])


def test_a_small_class_makes_fewer_folds_and_every_sample_is_tested_once():
    y = np.repeat([0, 1], [3, 9])

    tested = np.concatenate([own_fold(y, seed)[1] for seed in range(3)])

    assert count_folds(y) == 3
    assert sorted(tested) == list(range(len(y)))


@pytest.mark.parametrize("command", ["compare", "bench", "tune"])
def test_unreadable_pictures_are_named_with_advice_that_the_command_can_follow(
    refused, tmp_path, folder, monkeypatch, command
):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(folder, tmp_path / "data")
    (tmp_path / "data" / "down" / "torn.png").write_bytes(b"no picture")

    line = refused(command, tmp_path / "data")

    assert "torn.png" in line
    assert "Move them out of the folder first." in line
    assert "on_error" not in line


def test_searches_of_few_samples_have_fewer_folds():
    X, y = np.random.default_rng(0).standard_normal((4, 3)), np.array([0, 0, 1, 1])

    assert RBFSVM(random_state=0).fit(X, y).n_candidates_ == 12


def test_a_class_of_one_sample_is_refused_before_anything_runs(refused, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez(tmp_path / "rows.npz", X=np.random.default_rng(0).standard_normal((9, 3)), y=np.arange(9) < 1)

    assert "at least 2 samples; the smallest has 1" in refused("compare", tmp_path / "rows.npz")


def test_pictures_and_rows_have_rows_of_their_own(folder, tmp_path):
    np.savez(tmp_path / "rows.npz", X=np.random.default_rng(0).standard_normal((20, 3)), y=np.arange(20) % 2)

    pictures, rows = (
        {row.label for row in settings(own_name(str(path)))} for path in (folder, tmp_path / "rows.npz")
    )

    assert "HOGSVM" in pictures - rows
    assert {"LOOADL", "DCADL", "PixelRidge"} <= pictures & rows


def test_a_test_part_is_left_alone(tmp_path, arrays):
    images, labels = arrays
    parts = {"x_train": images[:24], "y_train": labels[:24], "x_test": images[24:], "y_test": labels[24:]}
    np.savez(tmp_path / "parts.npz", **parts)

    found = read_own(own_name(str(tmp_path / "parts.npz")))

    np.testing.assert_allclose(found.X, images[:24] / 255, atol=1e-6)


def test_slow_methods_run_when_two_folds_of_the_others_are_done(folder):
    runs = [(run.setting.label, run.seed) for run in comparing.compared_runs(own_name(str(folder)))]

    first_slow = runs.index(("RBFSVM", 0))

    assert {label for label, _ in runs[:first_slow]} == {
        "PixelRidge",
        "PatchRidge",
        "HOGSVM",
        "DCADL",
        "LOOADL",
    }
    assert all(sum(label == one for one, _ in runs[:first_slow]) == 2 for label, _ in runs[:first_slow])


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("5m", 300), ("1h", 3600), ("2", 120)])
def test_budgets_are_read(text, seconds):
    assert parse_budget(text) == seconds


@pytest.mark.parametrize("text", ["soon", "0s", "-3m"])
def test_other_budgets_are_refused(refused, folder, text):
    assert "--budget must be a time" in refused("compare", folder, f"--budget={text}")


def record(label, method, seed, accuracy):
    fields = {"status": "ok", "n_test": 100, "n_train": 400, "train_s": 1.0, "params": {}}
    return {"label": label, "method": method, "seed": seed, "accuracy": accuracy, **fields}


def folds(label, method, *accuracies):
    return [record(label, method, seed, accuracy) for seed, accuracy in enumerate(accuracies)]


@pytest.fixture
def judged(folder):
    return lambda *rows: comparing.verdict(own_name(str(folder)), [r for row in rows for r in row])


def test_a_clear_winner_is_to_be_used(judged):
    best = folds("LOOADL", "LOOADL", 0.97, 0.98, 0.97, 0.98, 0.97)
    other = folds("PatchRidge", "PatchRidge", 0.80, 0.82, 0.81, 0.80, 0.83)

    found = judged(other, best)

    assert [rival.label for rival in found.tied] == ["LOOADL"]
    assert any(line == "use: dcadl fit faces --method loo-adl" for line in lines(found, "faces"))


def test_ties_are_said_and_the_simplest_is_taken(judged):
    best = folds("LOOADL", "LOOADL", 0.92, 0.90, 0.93, 0.91, 0.90)
    other = folds("PatchRidge", "PatchRidge", 0.91, 0.91, 0.92, 0.90, 0.91)

    said = "\n".join(lines(judged(other, best), "faces"))

    assert "best: LOOADL; no clear difference to PatchRidge" in said
    assert "use: dcadl fit faces --method patch-ridge, the simplest of these that it fits" in said


def test_methods_whose_intervals_lie_apart_are_no_tie_however_few_the_folds(judged):
    best = folds("PixelRidge", "PixelRidge", 0.99, 1.0)
    other = folds("DCADL", "DCADL", 0.80, 0.95)

    found = judged(best, other)

    assert [rival.label for rival in found.tied] == ["PixelRidge"]
    assert "use: PixelRidge, which is not dcadl's; of dcadl's own DCADL" in lines(found, "rows.npz")


def test_an_outsider_that_wins_is_named(judged):
    best = folds("RBFSVM", "RBFSVM", 0.97, 0.98, 0.97, 0.98, 0.97)
    other = folds("DCADL", "DCADL", 0.80, 0.82, 0.81, 0.80, 0.83)

    assert "use: RBFSVM, which is not dcadl's; of dcadl's own DCADL" in lines(judged(best, other), "faces")


def test_a_pyramid_that_wins_is_fitted_by_its_option(judged):
    best = folds("PyramidRidge", "PyramidRidge", 0.97, 0.98, 0.97, 0.98, 0.97)
    other = folds("DCADL", "DCADL", 0.80, 0.82, 0.81, 0.80, 0.83)

    assert "use: dcadl fit scenes --features pyramid" in lines(judged(best, other), "scenes")


def test_pictures_that_are_large_enough_have_a_pyramid_as_fit_makes_it(folder, tmp_path):
    rng = np.random.default_rng(0)
    wave = [np.sin(np.mgrid[:50, :60][k % 2] + k) for k in range(20)]
    images = np.stack(wave) / 4 + 0.5 + 0.05 * rng.random((20, 50, 60))
    np.savez(tmp_path / "large.npz", images=np.uint8(200 * images), labels=np.arange(20) % 2)
    large, small = (
        {row.label: row for row in settings(own_name(str(p)))} for p in (tmp_path / "large.npz", folder)
    )

    model = build(large["PyramidRidge"], 0).fit(images[:16], np.arange(16) % 2)

    assert "PyramidRidge" not in small
    assert (model.predict(images[16:]) == np.arange(4) % 2).all()
    given = {"n_words": pyramids.WORDS, "n_descriptors": pyramids.DESCRIPTORS, "max_side": pyramids.MAX_SIDE}
    assert model.get_params() == {**given, "random_state": 0}


def test_one_fold_must_do_where_most_have_run_one_only(judged):
    rows = [
        folds("PixelRidge", "PixelRidge", 0.4, 0.4),
        folds("LOOADL", "LOOADL", 0.9),
        folds("DCADL", "DCADL", 0.4),
    ]

    said = lines(judged(*rows), "faces")

    assert "on 1 of 5 folds, 100 samples tested" in said
    assert "use: dcadl fit faces --method loo-adl" in said


def test_a_method_that_is_left_out_is_named(judged):
    rows = [
        folds("LOOADL", "LOOADL", 0.9, 0.9),
        folds("DCADL", "DCADL", 0.4, 0.4),
        folds("RBFSVM", "RBFSVM", 0.9),
    ]

    assert "not compared, for it had time for one fold only: RBFSVM" in lines(judged(*rows), "faces")


def test_methods_are_compared_on_the_folds_that_all_have_run(judged):
    slow = folds("LOOADL", "LOOADL", 0.9, 0.9)
    quick = folds("PatchRidge", "PatchRidge", 0.5, 0.5, 1.0, 1.0, 1.0)

    found = judged(slow, quick, folds("DCADL", "DCADL", 1.0))

    assert {rival.label: rival.accuracy for rival in found.rivals} == {"LOOADL": 0.9, "PatchRidge": 0.5}
    assert found.majority == pytest.approx(1 / 3, abs=0.1)


def test_own_data_go_through_compare_tune_bench_and_report(call, tmp_path, folder, monkeypatch):
    monkeypatch.setitem(comparing.own_config(), "compare", ["PatchRidge", "PixelRidge"])
    monkeypatch.chdir(tmp_path)

    result = call("compare", folder, "--budget", "2m", "-o", "c.jsonl", "--threads", 1)
    assert result.exit_code == 0, result.output
    assert "largest class" in result.stdout
    assert "on 5 of 5 folds, 36 samples tested" in result.stdout
    again = call("compare", folder, "--budget", "2m", "-o", "c.jsonl", "--threads", 1)
    assert again.stdout == result.stdout  # nothing is run twice
    assert len((tmp_path / "c.jsonl").read_text().splitlines()) == 10

    words = ("-m", "PatchRidge", "--repeats", 1, "--threads", 1)
    tuned = call("tune", folder, *words, "--budget", 0.05, "--folds", 2, "-o", "tuned.toml")
    assert tuned.exit_code == 0, tuned.output
    run = call("bench", folder, *words, "--tuned", "tuned.toml", "-o", "r.jsonl")
    assert run.exit_code == 0, run.output
    assert json.loads((tmp_path / "r.jsonl").read_text())["dataset"] == str(folder)
    page = call("report", "r.jsonl", "-o", "report")
    assert page.exit_code == 0, page.output
    assert folder.name in (tmp_path / "report" / "tables.md").read_text()
