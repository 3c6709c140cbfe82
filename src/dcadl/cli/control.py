"""The control beside every fit: ridge regression on the pixels themselves, judged by exact leave-one-out."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dcadl.cli.reading_plan import by_turns

MOST_SIDE = 3_000  # of the matrix to be inverted, some ten times


class Control(NamedTuple):
    """Accuracy of plain ridge, and on how many samples it was judged."""

    accuracy: float
    n: int


def ridge_on_pixels(X: Any, y: Any, test: tuple[Any, Any] | None = None) -> Control:
    """Ridge from samples as they are to classes, λ by exact leave-one-out.

    Judged on `test` samples and their labels where they are given, else by leave-one-out. Where both samples
    and pixels are many, it is trained on some of the samples, by turns from every class.
    """
    from dcadl.arrays import one_blas_thread
    from dcadl.ops.standardise import Groups
    from dcadl.solvers.loo_ridge import fit_rows

    F = X.reshape(len(X), -1)
    classes, numbers = np.unique(y, return_inverse=True)
    if min(F.shape) > MOST_SIDE:
        chosen = np.sort(by_turns(numbers)[:MOST_SIDE])
        F, numbers = F[chosen], numbers[chosen]
    F = F.astype(np.float32, copy=False)
    Y = np.eye(len(classes), dtype=np.float32)[numbers]
    groups = Groups(np.zeros(F.shape[1], int), np.ones(1))
    with one_blas_thread():
        ridge, judged = fit_rows(F, Y, np.ones(len(F), np.float32), groups)
    if test is None:
        return Control(float(np.mean(judged.left_out.argmax(axis=1) == numbers)), len(F))
    scores = test[0].reshape(len(test[0]), -1) @ ridge.W.T + ridge.b
    return Control(float(np.mean(classes[scores.argmax(axis=1)] == test[1])), len(test[1]))
