"""PCANet's face: scikit-learn's checks, forms of input, files, bad input."""

import numpy as np
import pytest

import dcadl
from dcadl import PCANet


@pytest.mark.bits
@pytest.mark.parametrize("n_stages", [1, 2])
def test_digits_are_read_and_the_file_gives_the_same_scores(digits, tmp_path, n_stages):
    X, y = digits
    model = PCANet(n_stages=n_stages, filter_shape=3, n_filters=6, random_state=0).fit(X[:400], y[:400])

    model.save(tmp_path / "model")

    again = dcadl.load(tmp_path / "model")
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
    assert model.score(X[400:], y[400:]) > 0.8


def test_scores_are_the_features_times_the_coefficients(digits):
    X, y = digits
    model = PCANet(filter_shape=3, n_filters=5, random_state=0).fit(X[:300], y[:300])

    np.testing.assert_allclose(
        model.transform(X) @ model.coef_.T + model.intercept_,
        model.decision_function(X),
        rtol=1e-3,
        atol=1e-3,
    )


def test_each_histogram_sums_to_its_number_of_bins(digits):
    X, y = digits
    model = PCANet(filter_shape=3, n_filters=4, block_shape=4, block_overlap=0, random_state=0).fit(
        X[:100], y[:100]
    )

    np.testing.assert_allclose(model.transform(X[:5]).toarray().reshape(5, 4, 16).sum(axis=2), 16)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_precision_that_came_in_is_kept(digits, dtype):
    X, y = digits
    model = PCANet(filter_shape=3, n_filters=4).fit(X[:100].astype(dtype), y[:100])

    assert {model.filters_.dtype, model.coef_.dtype, model.intercept_.dtype} == {np.dtype(dtype)}


def test_images_and_rows_with_their_shape_give_the_same_model(digits):
    X, y = digits
    a = PCANet(filter_shape=3, n_filters=4, random_state=0).fit(X[:100], y[:100])
    b = PCANet(filter_shape=3, n_filters=4, random_state=0, image_shape=(8, 8)).fit(
        X[:100].reshape(100, -1), y[:100]
    )

    np.testing.assert_array_equal(a.coef_, b.coef_)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_stages": 3}, "n_stages must be 1 or 2"),
        ({"n_filters": (8, 8)}, "one for each of 1 stages"),
        ({"n_filters": 17}, "at most 16 in the last stage"),
        ({"filter_shape": (3, 3, 3)}, "filter_shape must be 2 integer"),
        ({"filter_shape": 0}, "filter_shape must be 2 integer"),
        ({"block_shape": 9}, "block_shape must fit"),
        ({"block_overlap": 1.0}, "less than 1"),
        ({"centre": "image"}, "centre must be one of"),
        ({"C": 0}, "C must be"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_bad_parameters_are_refused_with_what_was_expected(digits, parameters, message):
    X, y = digits

    with pytest.raises(ValueError, match=message):
        PCANet(**parameters).fit(X[:50], y[:50])
