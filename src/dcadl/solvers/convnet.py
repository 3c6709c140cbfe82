"""A small convolutional network on DCADL's patches, in torch: the control that learns by back-propagation.

| Here | Meaning |
|---|---|
| `P` | (n, p, d) normalised patches, the geometry of DCADL |
| `filters[0]` | (m, d) first layer: one product with all patches is a convolution without padding |
| `filters[1:]` | (m, m, 3, 3) further layers on the grid of patches, zero padded |
| `coef` | (C, p·m) fully connected layer |

Loss: cross-entropy, or ½‖Y − ·‖² a sample. SGD with momentum and weight decay; the rate falls to a tenth
at half and at three quarters of the epochs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from dcadl.arrays import Array, import_torch

KERNEL = 3  # side of the filters of layers two and three


class Problem(NamedTuple):
    """What stays fixed while we iterate."""

    P: Array  # (n, p, d)
    Y: Array  # (n, C) one-hot
    counts: tuple[int, int]  # patches down and across
    activate: Callable[[Array], Array]
    loss: Callable[[Array, Array], Array]
    batch_size: int
    order: Callable[[], np.ndarray]  # a new order of the samples for each epoch


class State(NamedTuple):
    """What moves: weights, the optimiser's memory of them, and the mean loss of each epoch so far."""

    weights: tuple[Array, ...]
    optimiser: Any
    schedule: Any
    trace: tuple[float, ...]


def activation(name: str, threshold: float) -> Callable[[Array], Array]:
    """What is done to the responses: nothing, ReLU, or the soft threshold of DCADL."""
    functional = import_torch("ConvNet").nn.functional
    options: dict[str, Callable[[Array], Array]] = {
        "identity": lambda x: x,
        "relu": functional.relu,
        "shrink": lambda x: functional.softshrink(x, threshold),
    }
    return options[name]


def loss_of(name: str) -> Callable[[Array, Array], Array]:
    """Mean loss of a batch from scores and one-hot labels."""
    functional = import_torch("ConvNet").nn.functional
    options: dict[str, Callable[[Array, Array], Array]] = {
        "cross_entropy": functional.cross_entropy,
        "squared": lambda scores, Y: 0.5 * ((Y - scores) ** 2).sum(dim=1).mean(),
    }
    return options[name]


def start(
    weights: Sequence[Array], *, learning_rate: float, momentum: float, weight_decay: float, epochs: int
) -> State:
    """Weights ready to move, and the optimiser that moves them."""
    torch = import_torch("ConvNet")
    moving = tuple(w.clone().requires_grad_(True) for w in weights)
    optimiser = torch.optim.SGD(moving, lr=learning_rate, momentum=momentum, weight_decay=weight_decay)
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimiser, [epochs // 2, 3 * epochs // 4], gamma=0.1)
    return State(moving, optimiser, schedule, ())


def step(problem: Problem, state: State) -> State:
    """One epoch. The weights move in place, as torch's optimisers do."""
    torch = import_torch("ConvNet")
    order = torch.from_numpy(problem.order()).to(problem.P.device)
    total = 0.0
    for batch in torch.split(order, problem.batch_size):
        state.optimiser.zero_grad()
        scores = forward(problem.P[batch], state.weights, problem.counts, problem.activate)
        loss = problem.loss(scores, problem.Y[batch])
        loss.backward()
        state.optimiser.step()
        total += float(loss.detach()) * len(batch)
    state.schedule.step()
    return state._replace(trace=(*state.trace, total / len(order)))


def forward(
    P: Array, weights: Sequence[Array], counts: tuple[int, int], activate: Callable[[Array], Array]
) -> Array:
    """Class scores (n, C). `weights`: filters and bias of each layer, then coef and intercept."""
    functional = import_torch("ConvNet").nn.functional
    *layers, coef, intercept = weights
    U = activate(P @ layers[0].T + layers[1])  # (n, p, m)
    for filters, bias in zip(layers[2::2], layers[3::2]):
        maps = U.transpose(1, 2).reshape(len(U), -1, *counts)
        maps = activate(functional.conv2d(maps, filters, bias, padding=KERNEL // 2))
        U = maps.flatten(2).transpose(1, 2)
    return U.reshape(len(U), -1) @ coef.T + intercept
