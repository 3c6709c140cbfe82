"""Learning curves: points where a method was run, names apart, a picture that opens."""

import io

import numpy as np
import pytest
from PIL import Image

from dcadl.bench.report.curve_picture import _spread, curve_picture
from dcadl.bench.report.curves import learning_curves
from dcadl.bench.report.summary import summarise


def _records(dataset, **accuracies):
    return [
        {
            "dataset": dataset,
            "group": "table",
            "status": "ok",
            "params": {},
            "n_train": 90,
            "n_test": 10,
            "label": label,
            "method": label,
            "seed": 0,
            "accuracy": accuracy,
        }
        for label, accuracy in accuracies.items()
    ]


@pytest.fixture
def curves():
    found = _records("extended_yaleb", DPL=0.98, DCADL=1.0)
    found += _records("extended_yaleb-5", DPL=0.7, DCADL=0.95, SADL=0.6)
    found += _records("digits", DPL=0.9) + _records("mnist", DPL=0.9) + _records("mnist-10", DPL=0.9)
    return learning_curves(summarise(found))


def test_only_data_sets_run_with_several_numbers_of_images_have_curves(curves):
    assert [found.name for found in curves] == ["extended_yaleb"]
    assert curves[0].title == "Extended YaleB"
    assert curves[0].images == [5, 32]


def test_a_line_has_the_error_wherever_the_method_was_run(curves):
    lines = {line.label: line for line in curves[0].lines}

    assert set(lines) == {"DPL", "DCADL"}  # one point is no line
    assert lines["DPL"].images == [5, 32]
    assert lines["DPL"].errors == pytest.approx([30.0, 2.0])


def test_the_picture_opens_and_is_the_same_each_time(curves):
    one, other = curve_picture(curves), curve_picture(curves)

    assert Image.open(io.BytesIO(one)).size[0] > 600
    assert one == other


@pytest.mark.parametrize(
    "heights", [[0.5] * 10, [0.1, 0.11, 0.9], [0.0, 0.01, 0.02], [0.98, 0.99, 1.0]], ids=str
)
def test_names_that_would_overlap_are_moved_apart_and_stay_in_order(heights):
    placed = np.array(_spread(heights, 0.04))

    assert (np.diff(placed) > 0.039).all()
    assert placed.min() >= 0
    assert placed.max() <= 1.03
