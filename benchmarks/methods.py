"""
Every method on the same splits, and the speed and memory of DPL, LC-KSVD, DADL and batch OMP.

    python benchmarks/methods.py [accuracy] [dictlearn] [omp] [memory] [--seeds 5] [--methods DPL LCKSVD …]

Reads Extended YaleB and the Caltech101 features below DCADL_DATA. Sections (all, if none is named):

accuracy   Extended YaleB pixels / 255, 32 training images of each class, one row for each method
dictlearn  DPL and LC-KSVD beside the package dictlearn (pip install 'dcadl[bench]'), same data, same settings
omp        sparse codes of the test faces beside scikit-learn's orthogonal_mp_gram
memory     peak memory of a fit and a prediction on Caltech101 features, each method in a process of its own
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import orthogonal_mp_gram

import dcadl
from dcadl.data import load, split
from dcadl.ops.normalise import unit_rows
from dcadl.ops.omp import batch_omp, dense_codes
from dcadl.solvers import lcksvd
from dcadl.solvers.chunks import walker

PATCHES = {"patch_shape": 12, "stride": 6}

# Settings on Extended YaleB. A method appears in the tables as soon as dcadl has it.
SETTINGS = {
    "DPL": {"n_atoms": 32, "intercept": 0},
    "LCKSVD": {"n_atoms": 570, "sparsity": 30, "alpha": 1e-3, "beta": 1e-2, "init_iter": 20, "max_iter": 20},
    "SADL": {"max_iter": 10, "tol": 0},
    "DADL": {"threshold": False},
    "ADLSVM": {},
    "PCANet": {},
    "DCADL": {"n_atoms": 50, "max_iter": 23, "tol": 0, **PATCHES},
    "RandomAtoms": {"n_atoms": 50, **PATCHES},
    "PatchRidge": PATCHES,
}
# And on the features of Caltech101 (DPL has as many atoms as a class has training samples).
FEATURE_SETTINGS = {"DPL": {"n_atoms": 30, "intercept": 0}, "DADL": {"n_neighbors": 5, "lam3": 4.0}}

ATOMS_PER_CLASS = 15  # of LC-KSVD; the other package allows no more atoms in a code than a class has
PASSES = 3  # of LC-KSVD beside it, for whose sake they are few


def main() -> None:
    """Run the sections that were asked for."""
    options = parse()
    if "DCADL_DATA" not in os.environ:
        sys.exit(
            "set DCADL_DATA to the folder with Extended YaleB and the Caltech101 features (docs/data.md)"
        )
    if options.fit_once:
        fit_once(options.fit_once)
        return
    for name in options.sections or SECTIONS:
        print(f"\n{name}: {SECTIONS[name].__doc__}", flush=True)
        SECTIONS[name](options)


def accuracy(options: argparse.Namespace) -> None:
    """Extended YaleB, accuracy in percent over the seeds."""
    X, y = faces(np.float32)
    for name in options.methods or SETTINGS:
        if not hasattr(dcadl, name):
            print(f"{name:12} is not in this dcadl")
            continue
        runs = [one_seed(build(name, SETTINGS[name], seed), X, y, seed) for seed in range(options.seeds)]
        scores, fit_seconds, predict_seconds = (np.array(column) for column in zip(*runs))
        spread = scores.std(ddof=1) if len(scores) > 1 else float("nan")
        print(
            f"{name:12} {scores.mean():6.2f} ± {spread:.2f}  fit {np.median(fit_seconds):7.2f} s  "
            f"predict {1e6 * np.median(predict_seconds):7.1f} µs an image  {np.round(scores, 2).tolist()}",
            flush=True,
        )


def dictlearn(options: argparse.Namespace) -> None:
    """training and prediction beside dictlearn, seed 0."""
    try:
        from dictlearn.classification import DPLClassifier, LCDLClassifier
    except ImportError:
        sys.exit("this section needs the package dictlearn: pip install 'dcadl[bench]'")
    X, y = faces(np.float64)
    X = unit_rows(X)
    ours = dcadl.DPL(n_atoms=32, intercept=0, random_state=0)
    compare("DPL", ours, DPLClassifier(32, max_iter=ours.max_iter, random_state=0), X, y)
    alpha, beta = SETTINGS["LCKSVD"]["alpha"], SETTINGS["LCKSVD"]["beta"]
    ours = dcadl.LCKSVD(
        n_atoms=ATOMS_PER_CLASS * len(np.unique(y)),
        sparsity=ATOMS_PER_CLASS,
        alpha=alpha,
        beta=beta,
        init_iter=PASSES,
        max_iter=PASSES,
    )
    theirs = LCDLClassifier(  # alpha and beta have each other's meaning there
        ATOMS_PER_CLASS,
        alpha=beta,
        beta=alpha,
        n_nonzero_coefs=ATOMS_PER_CLASS,
        init_method="trained",
        init_iter=PASSES,
        max_iter=PASSES,
        random_state=0,
    )
    compare("LCKSVD", ours, theirs, X, y)


def omp(options: argparse.Namespace) -> None:
    """codes of 1198 faces over 570 atoms, 30 atoms in a code, float64; Gram matrices given to both."""
    X, y = faces(np.float64)
    train, test = split(y, per_class=32, seed=0)
    X = unit_rows(X)
    D, Y = X[train][:: len(train) // 570][:570], X[test]
    G, B, energy = D @ D.T, Y @ D.T, np.vecdot(Y, Y)

    def pursue(part: slice) -> tuple[np.ndarray, tuple[()]]:
        return dense_codes(batch_omp(G, B[part], energy[part], 30), len(D)), ()

    def ours_threaded() -> np.ndarray:
        slices = lcksvd.sample_slices(Y)
        with walker(Y, slices) as walk:
            return np.concatenate(walk(pursue, slices)[0])

    ours, seconds = timed(ours_threaded, repeats=5)
    theirs, their_seconds = timed(
        lambda: orthogonal_mp_gram(G, np.asfortranarray(B.T), n_nonzero_coefs=30).T, repeats=2
    )
    print(
        f"ours {seconds:.3f} s, scikit-learn {their_seconds:.3f} s: "
        f"{their_seconds / seconds:.1f} times as fast"
    )
    print(f"largest difference between codes {np.abs(ours - theirs).max():.1e}")


def memory(options: argparse.Namespace) -> None:
    """Caltech101 features, 30 training samples of each class: peak memory of the whole process."""
    for name in options.methods or FEATURE_SETTINGS:
        if name not in FEATURE_SETTINGS or not hasattr(dcadl, name):
            print(f"{name:12} is not in this dcadl, or has no settings here")
            continue
        done = subprocess.run(
            [sys.executable, __file__, "--fit-once", name], check=True, capture_output=True, text=True
        )
        result = json.loads(done.stdout)
        print(
            f"{name:12} {result['peak_gb']:.2f} GB ({result['data_gb']:.2f} GB before the fit)  "
            f"accuracy {result['accuracy']:.2f}  fit {result['seconds']:.1f} s",
            flush=True,
        )


SECTIONS = {"accuracy": accuracy, "dictlearn": dictlearn, "omp": omp, "memory": memory}


def fit_once(name: str) -> None:
    """One fit on the features, with the peak memory of this process, as JSON."""
    bunch = load("caltech101")
    X = bunch.data.astype(np.float32)
    before = peak_gb()
    score, seconds, _ = one_seed(build(name, FEATURE_SETTINGS[name], 0), X, bunch.target, 0, per_class=30)
    print(json.dumps({"peak_gb": peak_gb(), "data_gb": before, "accuracy": score, "seconds": seconds}))


def faces(dtype: type) -> tuple[np.ndarray, np.ndarray]:
    """Extended YaleB as images in [0, 1], as rows where both packages must read them."""
    bunch = load("extended_yaleb")
    images = (bunch.images / 255).astype(dtype)
    return (images.reshape(len(images), -1) if dtype == np.float64 else images), bunch.target


def build(name: str, settings: dict, seed: int):
    """The estimator, with the seed if it draws anything."""
    cls = getattr(dcadl, name)
    draws = {"random_state": seed} if "random_state" in cls().get_params() else {}
    return cls(**settings, **draws)


def one_seed(model, X, y, seed: int, per_class: int = 32) -> tuple[float, float, float]:
    """Accuracy in percent, seconds to fit, seconds to predict one image."""
    train, test = split(y, per_class=per_class, seed=seed)
    X_train, X_test = X[train], X[test]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the number of passes is part of the setting
        _, fit_seconds = timed(lambda: model.fit(X_train, y[train]))
    found, predict_seconds = timed(lambda: model.predict(X_test))
    return 100 * float(np.mean(found == y[test])), fit_seconds, predict_seconds / len(test)


def compare(name: str, ours, theirs, X, y) -> None:
    """All on one split, one after the other; prediction is the best of three. dictlearn has no float32."""
    train, test = split(y, per_class=32, seed=0)
    rows = {}
    for who, model, dtype in (
        ("dcadl, float32", ours, np.float32),
        ("dcadl, float64", ours, np.float64),
        ("dictlearn, float64", theirs, np.float64),
    ):
        A, Z = X[train].astype(dtype), X[test].astype(dtype)
        _, fit_seconds = timed(lambda model=model, A=A: model.fit(A, y[train]))
        found, predict_seconds = timed(lambda model=model, Z=Z: model.predict(Z), repeats=3)
        rows[who] = fit_seconds, predict_seconds
        print(
            f"{name:8} {who:20} train {fit_seconds:8.3f} s  predict {predict_seconds:7.3f} s  "
            f"accuracy {100 * np.mean(found == y[test]):.2f}",
            flush=True,
        )
    *ours_rows, (_, theirs_row) = rows.items()
    for who, row in ours_rows:
        print(
            f"{name:8} {who} trains {theirs_row[0] / row[0]:.1f} times as fast, "
            f"predicts {theirs_row[1] / row[1]:.1f} times as fast",
            flush=True,
        )


def timed(work, repeats: int = 1):
    """What `work` returns, and the seconds of its fastest run."""
    best = np.inf
    for _ in range(repeats):
        started = time.perf_counter()
        result = work()
        best = min(best, time.perf_counter() - started)
    return result, best


def peak_gb() -> float:
    """Most memory this process has held so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def parse() -> argparse.Namespace:
    """Options from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sections", nargs="*", choices=[*SECTIONS, []], default=[], metavar="section")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--methods", nargs="+", choices=SETTINGS, metavar="METHOD")
    parser.add_argument("--fit-once", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
