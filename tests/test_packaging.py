"""What is packaged: the whole project in the source archive, every licence in the metadata."""

import importlib
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """The source archive of a copy of what git keeps."""
    pytest.importorskip("setuptools", minversion="77", reason="setuptools is too old to build with")
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout: what should be in the archive is not known")
    names = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    copy = tmp_path_factory.mktemp("copy")
    kept = [name for name in names.stdout.splitlines() if (ROOT / name).is_file()]
    for name in kept:
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / name).write_bytes((ROOT / name).read_bytes())
    build = "import setuptools.build_meta as b, sys; b.build_sdist(sys.argv[1])"
    subprocess.run([sys.executable, "-c", build, str(copy)], cwd=copy, check=True, capture_output=True)
    (made,) = copy.glob("dcadl-*.tar.gz")
    with tarfile.open(made) as content:
        inside = {name.partition("/")[2] for name in content.getnames()}
        info = content.extractfile(
            next(n for n in content.getnames() if n.count("/") == 1 and n.endswith("PKG-INFO"))
        )
        return kept, inside, info.read().decode()


def test_the_source_archive_is_the_whole_project(archive):
    kept, inside, _ = archive

    assert {name for name in kept if not name.endswith(".gitignore")} <= inside


def test_the_metadata_name_every_licence(archive):
    _, _, info = archive

    assert "License-Expression: BSD-3-Clause AND Apache-2.0" in info
    assert "License-File: src/dcadl/bench/report/template/echarts.LICENSE.txt" in info


def test_the_lowest_versions_are_those_of_the_project():
    sys.path.insert(0, str(ROOT / ".ci"))
    try:
        lowest = importlib.import_module("lowest").lowest
    finally:
        sys.path.pop(0)
    found = lowest((ROOT / "pyproject.toml").read_text())

    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert {each.replace(">=", "==") for each in needed} <= set(found)
    assert all(each.count("==") == 1 for each in found)
