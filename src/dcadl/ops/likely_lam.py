"""Where to look for the λ of least leave-one-out error: one in four samples says it."""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from dcadl.ops.ridge import ALL, FIRST, LEAST, MOST, Each, Samples, System, loss, search_lam, solve, taken

PART = 4  # one in so many samples says where to look for λ
GOLDEN = 0.6180339887498949  # multiples of it, modulo 1, fall in step with no order of the classes


def likely_lam(samples: Samples, system: System, each: Each = map) -> float:
    """Of the valleys that the error of a part of the samples has, the one that is lowest for all of them."""
    valleys = _valleys(*_part_of(samples, system), each)
    if len(valleys) == 1:
        return valleys[0]
    return min(zip(each(lambda lam: loss(solve(samples, system, lam).e, samples.total), valleys), valleys))[1]


def _valleys(samples: Samples, system: System, each: Each) -> list[float]:
    """Every λ whose error is lower than that of its neighbours, half a decade away.

    In units of τ they hardly depend on how many samples there are: on faces, digits and MNIST those of a
    quarter are mostly those of all, or half a decade off. Codes that are all but linear can have two.
    """
    error = cache(lambda lam: loss(solve(samples, system, lam).e, samples.total))
    decades = [10.0**x for x in np.arange(LEAST, MOST + 1)]
    found = [math.inf, *each(error, decades), math.inf]
    low = [lam for lam, *near in zip(decades, found, found[1:], found[2:]) if near[1] <= min(near)]
    return sorted({search_lam(error, lam) for lam in low}) or [10.0**FIRST]


def _part_of(samples: Samples, system: System) -> tuple[Samples, System]:
    """One in four samples, and what `system` would be of them in the same units."""
    n = int(samples.F.shape[0])
    places = np.flatnonzero(np.arange(n) * GOLDEN % 1 < 1 / PART)
    some = samples.some(places)
    if system.FY is None:
        return some, system._replace(K=taken(taken(system.K, places), places, axis=1))
    F = some.block(ALL)
    return some, System(F.T @ F / system.tau, system.tau, F.T @ some.Y / system.tau)
