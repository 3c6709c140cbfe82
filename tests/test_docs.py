"""The documentation: every tutorial runs as it stands."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import SimpleNamespace

import pytest

DOCS = Path(__file__).parents[1] / "docs"
SPEC = importlib.util.spec_from_file_location("docs_hooks", DOCS / "hooks.py")
hooks = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(hooks)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("path", hooks.TUTORIALS, ids=lambda path: path.stem)
def test_a_tutorial_runs_and_draws_every_picture_it_shows(path, tmp_path, monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "agg")
    if path.stem == "export-and-serve":
        pytest.importorskip("onnxruntime", reason="not installed: pip install 'dcadl[onnx]'")

    hooks.run_tutorial(path, tmp_path)

    shown = hooks.PICTURE.findall(path.read_text())
    assert [name for name in shown if not (tmp_path / name).is_file()] == []


def test_the_page_of_results_is_within_the_documentation():
    results, other = (
        SimpleNamespace(file=SimpleNamespace(src_uri=uri)) for uri in ("results/page.md", "cli.md")
    )

    assert '<p>x</p><iframe src="all.html"' in hooks.on_page_content("<p>x</p>", results, {}, [])
    assert hooks.on_page_content("<p>x</p>", other, {}, []) == "<p>x</p>"


def test_every_page_is_in_the_navigation():
    navigation = (DOCS.parent / "mkdocs.yml").read_text()

    pages = [str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")]
    assert [page for page in pages if page not in navigation] == []


def test_the_version_to_cite_is_the_version():
    from dcadl import __version__

    assert f"version: {__version__}\n" in (DOCS.parent / "CITATION.cff").read_text()
