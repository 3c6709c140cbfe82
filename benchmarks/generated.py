"""
Picture sets made by a few lines each, for what no shared data set shows: a defect anywhere on a surface,
objects seen from all sides, faces that are not quite aligned, colour, brightness, counts, signals. Every draw
is new.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.ndimage import gaussian_filter, gaussian_filter1d, shift

from dcadl.bench.datasets import Fold

Draw = Callable[[np.random.Generator, int], tuple[np.ndarray, np.ndarray]]


class Made(NamedTuple):
    """A set: `draw(rng, per_class)` gives new images and their labels; classes stay the same."""

    draw: Draw
    per_class: int
    tested: int = 60


def scratches(side: int = 48, contrast: float = 0.7, length: int = 14) -> Draw:
    """Noise textures under constant light; every other one has a thin scratch anywhere, at any angle."""

    def draw(rng: np.random.Generator, per_class: int) -> tuple[np.ndarray, np.ndarray]:
        y = np.arange(2 * per_class) % 2
        X = np.stack([_texture(rng, side) for _ in y])
        for image, scratched in zip(X, y):
            if scratched:
                _scratch(rng, image, contrast, length)
        return X, y

    return draw


def _texture(rng: np.random.Generator, side: int, sigma: float | tuple[float, float] = 1.0) -> np.ndarray:
    noise = gaussian_filter(rng.normal(size=(side + 16, side + 16)), sigma)[8:-8, 8:-8]
    return 0.5 + 0.12 * noise / noise.std()


def _scratch(rng: np.random.Generator, image: np.ndarray, contrast: float, length: int) -> None:
    side, angle = len(image), rng.uniform(0, np.pi)
    middle = rng.uniform(length / 2, side - length / 2, size=2)
    for step in np.linspace(-length / 2, length / 2, 3 * length):
        place = np.round(middle + step * np.array([np.sin(angle), np.cos(angle)]))
        i, j = np.clip(place, 0, side - 1).astype(int)
        image[i, j] = 0.5 + contrast * 0.5


def textures(classes: int = 6, side: int = 32) -> Draw:
    """Surfaces that differ in the grain of their noise alone."""
    grains = [(0.6 + 0.25 * (k // 2), 0.6 + 0.25 * (k // 2) + 0.25 * (k % 2)) for k in range(classes)]

    def draw(rng: np.random.Generator, per_class: int) -> tuple[np.ndarray, np.ndarray]:
        y = np.arange(classes * per_class) % classes
        return np.stack([_texture(rng, side, grains[k]) for k in y]), y

    return draw


def objects(classes: int = 20, side: int = 32) -> Draw:
    """Clouds of bright and dark balls on a turntable, seen from any side, those in front hiding others."""
    fixed = np.random.default_rng(1)
    clouds = [(fixed.normal(size=(14, 3)) * 0.38, fixed.uniform(0.08, 0.25, 14), fixed.uniform(0.2, 1, 14))
              for _ in range(classes)]  # fmt: skip
    at = (np.arange(side) + 0.5) / side * 2 - 1

    def view(cloud: tuple[np.ndarray, np.ndarray, np.ndarray], angle: float) -> np.ndarray:
        places, radii, lights = cloud
        x = places[:, 0] * np.cos(angle) - places[:, 1] * np.sin(angle)
        depth = places[:, 0] * np.sin(angle) + places[:, 1] * np.cos(angle)
        image = np.zeros((side, side))
        for k in np.argsort(depth):
            away = (at[None, :] - x[k]) ** 2 + (at[:, None] - places[k, 2]) ** 2
            inside = away < radii[k] ** 2
            image[inside] = (lights[k] * (1 - 0.6 * away / radii[k] ** 2))[inside]
        return gaussian_filter(image, 0.5)

    def draw(rng: np.random.Generator, per_class: int) -> tuple[np.ndarray, np.ndarray]:
        y = np.arange(classes * per_class) % classes
        return np.stack([view(clouds[k], rng.uniform(0, 2 * np.pi)) for k in y]), y

    return draw


def faces(classes: int = 40, shape: tuple[int, int] = (44, 36), light: float = 0.5) -> Draw:
    """Smooth patterns, one for each person around what all share, shifted, bent, lit from one side."""
    fixed = np.random.default_rng(2)

    def smooth(rng: np.random.Generator, sigma: float) -> np.ndarray:
        field = gaussian_filter(rng.normal(size=shape), sigma)
        return field / field.std()

    shared = 1.5 * smooth(fixed, 4)
    people = [shared + 0.7 * smooth(fixed, 2) + 0.3 * smooth(fixed, 1) for _ in range(classes)]
    down, right = np.meshgrid(*(np.linspace(-1, 1, side) for side in shape), indexing="ij")

    def draw(rng: np.random.Generator, per_class: int) -> tuple[np.ndarray, np.ndarray]:
        y = np.arange(classes * per_class) % classes
        X = []
        for k in y:
            moved = shift(people[k] + 0.5 * smooth(rng, 3), rng.normal(size=2) * 1.2, order=1, mode="nearest")
            lit = np.exp(light * (rng.normal() * down + rng.normal() * right))
            X.append((moved + 3) * lit + 0.1 * rng.normal(size=shape))
        return np.stack(X), y

    return draw


def colours(classes: int = 5, side: int = 24) -> Draw:
    """The same blob anywhere, whose colour is the class; another colour beside it."""
    hues = np.stack(
        [0.5 + 0.4 * np.cos(2 * np.pi * (k / classes + np.arange(3) / 3)) for k in range(classes)]
    )

    def draw(rng: np.random.Generator, per_class: int) -> tuple[np.ndarray, np.ndarray]:
        y = np.arange(classes * per_class) % classes
        X = 0.3 + 0.1 * rng.normal(size=(len(y), side, side, 3))
        rows, columns = np.mgrid[:side, :side]
        for image, k in zip(X, y):
            for hue in (rng.uniform(0.1, 0.9, 3), hues[k]):
                i, j = rng.uniform(5, side - 5, 2)
                inside = (rows - i) ** 2 + (columns - j) ** 2 < (12 if hue is hues[k] else 8)
                image[inside] = hue + 0.05 * rng.normal(size=(inside.sum(), 3))
        return X, y

    return draw


def brightness(classes: int = 3, side: int = 24) -> Draw:
    """Surfaces of the same grain that differ in how bright they are."""

    def draw(rng: np.random.Generator, per_class: int) -> tuple[np.ndarray, np.ndarray]:
        y = np.arange(classes * per_class) % classes
        light = 0.25 * y + 0.06 * rng.normal(size=len(y))
        return np.stack([a + _texture(rng, side) for a in light]), y

    return draw


def counts(classes: int = 5, side: int = 32) -> Draw:
    """One dot anywhere, or two, or up to as many as there are classes, apart from each other."""
    rows, columns = np.mgrid[:side, :side]

    def draw(rng: np.random.Generator, per_class: int) -> tuple[np.ndarray, np.ndarray]:
        y = np.arange(classes * per_class) % classes
        X = 0.1 * rng.normal(size=(len(y), side, side))
        for image, k in zip(X, y):
            places = np.empty((0, 2))
            while len(places) <= k:
                place = rng.uniform(3, side - 3, 2)
                if (np.linalg.norm(places - place, axis=1) > 6).all():
                    places = np.vstack([places, place])
                    image[(rows - place[0]) ** 2 + (columns - place[1]) ** 2 < 5] += 1.0
        return X, y

    return draw


def signals(classes: int = 4, length: int = 128) -> Draw:
    """Noise with one short chirp anywhere, whose pitch rises or falls, slow or fast."""

    def draw(rng: np.random.Generator, per_class: int) -> tuple[np.ndarray, np.ndarray]:
        y = np.arange(classes * per_class) % classes
        X = gaussian_filter1d(rng.normal(size=(len(y), length)), 1.0, axis=1)
        time = np.linspace(0, 1, 32)
        for row, k in zip(X, y):
            begin = rng.integers(0, length - 32)
            low, high = ((3, 9), (9, 3), (4, 5), (10, 11))[k % 4]
            chirp = np.sin(2 * np.pi * (low + (high - low) * time / 2) * time + rng.uniform(0, 6.3))
            row[begin : begin + 32] += 1.5 * np.hanning(32) * chirp
        return X, y

    return draw


def draw_fold(made: Made, seed: int) -> Fold:
    """Images to train on and to test on, all new."""
    X, y = made.draw(np.random.default_rng(seed), made.per_class + made.tested)
    train = np.concatenate([np.flatnonzero(y == k)[: made.per_class] for k in np.unique(y)])
    test = np.setdiff1d(np.arange(len(y)), train)
    X = X.astype(np.float32)
    return Fold(X[train], y[train], X[test], y[test], test)


SETS: dict[str, Made] = {
    "scratch anywhere": Made(scratches(), 100, 300),
    "faint scratch": Made(scratches(contrast=0.45), 150, 300),
    "textures": Made(textures(), 15, 100),
    "objects": Made(objects(), 10, 40),
    "faces": Made(faces(), 5, 20),
    "faces, few": Made(faces(classes=100, shape=(28, 22)), 3, 10),
    "colours": Made(colours(), 15, 100),
    "brightness": Made(brightness(), 15, 60),
    "counts": Made(counts(), 40, 60),
    "signals": Made(signals(), 30, 100),
}
