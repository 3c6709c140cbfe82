"""What the documentation's build does beyond Markdown: it runs the tutorials and keeps their pictures.

`tests/test_docs.py` runs the tutorials by the same function.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
TUTORIALS = sorted((HERE / "tutorials").glob("*.md"))
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```$", re.M | re.S)
FETCHED = "https://unpkg.com/iframe-worker/shim"
PICTURE = re.compile(r"!\[[^\]]*\]\((\w+\.png)\)")


def run_tutorial(path: Path, folder: Path) -> None:
    """Run a page's blocks in order, in `folder`: Python in one namespace, and lines of `$ dcadl`."""
    names: dict[str, Any] = {"__name__": path.stem}
    with contextlib.chdir(folder):
        for kind, text in BLOCK.findall(path.read_text()):
            if kind == "python":
                exec(compile(text, str(path), "exec"), names)
            else:
                _run_commands(text)


def _run_commands(text: str) -> None:
    from typer.testing import CliRunner

    from dcadl.cli import app

    for line in text.splitlines():
        if line.startswith("$ dcadl "):
            result = CliRunner().invoke(app, shlex.split(line, comments=True)[2:])
            if result.exit_code != 0:
                raise RuntimeError(f"{line}\n{result.output}")


def on_files(files: Any, config: Any) -> Any:
    """Run every tutorial; the pictures and pages it writes become files of the site beside it."""
    from mkdocs.structure.files import File

    os.environ.setdefault("MPLBACKEND", "agg")
    for path in TUTORIALS:
        with tempfile.TemporaryDirectory() as folder:
            run_tutorial(path, Path(folder))
            made = [file for file in Path(folder).iterdir() if file.suffix in (".png", ".html")]
            for file in made:
                files.append(File.generated(config, f"tutorials/{file.name}", content=file.read_bytes()))
    return files


def on_page_content(html: str, page: Any, config: Any, files: Any) -> str:
    """The page of all results lies within the one that leads to it."""
    if page.file.src_uri != "results/page.md":
        return html
    style = "width:100%;height:85vh;border:0"
    return f'{html}<iframe src="all.html" title="All figures" style="{style}"></iframe>'


def on_post_page(output: str, page: Any, config: Any) -> str:
    """Search from disk needs a script that the theme would fetch from a server: it lies beside the pages."""
    from mkdocs.utils import get_relative_url

    return output.replace(FETCHED, get_relative_url("javascripts/iframe-worker.js", page.url))


def on_post_template(output_content: str, template_name: str, config: Any) -> str:
    """The same for the page of what is not found."""
    return output_content.replace(FETCHED, "javascripts/iframe-worker.js")


def on_post_build(config: Any) -> None:
    """The page of all results, from the records."""
    from dcadl.bench.report import write_report

    with tempfile.TemporaryDirectory() as folder:
        write_report(HERE / "results" / "records.jsonl", Path(folder), tuned=HERE / "results" / "tuned.toml")
        page = (Path(folder) / "index.html").read_bytes()
    (Path(config["site_dir"]) / "results" / "all.html").write_bytes(page)
