"""SpatialPyramid: pictures of differing sizes → feature rows of one length, in scikit-learn's manner."""

import json
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from numbers import Real
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from dcadl.arrays import one_blas_thread
from dcadl.data.errors import FewWordsError, shortened
from dcadl.data.mat import read_arrays
from dcadl.data.npz import write_npz
from dcadl.data.parallel import parallel_map, with_progress
from dcadl.features.cache import ArrayCache, digest
from dcadl.features.checks import check_integer, check_learned
from dcadl.features.codebook import learn_words, sample_descriptors
from dcadl.features.image_inputs import ImageInput, as_image_list, grey_image, image_name
from dcadl.features.pca import Directions, principal_directions, project
from dcadl.features.pooling import Cells, Pooling, pool
from dcadl.features.sift import PatchCentres, dense_sift, root_sift
from dcadl.features.word_coding import hard_coder, llc_coder

VERSION = 1  # part of every cache key: raise it when the same parameters give other features
CHUNK = 128  # images projected at once; bounds what `transform` holds besides its result


class SpatialPyramid(TransformerMixin, BaseEstimator):
    """
    Dense SIFT, coded in visual words, pooled on a spatial pyramid, optionally reduced by PCA.

    Codebook and PCA are learned from the images given to `fit`: give it training images only.

    Parameters
    ----------
    n_words : size of the codebook
    levels : cells along each side on every level, such as (1, 2, 4) or (1, 2, 4, 8)
    coding : "llc" (locality-constrained, `neighbours` words for each patch) or "hard" (the nearest word)
    pooling : "max" or "mean" over the patches of a cell
    patch, step : side and distance of the SIFT patches in pixels
    contrast : patches with less gradient than this (grey range 1) get short descriptors instead of noisy ones
    root : take RootSIFT, the square root of each descriptor over its sum, instead of SIFT
    max_side : larger pictures are shrunk to this
    neighbours : words of one LLC code
    n_components : PCA to this many dimensions, or to as many as the training images span; None for no PCA
    n_descriptors : how many descriptors the codebook is learned from
    transductive : the literature's variant that also sees the test images. `fit` then takes them as
        `unlabelled`, and the output is named so (`protocol_`, `get_feature_names_out`, saved files)
    cache_dir : folder for codebooks and pooled features, by content of images and parameters, so that an
        interrupted run goes on where it stopped; None keeps nothing
    n_jobs : threads; -1 is every core
    progress : draw a bar; None draws it on a terminal only
    random_state : seed of the codebook

    Attributes
    ----------
    codebook_ : (n_words, 128) the visual words
    directions_ : centre and components of the PCA, or None
    n_features_out_ : length of a feature row
    protocol_ : "inductive" or "transductive"
    """

    def __init__(
        self,
        *,
        n_words: int = 1024,
        levels: Sequence[int] = (1, 2, 4),
        coding: Literal["llc", "hard"] = "llc",
        pooling: Pooling = "max",
        patch: int = 16,
        step: int = 6,
        contrast: float = 0.5,
        root: bool = False,
        max_side: int = 300,
        neighbours: int = 5,
        n_components: int | None = None,
        n_descriptors: int = 200_000,
        transductive: bool = False,
        cache_dir: str | Path | None = None,
        n_jobs: int | None = -1,
        progress: bool | None = None,
        random_state: Any = 0,
    ) -> None:
        self.n_words = n_words
        self.levels = levels
        self.coding = coding
        self.pooling = pooling
        self.patch = patch
        self.step = step
        self.contrast = contrast
        self.root = root
        self.max_side = max_side
        self.neighbours = neighbours
        self.n_components = n_components
        self.n_descriptors = n_descriptors
        self.transductive = transductive
        self.cache_dir = cache_dir
        self.n_jobs = n_jobs
        self.progress = progress
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, *, unlabelled: Any = None) -> Self:
        """Learn the words, and the PCA where there is one, from images X (files or arrays); y is not used."""
        self._fit(X, unlabelled)
        return self

    def fit_transform(self, X: Any, y: Any = None, *, unlabelled: Any = None) -> Any:
        """Features of X after `fit`, without computing its pooled codes twice."""
        pooled = self._fit(X, unlabelled)
        return self.transform(X) if pooled is None else self._finish(pooled[: len(X)])

    def transform(self, X: Any) -> Any:
        """Features (n, n_features_out_) float32, rows of length 1."""
        check_is_fitted(self)
        images = as_image_list(X)
        return self._stack(self._finished(images), len(images))

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Names of the columns, which tell the protocol."""
        check_is_fitted(self)
        return np.array([f"pyramid_{self.protocol_}_{i}" for i in range(self.n_features_out_)], dtype=object)

    def save(self, path: str | Path) -> None:
        """Write the fitted pyramid to a `.npz` file of plain arrays."""
        check_is_fitted(self)
        if Path(path).suffix != ".npz":
            raise ValueError(f"a pyramid is saved to a .npz file; got {path}.")
        parameters, arrays = self.contents()
        write_npz(path, {**arrays, "parameters": np.array(as_json(parameters))})

    @classmethod
    def load(cls, path: str | Path, **changes: Any) -> Self:
        """A fitted pyramid from `save`; `changes` may set n_jobs, progress or cache_dir."""
        arrays = read_arrays(path)
        try:
            return cls.from_contents(json.loads(str(arrays["parameters"])), arrays, **changes)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
            raise ValueError(
                f"{path} is not a saved SpatialPyramid; it holds {shortened(', '.join(arrays))}."
            ) from error

    def contents(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """What a file must hold of a fitted pyramid: its parameters, and its arrays by name."""
        check_is_fitted(self)
        arrays = {"codebook": self.codebook_}
        return self._parameters(), arrays | ({} if self.directions_ is None else self.directions_._asdict())

    @classmethod
    def from_contents(cls, parameters: dict[str, Any], arrays: Mapping[str, Any], **changes: Any) -> Self:
        """The fitted pyramid of these contents; those that no fit gives are refused."""
        pyramid = cls(**parameters, **changes)
        pyramid._check_parameters()
        directions = Directions(arrays["mean"], arrays["components"]) if "components" in arrays else None
        check_learned(pyramid, arrays["codebook"], directions)
        pyramid._adopt(arrays["codebook"], directions)
        return pyramid

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        tags.input_tags.string = True
        tags.no_validation = True
        return tags

    # --- how fitting goes

    def _fit(self, X: Any, unlabelled: Any) -> Any:
        """Fit; give the pooled codes of the images where the PCA needed them, else None."""
        self._check_parameters()
        if unlabelled is not None and not self.transductive:
            raise ValueError("unlabelled images are for the transductive variant: set transductive=True.")
        images = as_image_list(X) + ([] if unlabelled is None else as_image_list(unlabelled))
        self._adopt(self._words(images), None)
        if self.n_components is None:
            return None
        pooled = self._stack(self._pooled(images), len(images))
        directions = principal_directions(pooled, self.n_components)
        if len(directions.components) < self.n_components:
            warnings.warn(
                f"{len(images)} images span {len(directions.components)} directions, "
                f"fewer than n_components={self.n_components}; these are kept.",
                stacklevel=3,
            )
        self._adopt(self.codebook_, directions)
        return pooled

    def _adopt(self, codebook: Any, directions: Directions | None) -> None:
        """Take what was learned, and set all that follows from it."""
        self.codebook_, self.directions_ = codebook, directions
        cells = sum(level * level for level in self.levels)
        self.n_features_out_ = cells * len(codebook) if directions is None else len(directions.components)
        self.protocol_ = "transductive" if self.transductive else "inductive"

    def _words(self, images: list[ImageInput]) -> Any:
        """The codebook of these images, from the cache where it is there."""
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        quota = -(-self.n_descriptors // len(images))

        def sample(index: int, image_input: ImageInput) -> Any:
            return sample_descriptors(
                self._describe(self._image(index, image_input))[0], quota, (seed, index)
            )

        cache = ArrayCache(self.cache_dir)
        key = "" if self.cache_dir is None else self._words_key(images, seed, quota)
        words = cache.get(key)
        if words is None:
            drawn = with_progress(self._map(sample, images), len(images), "sampling", self.progress)
            words = learn_words(drawn, self.n_words, seed)
            cache.put(key, words)
        return words

    def _words_key(self, images: list[ImageInput], seed: int, quota: int) -> str:
        """What a codebook is kept under: all that it is learned from."""
        contents = self._map(lambda index, image_input: digest(self._image(index, image_input)), images)
        return digest("words", self._recipe(), self.n_words, seed, quota, *contents)

    # --- from one image to one row

    def _pooled(self, images: list[ImageInput], first: int = 0) -> Iterator[Any]:
        """Pooled codes of each image, of length 1, in order."""
        cache = ArrayCache(self.cache_dir)
        words, made_by = self.codebook_, digest(self._recipe(), self.codebook_)
        code = hard_coder(words) if self.coding == "hard" else llc_coder(words, self.neighbours)

        def row(index: int, image_input: ImageInput) -> Any:
            image = self._image(index, image_input)
            key = digest(made_by, image)
            pooled = cache.get(key)
            if pooled is None:
                descriptors, grid = self._describe(image)
                cells = Cells(grid, image.shape, self.levels)
                pooled = pool(code(descriptors), len(words), cells, self.pooling)
                cache.put(key, pooled)
            return unit_rows(pooled)

        return self._map(row, images, first)

    def _stack(self, rows: Iterator[Any], n: int) -> Any:
        """Rows as one array, counted on the progress bar."""
        stacked = np.empty((n, self.n_features_out_), dtype=np.float32)
        for i, row in enumerate(with_progress(rows, n, "coding images", self.progress)):
            stacked[i] = row
        if not np.isfinite(stacked).all():
            raise ValueError("features overflowed: the pyramid's words or directions are too large.")
        return stacked

    def _finished(self, images: list[ImageInput]) -> Iterator[Any]:
        """Feature rows, a chunk at a time: between chunks the projection has all cores."""
        for start in range(0, len(images), CHUNK):
            chunk = images[start : start + CHUNK]
            yield from self._finish(np.stack(list(self._pooled(chunk, start))))

    def _finish(self, pooled: Any) -> Any:
        return pooled if self.directions_ is None else unit_rows(project(pooled, self.directions_))

    def _image(self, index: int, image_input: ImageInput) -> Any:
        try:
            image = grey_image(image_input, self.max_side)
            if min(image.shape) < self.patch:
                raise ValueError(
                    f"{image.shape[0]}×{image.shape[1]} pixels are less than a patch of {self.patch}."
                )
        except ValueError as error:
            raise ValueError(f"{image_name(image_input, index)}: {error}") from error
        return image

    def _describe(self, image: Any) -> tuple[Any, PatchCentres]:
        descriptors, grid = dense_sift(image, patch=self.patch, step=self.step, floor=self.contrast)
        return (root_sift(descriptors) if self.root else descriptors), grid

    def _map(
        self, work: Callable[[int, ImageInput], Any], images: list[ImageInput], first: int = 0
    ) -> Iterator[Any]:
        """Results of work(index, image); each thread keeps to one core, so products must not start more."""
        with one_blas_thread():
            yield from parallel_map(lambda item: work(*item), enumerate(images, first), self.n_jobs)

    # --- parameters

    def _parameters(self) -> dict[str, Any]:
        """What determines the features, without what only says how to run."""
        running = {"cache_dir", "n_jobs", "progress", "random_state"}
        parameters = {name: value for name, value in self.get_params().items() if name not in running}
        return parameters | {"levels": [int(level) for level in self.levels]}

    def _recipe(self) -> str:
        """The steps from picture to pooled codes as a text, for cache keys."""
        later = {"n_components", "transductive", "n_descriptors", "n_words"}
        steps = {name: value for name, value in self._parameters().items() if name not in later}
        return as_json(steps | {"version": VERSION})

    def _check_parameters(self) -> None:
        for name, allowed in {"coding": ("llc", "hard"), "pooling": ("max", "mean")}.items():
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name} must be one of {', '.join(allowed)}; got {getattr(self, name)!r}.")
        for name in ("n_words", "patch", "step", "max_side", "neighbours", "n_descriptors"):
            check_integer(name, getattr(self, name))
        if self.patch % 4:
            raise ValueError(f"patch must be a multiple of 4, the bins along a side; got {self.patch}.")
        if not len(self.levels):
            raise ValueError("levels must be integers of at least 1; got none.")
        for level in self.levels:
            check_integer("levels", level)
        if self.n_components is not None:
            check_integer("n_components", self.n_components)
        if not isinstance(self.contrast, Real) or not 0 <= self.contrast < np.inf:
            raise ValueError(f"contrast must be a number of at least 0; got {self.contrast!r}.")
        if self.coding == "llc" and self.neighbours > self.n_words:
            raise FewWordsError(
                f"a descriptor is rebuilt from {self.neighbours} words, but the codebook has {self.n_words}.",
                "neighbours must not exceed n_words.",
            )


def as_json(parameters: dict[str, Any]) -> str:
    """Parameters as text, NumPy's numbers as plain ones."""
    return json.dumps(parameters, sort_keys=True, default=lambda value: value.item())


def unit_rows(X: Any) -> Any:
    """Rows (or one vector) divided by their length; zero stays zero."""
    lengths = np.linalg.norm(X, axis=-1, keepdims=True)
    return X / np.maximum(lengths, np.finfo(np.float32).tiny)
