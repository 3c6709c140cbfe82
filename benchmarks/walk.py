"""A new user's walk: `dcadl fit FOLDER` with no option, then predict, on folders as people have them.

    DCADL_DATA=data python benchmarks/walk.py [--per-class 30]

Scene15 and Extended YaleB as raw pictures (where DCADL_DATA has them), generated colour pictures of mixed
sizes and formats, and pictures of 8000 × 6000 (with `--per-class 100` a hundred of them train). Half of each
class trains, `dcadl evaluate` judges by the other half. The table has what was expected, what came, and the
most memory of the fit; what fails ends the walk.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

MOST_BYTES = 1_000_000_000
ENDINGS = ("png", "jpg", "webp", "bmp", "tif")


def main() -> None:
    """Make the folders, walk through each, print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--per-class", type=int, default=30, help="pictures of each class, training and test")
    parser.add_argument("--only", choices=list(FOLDERS), action="append", help="one of the folders")
    words = parser.parse_args()
    root = os.environ.get("DCADL_DATA")
    print(f"{'folder':<12}{'pictures':>9}{'expected':>10}{'came':>8}{'fit s':>8}{'memory':>9}")
    for name in words.only or FOLDERS:
        with tempfile.TemporaryDirectory() as home:
            if FOLDERS[name](Path(home, "all"), words.per_class, None if root is None else Path(root)):
                walk(name, Path(home))
            else:
                print(f"{name:<12}not in DCADL_DATA")


def walk(name: str, home: Path) -> None:
    """Fit on half of the pictures, predict and evaluate the other half."""
    count = halve(home / "all", home / "train", home / "test")
    start = time.perf_counter()
    peak = run(home, "fit", "train", "-o", "m.safetensors")
    seconds = time.perf_counter() - start
    run(home, "predict", "m.safetensors", "test", "-o", "labels.csv")
    run(home, "evaluate", "m.safetensors", "test", "--json", output="judged.json")
    run(home, "info", "m.safetensors", "--json", output="info.json")
    judged = json.loads((home / "judged.json").read_text())
    expected = json.loads((home / "info.json").read_text())["expected_accuracy"].partition(" ")[0]
    print(
        f"{name:<12}{count:>9}{expected:>10}{judged['accuracy']:>8.1%}{seconds:>8.1f}{peak / 1e6:>6.0f} MB",
        flush=True,
    )
    if peak > MOST_BYTES and count <= 100:
        sys.exit(f"{name}: {peak / 1e9:.2f} GB for {count} pictures; at most 1 GB was promised")


def run(home: Path, *words: str, output: str | None = None) -> int:
    """A command in that folder; the most memory that it took. One that fails ends the walk."""
    with open(home / (output or "out.txt"), "w") as stream:
        process = subprocess.Popen([sys.executable, "-m", "dcadl.cli", *words], cwd=home, stdout=stream)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"dcadl {' '.join(words)} ended with {process.returncode}")
    return usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def halve(every: Path, train: Path, test: Path) -> int:
    """Every other picture of each class into each folder; how many train."""
    count = 0
    for folder in sorted(every.iterdir()):
        for i, file in enumerate(sorted(folder.iterdir())):
            place = (train, test)[i % 2] / folder.name
            place.mkdir(parents=True, exist_ok=True)
            shutil.move(file, place / file.name)
            count += i % 2 == 0
    return count


def scenes(folder: Path, per_class: int, root: Path | None) -> bool:
    """Scene15's own JPEGs, of differing sizes."""
    if root is None or not (root / "scene15_gray300.tar").exists():
        return False
    with tarfile.open(root / "scene15_gray300.tar") as archive:
        names = sorted(m.name for m in archive if m.isfile() and m.name.endswith(".jpg"))
        classes = sorted({Path(name).parts[-2] for name in names})
        for label in classes:
            mine = [name for name in names if Path(name).parts[-2] == label]
            (folder / label).mkdir(parents=True)
            for name in mine[:: max(1, len(mine) // per_class)][:per_class]:
                stream = archive.extractfile(name)
                assert stream is not None
                (folder / label / Path(name).name).write_bytes(stream.read())
    return True


def faces(folder: Path, per_class: int, root: Path | None) -> bool:
    """Extended YaleB's faces as PNG files."""
    if root is None or not (root / "extended_yaleb_48x42.npz").exists():
        return False
    with np.load(root / "extended_yaleb_48x42.npz") as arrays:
        images, labels = arrays["images"], arrays["labels"]
    rng = np.random.default_rng(0)
    for label in np.unique(labels):
        home = folder / f"person{label:02}"
        home.mkdir(parents=True)
        for i in rng.permutation(np.flatnonzero(labels == label))[:per_class]:
            Image.fromarray(images[i]).save(home / f"{i}.png")
    return True


def mixed(folder: Path, per_class: int, root: Path | None) -> bool:
    """Generated colour pictures of four classes, of sizes from 60 to 900 and of five formats."""
    rng = np.random.default_rng(0)
    for label in ("checks", "dots", "rings", "stripes"):
        (folder / label).mkdir(parents=True)
        for i in range(per_class):
            height, width = rng.integers(60, 900, 2)
            picture = Image.fromarray(drawn(label, rng)).resize((int(width), int(height)))
            picture.save(folder / label / f"{i}.{ENDINGS[i % len(ENDINGS)]}")
    return True


def large(folder: Path, per_class: int, root: Path | None) -> bool:
    """JPEGs of 8000 × 6000, of two classes."""
    rng = np.random.default_rng(0)
    for label in ("rings", "stripes"):
        (folder / label).mkdir(parents=True)
        for i in range(per_class):
            picture = Image.fromarray(drawn(label, rng)).resize((8000, 6000), Image.Resampling.NEAREST)
            picture.save(folder / label / f"{i}.jpg", quality=60)
    return True


def drawn(label: str, rng: np.random.Generator) -> np.ndarray:
    """A noisy colour picture (90, 120, 3) of a kind, at a random place, in random colours."""
    rows, columns = np.mgrid[:90, :120] / 10.0
    x, y, phase = rng.uniform(2, 8), rng.uniform(2, 6), rng.uniform(0, 6)
    wave = {
        "checks": np.sin(2 * rows + phase) * np.sin(2 * columns + phase),
        "dots": np.cos(3 * np.minimum(np.hypot(rows % 3 - 1.5, columns % 3 - 1.5), 1)),
        "rings": np.sin(3 * np.hypot(rows - y, columns - x) + phase),
        "stripes": np.sin(2 * rows + rng.uniform(-0.5, 0.5) * columns + phase),
    }[label]
    tint = rng.uniform(0.3, 1.0, 3)
    return np.clip(128 + 90 * wave[..., None] * tint + rng.normal(0, 20, (90, 120, 3)), 0, 255).astype(
        np.uint8
    )


FOLDERS: dict[str, Callable[[Path, int, Path | None], bool]] = {
    "scenes": scenes,
    "faces": faces,
    "mixed": mixed,
    "large": large,
}

if __name__ == "__main__":
    main()
