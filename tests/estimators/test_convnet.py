"""ConvNet's face: scikit-learn's checks, determinism, files, bad input."""

import numpy as np
import pytest

import dcadl
from dcadl import ConvNet

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'dcadl[torch]'")

SMALL = {"n_filters": 8, "patch_shape": 4, "stride": 2, "max_iter": 8, "random_state": 0}


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Batches this small gain nothing from more, and idle threads spin against other tests."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.bits
@pytest.mark.parametrize("n_layers", [1, 3])
def test_training_lowers_the_loss_and_the_file_gives_the_same_scores(digits, tmp_path, n_layers):
    X, y = digits
    model = ConvNet(n_layers=n_layers, **SMALL).fit(X[:400], y[:400])

    model.save(tmp_path / "model")

    again = dcadl.load(tmp_path / "model")
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
    assert model.objective_[-1] < 0.7 * model.objective_[0]
    assert model.score(X[400:], y[400:]) > 0.5


@pytest.mark.parametrize("n_layers", [1, 3])
def test_one_seed_gives_one_model_and_another_seed_another(digits, n_layers):
    X, y = digits
    one, same, other = (
        ConvNet(n_layers=n_layers, **{**SMALL, "max_iter": 2, "random_state": seed}).fit(X[:200], y[:200])
        for seed in (0, 0, 1)
    )

    np.testing.assert_array_equal(one.coef_, same.coef_)
    assert not np.array_equal(one.coef_, other.coef_)


def test_fitting_leaves_torchs_own_random_numbers_alone(digits):
    X, y = digits
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)

    ConvNet(**{**SMALL, "max_iter": 1}).fit(X[:100], y[:100])

    assert torch.rand(1) == expected


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_precision_that_came_in_is_kept(digits, dtype):
    X, y = digits
    model = ConvNet(**{**SMALL, "max_iter": 1}).fit(X[:100].astype(dtype), y[:100])

    assert {a.dtype for a in (model.filters_, model.coef_, model.intercept_)} == {np.dtype(dtype)}


def test_normalised_patches_make_the_brightness_of_an_image_irrelevant(digits):
    X, y = digits
    model = ConvNet(**{**SMALL, "max_iter": 2}, normalize="patch").fit(X[:100], y[:100])

    np.testing.assert_allclose(model.decision_function(X[:9] * 3), model.decision_function(X[:9]), rtol=1e-4)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_layers": 2}, "n_layers must be 1 or 3"),
        ({"activation": "tanh"}, "activation must be one of"),
        ({"loss": "hinge"}, "loss must be one of"),
        ({"learning_rate": 0}, "learning_rate must be"),
        ({"backend": "numpy"}, "backend must be 'torch'"),
        ({"batch_size": 0}, "batch_size must be"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_bad_parameters_are_refused_with_what_was_expected(digits, parameters, message):
    X, y = digits

    with pytest.raises(ValueError, match=message):
        ConvNet(**parameters).fit(X[:50], y[:50])
