"""DCADL and LOO-ADL on a GPU: NumPy's model, recorded or not. Without a device these skip, and say why."""

from __future__ import annotations

import numpy as np
import pytest

from dcadl import DCADL, LOOADL
from dcadl.arrays import cuda_graphs

MANY = {"n_atoms": 60, "patch_shape": 4}  # 540 features of a digit: the classifier takes steps
FAST = MANY | {"stride": 2, "max_iter": 6, "tol": 0.0, "random_state": 0}


@pytest.fixture(params=["torch:cuda", "cupy"])
def gpu(request):
    """A backend whose device is there."""
    if request.param == "cupy":
        cupy = pytest.importorskip("cupy", reason="cupy is not installed")
        if not cupy.is_available():
            pytest.skip("cupy finds no GPU")
    else:
        torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'dcadl[torch]'")
        if not torch.cuda.is_available():
            pytest.skip("torch finds no GPU")
    return request.param


@pytest.fixture
def wide_digits(digits):
    """Digits in float64: differences beyond rounding show."""
    return digits[0].astype(np.float64), digits[1]


def gap(a, b):
    return np.linalg.norm(a - b) / np.linalg.norm(b)


@pytest.mark.parametrize("weighted", [False, True])
def test_every_fit_in_a_row_gives_numpys_model(gpu, wide_digits, weighted):
    """What runs for the first time is run eagerly; from then on it is recorded and replayed."""
    X, y = wide_digits
    weight = np.linspace(0.5, 1.5, len(y)) if weighted else None
    home = DCADL(**FAST).fit(X, y, sample_weight=weight)

    for _ in range(3):
        away = DCADL(**FAST, backend=gpu).fit(X, y, sample_weight=weight)
        assert gap(away.atoms_, home.atoms_) < 1e-8
        assert gap(away.coef_, home.coef_) < 1e-8
        np.testing.assert_allclose(away.objective_, home.objective_, rtol=1e-8)
        np.testing.assert_array_equal(away.predict(X), home.predict(X))


def test_loo_adl_chooses_and_learns_as_on_numpy(gpu, wide_digits):
    X, y = wide_digits

    home, away = (LOOADL(n_atoms=8, max_iter=3, random_state=0, backend=b).fit(X, y) for b in ("numpy", gpu))

    assert home.learned_
    assert (away.patch_shape_, away.normalize_, away.pool_) == (
        home.patch_shape_,
        home.normalize_,
        home.pool_,
    )
    assert gap(away.atoms_, home.atoms_) < 1e-8
    np.testing.assert_allclose(away.objective_, home.objective_, rtol=1e-8)
    np.testing.assert_allclose(away.decision_function(X), home.decision_function(X), atol=1e-8)


def test_single_precision_agrees_to_four_digits(gpu, rng):
    """720 features by steps, no more atoms than a patch has values: W is certain."""
    y = np.arange(400) % 10
    X = rng.standard_normal((10, 16, 16))[y] + rng.standard_normal((400, 16, 16))
    setting = FAST | {"n_atoms": 20, "patch_shape": 6}

    home, away = (DCADL(**setting, backend=b).fit(X.astype(np.float32), y) for b in ("numpy", gpu))

    assert gap(away.atoms_, home.atoms_) < 1e-4
    assert gap(away.coef_, home.coef_) < 1e-4


@pytest.mark.parametrize("gpu", ["torch:cuda"], indirect=True)
def test_a_recording_changes_nothing(gpu, wide_digits, monkeypatch):
    made, record = [], cuda_graphs._record
    monkeypatch.setattr(cuda_graphs, "_record", lambda *given: made.append(given) or record(*given))
    DCADL(**FAST, backend=gpu).fit(*wide_digits)
    recorded = DCADL(**FAST, backend=gpu).fit(*wide_digits)
    assert made

    made.clear()
    monkeypatch.setattr(cuda_graphs, "MOST_BYTES", 0)
    plain = DCADL(**FAST, backend=gpu).fit(*wide_digits)
    assert not made
    assert gap(recorded.atoms_, plain.atoms_) < 1e-12
    assert gap(recorded.coef_, plain.coef_) < 1e-10


def test_another_data_set_of_the_same_shape_is_not_taken_for_the_recorded_one(gpu, wide_digits):
    X, y = wide_digits
    half = len(y) // 2
    halves = [(X[:half], y[:half]), (X[half : 2 * half], y[half : 2 * half])]

    for part in halves * 2:
        home, away = (DCADL(**FAST, backend=backend).fit(*part) for backend in ("numpy", gpu))
        assert gap(away.coef_, home.coef_) < 1e-8
