"""
Scene15 from raw pictures: accuracy of linear ridge on spatial-pyramid features, time and memory.

    python benchmarks/features.py [--seeds 5] [--first 0] [--levels 1,2,4] [--root] [--transductive]

Reads the pictures below DCADL_DATA. For each seed, 100 images of every class are drawn for training; codebook
and PCA are learned from these alone (or from all images with --transductive, which the output says), the
features of all 4485 images are computed, and a linear ridge classifier, its strength chosen by leave-one-out
on the training images, predicts the rest.
"""

import argparse
import json
import os
import resource
import sys
import time
import warnings

import numpy as np
from sklearn.linear_model import RidgeClassifierCV

from dcadl.data import load, split
from dcadl.data.parallel import worker_count
from dcadl.features import SpatialPyramid

PER_CLASS = 100
STRENGTHS = np.logspace(-2, 1, 13)


def main() -> None:
    """Run every seed and print one line for each, then the summary as JSON."""
    options = parse()
    if "DCADL_DATA" not in os.environ:
        sys.exit("set DCADL_DATA to the folder with the Scene15 pictures (see docs/data.md)")
    scenes = load("scene15", kind="original")
    seeds = range(options.first, options.first + options.seeds)
    runs = [one_seed(scenes, seed, options) for seed in seeds]
    accuracies = [run["accuracy"] for run in runs]
    summary = {
        "protocol": runs[0]["protocol"],
        "levels": options.levels,
        "root_sift": options.root,
        "seeds": list(seeds),
        "accuracy_mean": round(float(np.mean(accuracies)), 2),
        "accuracy_std": round(float(np.std(accuracies, ddof=1)), 2) if options.seeds > 1 else None,
        "seconds_each_max": round(max(run["seconds"] for run in runs), 1),
        "peak_memory_gb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
        "threads": worker_count(-1),
    }
    print(json.dumps(summary, indent=2))


def one_seed(scenes, seed: int, options: argparse.Namespace) -> dict:
    """Accuracy in percent on the test images, and seconds from files to features."""
    train, test = split(scenes.target, per_class=PER_CLASS, seed=seed)
    started = time.perf_counter()
    pyramid = SpatialPyramid(
        levels=options.levels,
        root=options.root,
        n_words=options.words,
        n_components=options.components,
        transductive=options.transductive,
        random_state=seed,
    )
    unlabelled = scenes.data[test] if options.transductive else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # fewer images than components: the rank is what we want
        F_train = pyramid.fit_transform(scenes.data[train], unlabelled=unlabelled)
    F_test = pyramid.transform(scenes.data[test])
    seconds = time.perf_counter() - started
    ridge = RidgeClassifierCV(alphas=STRENGTHS).fit(F_train, scenes.target[train])
    accuracy = 100 * ridge.score(F_test, scenes.target[test])
    print(
        f"seed {seed}: {accuracy:.2f} %  {seconds:.1f} s  {F_train.shape[1]} features  "
        f"ridge {ridge.alpha_:.3g}  {pyramid.protocol_}",
        flush=True,
    )
    return {"accuracy": accuracy, "seconds": seconds, "protocol": pyramid.protocol_}


def parse() -> argparse.Namespace:
    """Options from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=5, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--levels", type=lambda text: tuple(map(int, text.split(","))), default=(1, 2, 4))
    parser.add_argument("--words", type=int, default=1024)
    parser.add_argument("--components", type=int, default=3000)
    parser.add_argument("--root", action="store_true", help="RootSIFT instead of SIFT")
    parser.add_argument("--transductive", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()
