"""Training and test indices: a fixed number of each class, the same for every method and on every machine."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dcadl.data.errors import SmallClassesError


class Split(NamedTuple):
    """Indices of one split, ascending; what is not training is test."""

    train: Any
    test: Any


def split(y: Any, *, per_class: int | float, seed: int = 0, names: Sequence[str] | None = None) -> Split:
    """
    Training and test indices with `per_class` training samples of every class, drawn at random.

    The draw depends on the labels, `per_class` and `seed` only: methods compared under one seed see the same
    samples. It uses raw PCG64 bits, which NumPy keeps the same across versions and platforms. A larger
    `per_class` under the same seed adds to the training samples and removes none.

    Parameters
    ----------
    y : (n,) labels of any kind
    per_class : training samples of each class, or a share of it between 0 and 1
    seed : integer, 0 or more
    names : what classes are called in messages, for labels 0 … C-1
    """
    y = np.asarray(y)
    if y.ndim != 1 or y.size == 0:
        raise ValueError(f"labels must be one vector with at least one entry; got shape {y.shape}.")
    classes, target, sizes = np.unique(y, return_inverse=True, return_counts=True)
    wanted = _wanted(per_class, sizes)
    called = [str(c) for c in (classes if names is None else np.asarray(names)[classes])]
    _refuse_small(called, sizes, wanted)

    order = np.argsort(np.random.PCG64(_checked_seed(seed)).random_raw(len(y)), kind="stable")
    place = np.empty(len(y), dtype=np.intp)  # of each sample within its class, in drawing order
    for c in range(len(classes)):
        members = order[target[order] == c]
        place[members] = np.arange(len(members))
    chosen = place < wanted[target]
    return Split(np.flatnonzero(chosen), np.flatnonzero(~chosen))


def repeated_splits(
    y: Any, *, per_class: int | float, repeats: int = 10, seed: int = 0, names: Sequence[str] | None = None
) -> list[Split]:
    """Splits of seeds seed, seed+1, …; scikit-learn takes the list as `cv`."""
    if repeats < 1:
        raise ValueError(f"repeats must be at least 1; got {repeats}.")
    return [split(y, per_class=per_class, seed=seed + i, names=names) for i in range(repeats)]


def _wanted(per_class: int | float, sizes: Any) -> Any:
    """Training samples of each class."""
    if isinstance(per_class, bool) or not isinstance(per_class, int | float | np.integer | np.floating):
        raise ValueError(
            f"per_class must be a number of samples or a share between 0 and 1; got {per_class!r}."
        )
    if isinstance(per_class, int | np.integer):
        if per_class < 1:
            raise ValueError(f"per_class must be at least 1; got {per_class}.")
        return np.full(len(sizes), per_class)
    if not 0 < per_class < 1:
        raise ValueError(f"a share of each class must lie between 0 and 1; got {per_class}.")
    return np.rint(per_class * sizes).astype(np.intp)


def _refuse_small(called: list[str], sizes: Any, wanted: Any) -> None:
    """Every class needs a training sample and one more to test on."""
    small = [
        f"{name} ({size})" for name, size, want in zip(called, sizes, wanted) if want < 1 or want >= size
    ]
    if small:
        raise SmallClassesError(
            "each class needs its training samples and at least one more for testing; "
            f"too small (samples): {', '.join(small)}.",
            "Lower per_class or leave these classes out.",
        )


def _checked_seed(seed: int) -> int:
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise ValueError(f"seed must be an integer, 0 or more; got {seed!r}.")
    return int(seed)
