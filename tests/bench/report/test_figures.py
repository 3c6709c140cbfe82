"""What the charts show is what the records hold."""

from collections import Counter

import numpy as np
import pytest

from dcadl.bench.datasets import fold, load_dataset
from dcadl.bench.records import read
from dcadl.bench.report.figures import chart_data, confused_pairs
from dcadl.bench.report.summary import summarise


@pytest.fixture
def summary(recorded):
    return summarise(read(recorded))[0]


def test_a_confusion_matrix_has_every_test_sample_once(summary):
    shown = chart_data(summary)["confusions"][0]

    shares = np.zeros((10, 10))
    for true, found, share in shown["cells"]:
        shares[true, found] += share
    np.testing.assert_allclose(shares.sum(axis=1), 100, atol=0.05)
    counts = np.sum([r["test_counts"] for r in summary.rows[0].records], axis=0)
    accuracy = (np.diag(shares) * counts).sum() / counts.sum()
    assert accuracy == pytest.approx(100 * summary.rows[0].mean("accuracy"), abs=0.05)


def test_the_most_confused_pair_is_counted_over_all_seeds(summary):
    first = confused_pairs(summary, summary.rows[0])[0]

    totals = Counter()
    for record in summary.rows[0].records:
        totals.update({(t, f): n for t, f, n in record["confusions"]})
    assert first["count"] == max(totals.values())
    assert first["example"].startswith("data:image/png")


def test_errors_point_at_test_samples_of_their_class(summary):
    data = load_dataset("digits")
    for record in summary.rows[0].records:
        places = [place for place, _, _ in record["errors"]]
        assert set(places) <= set(fold(data, record["seed"]).test.tolist())
        assert data.y[places].tolist() == [true for _, true, _ in record["errors"]]


def test_every_seed_has_its_dot(summary):
    shown = chart_data(summary)["seeds"][0]

    values = [100 * v for v in summary.rows[0].values("accuracy")]
    assert shown["values"] == pytest.approx(values, abs=1e-3)
    assert shown["mean"] == pytest.approx(np.mean(values), abs=1e-3)


def test_an_error_of_nothing_has_a_place_on_a_logarithmic_axis(summary):
    for record in summary.rows[0].records:
        record["accuracy"] = 1.0

    assert 0 < chart_data(summary)["points"][0]["error"] < 0.1


def test_times_that_nobody_measured_cannot_be_chosen(summary):
    for row in summary.rows:
        for record in row.records:
            record["test_given_s"] = None

    assert set(chart_data(summary)["times"]) == {"train_s", "test_batch_s"}


def test_convergence_draws_what_json_and_a_logarithm_can_hold(summary):
    row = summary.rows[0]
    row.records[0]["objective"] = [float("inf"), 1e18, 8.0, 4.0]

    assert chart_data(summary)["convergence"][0]["values"] == [None, 2.5e17, 1.0, None]


def test_a_class_without_a_sample_here_has_no_example(summary, monkeypatch):
    data = load_dataset("digits")
    first = confused_pairs(summary, summary.rows[0])[0]
    fewer = data._replace(y=np.where(data.y == int(first["found"]), -1, data.y))
    monkeypatch.setattr("dcadl.bench.report.figures.load_dataset", lambda name: fewer)

    assert confused_pairs(summary, summary.rows[0])[0]["typical"] is None


def test_records_that_keep_places_alone_give_the_same_confusions(summary):
    row = summary.rows[0]
    first = [r for r in row.records if r["seed"] == 0]
    older = [{key: value for key, value in r.items() if key != "confusions"} for r in first]

    found = [chart_data(summary._replace(rows=[row._replace(records=each)])) for each in (first, older)]

    assert sorted(found[0]["confusions"][0]["cells"]) == sorted(found[1]["confusions"][0]["cells"])
