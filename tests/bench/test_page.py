"""The page in a real browser: no errors, no requests, sorted tables, names on every figure."""

import json
import re
import shutil
import subprocess

import pytest

from dcadl.bench.report import write_report

PROBE = """
<pre id="probe"></pre>
<script>
addEventListener("load", () => setTimeout(() => {
  const table = document.querySelector("table.sortable");
  const column = (i) => [...table.tBodies[0].rows].map((row) => parseFloat(row.cells[i].textContent));
  const heads = table.tHead.rows[0].cells;
  heads[1].querySelector("button").click();
  const rising = column(1);
  heads[1].querySelector("button").click();
  const falling = column(1);
  const named = (e) => e.getAttribute("aria-label") || e.getAttribute("alt");
  const painted = (canvas) =>
    canvas?.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.some((value) => value > 0);
  document.getElementById("theme").click();
  document.querySelectorAll("select").forEach((select) => {
    select.selectedIndex = select.options.length - 1;
    select.dispatchEvent(new Event("change"));
  });
  document.getElementById("probe").textContent = "PROBE" + JSON.stringify({
    rising, falling, sort: heads[1].getAttribute("aria-sort"), faults: window.faults,
    requests: performance.getEntriesByType("resource").map((entry) => entry.name),
    figures: document.querySelectorAll("figure").length,
    named: [...document.querySelectorAll("figure > [role=img], figure > img")].filter(named).length,
    images: [...document.images].every((image) => image.alt && image.naturalWidth > 0),
    drawn: [...document.querySelectorAll(".chart")].filter((c) => painted(c.querySelector("canvas"))).length,
    charts: document.querySelectorAll(".chart").length,
    wide: document.documentElement.scrollWidth > innerWidth,
    theme: document.documentElement.dataset.theme,
  }) + "PROBE";
}, 300));
</script>"""
LISTEN = """<script>
window.faults = [];
addEventListener("error", (event) => faults.push(String(event.message)));
addEventListener("securitypolicyviolation", (event) => faults.push(event.blockedURI));
for (const kind of ["error", "warn"]) console[kind] = (...words) => faults.push(words.join(" "));
</script>"""


@pytest.fixture(scope="module")
def report(recorded, tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    write_report(recorded, folder)
    return folder


def _open(path, width):
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("Chromium is not installed: apt-get install chromium")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=3000", "--dump-dom"]
    rules = ["--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={path.parent / 'profile'}"]
    command = [browser, *flags, *rules, f"--window-size={width},900", path.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout


@pytest.fixture(scope="module", params=[1200, 400], ids=["desk", "phone"])
def opened(request, report):
    """What the probe found in the page, on a wide and on a narrow screen."""
    text = (report / "index.html").read_text()
    path = report / f"probed{request.param}.html"
    body, end, rest = text.replace("<style>", LISTEN + "<style>", 1).rpartition("</body>")
    path.write_text(body + PROBE + end + rest)
    return json.loads(re.search("PROBE({.*})PROBE", _open(path, request.param))[1].replace("&amp;", "&"))


def test_the_page_opens_without_errors_or_requests(opened):
    assert opened["faults"] == []
    assert opened["requests"] == []


def test_tables_sort_both_ways(opened):
    assert opened["rising"] == sorted(opened["rising"])
    assert opened["falling"] == sorted(opened["falling"], reverse=True)
    assert opened["sort"] == "descending"


def test_every_figure_has_an_accessible_name_and_every_chart_is_drawn(opened):
    assert opened["figures"] == opened["named"] > 4
    assert opened["images"]
    assert opened["drawn"] == opened["charts"] == 5


def test_the_page_fits_its_screen_and_changes_its_theme(opened):
    assert not opened["wide"]
    assert opened["theme"] == "dark"


def test_nothing_in_the_page_points_outside_it(report):
    text = (report / "index.html").read_text()
    own = text.replace((text.split("<script>")[1]), "")

    assert not re.search(r'(?:src|href)="(?!data:|#)', own)
    assert "default-src 'none'" in own


def test_names_from_records_cannot_become_markup(recorded, tmp_path):
    evil = recorded.read_text().replace('"label": "PatchRidge"', '"label": "<script>alert(1)</script>"')
    (tmp_path / "r.jsonl").write_text(evil)

    write_report(tmp_path / "r.jsonl", tmp_path)

    assert "<script>alert" not in (tmp_path / "index.html").read_text()


def test_the_tables_in_markdown_have_a_row_for_each_method(report):
    text = (report / "tables.md").read_text()

    assert re.search(r"^\| DCADL \(8\) \| \d\d\.\d\d ± \d\.\d\d \|", text, re.M)
    assert "### Ablations" in text


def test_records_that_are_not_there_are_refused(tmp_path):
    with pytest.raises(ValueError, match="dcadl bench"):
        write_report(tmp_path / "none.jsonl", tmp_path)


def test_records_of_no_known_data_set_are_refused(tmp_path):
    (tmp_path / "empty.jsonl").write_text("")

    with pytest.raises(ValueError, match="holds no records"):
        write_report(tmp_path / "empty.jsonl", tmp_path / "report")
    assert not (tmp_path / "report").exists()
