"""The network's forward pass against SciPy's correlation, and its losses against their formulas."""

import builtins

import numpy as np
import pytest
from scipy.ndimage import correlate

from dcadl.ops.patches import patch_grid, take_patches
from dcadl.solvers import convnet

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'dcadl[torch]'")


def _tensors(*arrays):
    return [torch.from_numpy(a) for a in arrays]


def test_one_layer_is_a_strided_correlation_with_dcadls_geometry(rng):
    images, filters, bias = (
        rng.standard_normal((2, 7, 6)),
        rng.standard_normal((3, 3, 3)),
        rng.standard_normal(3),
    )
    grid = patch_grid((7, 6), 3, 2)
    P = take_patches(images.reshape(2, -1), grid)
    eye, none = np.eye(grid.p * 3), np.zeros(grid.p * 3)

    found = convnet.forward(
        torch.from_numpy(P), _tensors(filters.reshape(3, -1), bias, eye, none), grid.counts, lambda x: x
    )

    dense = np.array([[correlate(image, f)[1:-1, 1:-1][::2, ::2] for f in filters] for image in images])
    expected = (dense + bias[:, None, None]).reshape(2, 3, -1).transpose(0, 2, 1)
    np.testing.assert_allclose(found.numpy(), expected.reshape(2, -1), atol=1e-12)


def test_a_further_layer_is_a_padded_correlation_on_the_grid_of_patches(rng):
    U, filters, bias = (
        rng.standard_normal((2, 12, 2)),
        rng.standard_normal((2, 2, 3, 3)),
        rng.standard_normal(2),
    )
    identity, none = np.eye(2), np.zeros(2)

    found = convnet.forward(
        torch.from_numpy(U),
        _tensors(identity, none, filters, bias, np.eye(24), np.zeros(24)),
        (3, 4),
        lambda x: x,
    )

    maps = U.transpose(0, 2, 1).reshape(2, 2, 3, 4)
    expected = [
        [sum(correlate(x[i], filters[o, i], mode="constant") for i in range(2)) + bias[o] for o in range(2)]
        for x in maps
    ]
    expected = np.array(expected).reshape(2, 2, 12).transpose(0, 2, 1).reshape(2, -1)
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-12)


def test_the_losses_are_their_formulas(rng):
    scores, Y = rng.standard_normal((4, 3)), np.eye(3)[[0, 2, 1, 1]]

    entropy = convnet.loss_of("cross_entropy")(*_tensors(scores, Y))
    squared = convnet.loss_of("squared")(*_tensors(scores, Y))

    log_share = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
    assert float(entropy) == pytest.approx(-(log_share * Y).sum() / 4)
    assert float(squared) == pytest.approx(0.5 * ((Y - scores) ** 2).sum() / 4)


@pytest.mark.parametrize(
    ("name", "expected"), [("identity", [-2, 0.5, 2]), ("relu", [0, 0.5, 2]), ("shrink", [-1, 0, 1])]
)
def test_activations_are_their_formulas(name, expected):
    found = convnet.activation(name, 1.0)(torch.tensor([-2.0, 0.5, 2.0]))

    assert found.tolist() == pytest.approx(expected)


def test_a_missing_torch_is_named_with_its_extra(monkeypatch):
    real = builtins.__import__

    def without_torch(name, *rest, **kwargs):
        if name == "torch":
            raise ImportError(name)
        return real(name, *rest, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_torch)

    with pytest.raises(ValueError, match=r"dcadl\[torch\]"):
        convnet.import_torch()
