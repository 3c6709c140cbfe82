"""The visual words: centres of descriptors drawn from the training images."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from sklearn.cluster import MiniBatchKMeans

from dcadl.arrays import one_blas_thread, one_thread
from dcadl.data.errors import FewDescriptorsError

BATCH = 4096
EPOCHS = 30
FEW_WORDS = 512


def sample_descriptors(descriptors: Any, most: int, seed: tuple[int, ...]) -> Any:
    """At most `most` of an image's descriptors, without replacement."""
    chosen = np.random.default_rng(seed).permutation(len(descriptors))[:most]
    return descriptors[chosen]


def learn_words(samples: Iterable[Any], n_words: int, seed: int) -> Any:
    """Centres (n_words, 128) float32 of descriptors, by mini-batch k-means from one k-means++ start."""
    descriptors = np.concatenate(list(samples))
    if len(descriptors) < n_words:
        raise FewDescriptorsError(
            f"a codebook of {n_words} words needs at least as many descriptors; "
            f"the images gave {len(descriptors)}.",
            "Lower n_words or give more images.",
        )
    clusters = MiniBatchKMeans(n_words, batch_size=BATCH, max_iter=EPOCHS, n_init=1, random_state=seed)
    # Steps of few words are so short that threads on a busy machine take five times as long to meet.
    with one_thread() if n_words <= FEW_WORDS else one_blas_thread():
        return clusters.fit(descriptors).cluster_centers_.astype(np.float32)
