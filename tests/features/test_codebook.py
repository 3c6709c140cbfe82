"""Visual words: learned on threads that are worth it."""

import numpy as np
from sklearn.cluster import MiniBatchKMeans
from threadpoolctl import threadpool_info

from dcadl.features.codebook import learn_words


def widths():
    return [library["num_threads"] for library in threadpool_info()]


def test_few_words_are_learned_on_one_thread_and_others_are_given_back(rng, monkeypatch):
    seen, fit, before = [], MiniBatchKMeans.fit, widths()
    monkeypatch.setattr(MiniBatchKMeans, "fit", lambda *given: seen.extend(widths()) or fit(*given))

    learn_words([rng.random((50, 128)).astype(np.float32)], 4, 0)

    assert set(seen) == {1}
    assert widths() == before
