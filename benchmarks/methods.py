"""
DPL, LC-KSVD and batch OMP beside other packages. Accuracies, times and memory of ours: `dcadl bench`.

    DCADL_DATA=… python benchmarks/methods.py [dictlearn] [omp]

Reads Extended YaleB. Sections (both, if none is named):

dictlearn  DPL and LC-KSVD beside the package dictlearn (pip install 'dcadl[bench]'), same data, same settings
omp        sparse codes of the test faces beside scikit-learn's orthogonal_mp_gram
"""

import argparse
import os
import sys
import time

import numpy as np
from sklearn.linear_model import orthogonal_mp_gram

import dcadl
from dcadl.data import load, split
from dcadl.ops.omp import batch_omp, dense_codes
from dcadl.ops.patches import unit_rows
from dcadl.solvers import lcksvd
from dcadl.solvers.walk import walker

ATOMS_PER_CLASS = 15  # of LC-KSVD; the other package allows no more atoms in a code than a class has
PASSES = 3  # of LC-KSVD beside it, for whose sake they are few


def main() -> None:
    """Run the sections that were asked for."""
    options = parse()
    if "DCADL_DATA" not in os.environ:
        sys.exit("set DCADL_DATA to the folder with Extended YaleB (docs/data.md)")
    for name in options.sections or SECTIONS:
        print(f"\n{name}: {SECTIONS[name].__doc__}", flush=True)
        SECTIONS[name]()


def dictlearn() -> None:
    """training and prediction beside dictlearn, seed 0."""
    try:
        from dictlearn.classification import DPLClassifier, LCDLClassifier
    except ImportError:
        sys.exit("this section needs the package dictlearn: pip install 'dcadl[bench]'")
    X, y = faces()
    X = unit_rows(X)
    ours = dcadl.DPL(n_atoms=32, intercept=0, random_state=0)
    compare("DPL", ours, DPLClassifier(32, max_iter=ours.max_iter, random_state=0), X, y)
    alpha, beta = 1e-3, 1e-2
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


def omp() -> None:
    """codes of 1198 faces over 570 atoms, 30 atoms in a code, float64; Gram matrices given to both."""
    X, y = faces()
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


SECTIONS = {"dictlearn": dictlearn, "omp": omp}


def faces() -> tuple[np.ndarray, np.ndarray]:
    """Extended YaleB as rows in [0, 1], which both packages read."""
    bunch = load("extended_yaleb")
    return bunch.data / 255, bunch.target


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


def parse() -> argparse.Namespace:
    """Options from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sections", nargs="*", choices=[*SECTIONS, []], default=[], metavar="section")
    return parser.parse_args()


if __name__ == "__main__":
    main()
