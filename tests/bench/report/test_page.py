"""The page in a real browser: no errors, no requests, sorted tables, named figures, no foreign markup."""

import html
import json
import re
import shutil
import subprocess
from itertools import pairwise

import pytest

from dcadl.bench.report import write_report
from dcadl.bench.report.figures import RANGE

PROBE = """
<pre id="probe"></pre>
<script>
addEventListener("load", () => setTimeout(() => {
  const table = document.querySelector("table.sortable");
  const column = (i) => [...table.tBodies[0].rows].map((row) => parseFloat(row.cells[i].textContent));
  const groups = [...table.querySelectorAll("tr.group")].map((row) => row.textContent);
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
    rising, falling, groups, left: table.querySelectorAll("tr.group").length,
    sort: heads[1].getAttribute("aria-sort"), faults: window.faults,
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


EVIL = '<img src=x onerror="window.hit=1">'
CROWD_PROBE = """
<pre id="probe"></pre>
<script>
addEventListener("load", () => setTimeout(() => {
  const chart = (kind) => echarts.getInstanceByDom(document.querySelector(`[data-kind=${kind}] .chart`));
  const press = (head) => head.querySelector("button").click();
  const table = document.querySelector("table.sortable");
  const cells = (i) => [...table.tBodies[0].rows].map((row) => row.cells[i]);
  const sorts = [...table.tHead.rows[0].cells].slice(1).flatMap((head) => [1, -1].map((sign) => {
    press(head);
    const number = ({ dataset }) => ("value" in dataset ? Number(dataset.value) : null);
    const values = cells(head.cellIndex).map(number);
    return { head: head.textContent, sign, values };
  }));
  press(table.tHead.rows[0].cells[0]);
  press(table.tHead.rows[0].cells[0]);
  const names = cells(0).map((cell) => cell.textContent);

  const scroll = table.parentElement;
  scroll.scrollLeft = 150;
  const edge = scroll.getBoundingClientRect().left + scroll.clientLeft;
  const firsts = [...table.rows].map((row) => row.cells[0].getBoundingClientRect());
  const sticky = {
    moved: scroll.scrollLeft, offsets: firsts.map((box) => box.left - edge),
    share: Math.max(...firsts.map((box) => box.width)) / innerWidth,
  };

  const tags = chart("scatter").getOption().series.map((s) => [s.data[0], s.label.show, s.label.offset[1]]);
  const panels = chart("convergence").getOption();
  const line = chart("ablations"), hidden = line.getOption().series[0].name;
  const chosen = () => line.getOption().legend[0].selected[hidden];
  line.dispatchAction({ type: "legendUnSelect", name: hidden });
  let redrawn = 0;
  for (const name of ["resize", "setOption"]) {
    const plain = line[name];
    line[name] = (...words) => { redrawn += 1; return plain.apply(line, words); };
  }
  dispatchEvent(new Event("resize"));
  const idle = redrawn;
  document.body.style.width = "300px";
  dispatchEvent(new Event("resize"));
  const resized = { idle, redrawn, width: line.getWidth(), box: line.getDom().clientWidth, chosen: chosen() };
  document.getElementById("theme").click();
  const select = document.querySelector("[data-kind=ablations] select");
  select.selectedIndex = 0;
  select.dispatchEvent(new Event("change"));
  const later = chosen();
  line.dispatchAction({ type: "legendSelect", name: hidden });

  const tips = {};
  let images = 0;
  for (const box of document.querySelectorAll(".chart")) {
    const each = echarts.getInstanceByDom(box);
    const { kind } = box.parentElement.dataset;
    each.getOption().series.forEach(({ data }, seriesIndex) => data.forEach((_, dataIndex) => {
      each.dispatchAction({ type: "showTip", seriesIndex, dataIndex });
      tips[kind] ||= box.textContent.includes('<img src=x onerror="window.hit=1">');
      images += box.querySelectorAll("img").length;
    }));
  }
  setTimeout(() => {
    document.getElementById("probe").textContent = "PROBE" + JSON.stringify({
      sorts, names, sticky, resized, later, tips, images, hit: window.hit ?? null,
      drawn: panels.series.map((each) => each.name), panels: panels.title.map((each) => each.text),
      axis: panels.yAxis.map(({ min, max }) => [min, max])[0],
      tags,
      ends: chart("curves").getOption().series.map(({ name, endLabel: e }) => [name, e.show, e.offset[1]]),
      square: [...document.querySelectorAll(".confusion")].map((box) => {
        const grid = echarts.getInstanceByDom(box).getModel().getComponent("grid");
        const { width, height } = grid.coordinateSystem.getRect();
        return width / height;
      }),
    }) + "PROBE";
  }, 300);
}, 300));
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
    return _probed((report / "index.html").read_text(), PROBE, report / "probed.html", request.param)


def _probed(text, probe, path, width):
    body, end, rest = text.replace("<style>", LISTEN + "<style>", 1).rpartition("</body>")
    path.write_text(body + probe + end + rest)
    return json.loads(html.unescape(re.search("PROBE({.*})PROBE", _open(path, width))[1]))


@pytest.fixture(scope="module")
def crowded(recorded, tmp_path_factory):
    """The page of eleven iterative methods, one with atoms nobody learned and one with markup for a name."""
    folder = tmp_path_factory.mktemp("crowd")
    found = [json.loads(line) for line in recorded.read_text().splitlines()]
    model = next(r for r in found if r["label"] == "DCADL")
    found += [{**model, "label": f"M{i}", "objective": [9.0, 5.0, 4.0 + i]} for i in range(8)]
    found += [{**model, "label": EVIL, "objective": [1e18, 5.0, 4.0], "test_single_s": None}]
    found += [{**model, "label": "Flat", "objective": [4.0, 4.0, 4.0]}]
    found += [{**model, "label": "RandomAtoms", "method": "RandomAtoms"}]
    few = [r for r in found if r["group"] == "table"]
    found += [{**r, "dataset": name} for name in ("extended_yaleb-5", "extended_yaleb-10") for r in few]
    lines = [json.dumps(r) for r in found]
    evil = [line.replace('"normalize": "image"', f'"normalize": {json.dumps(EVIL)}') for line in lines]
    (folder / "r.jsonl").write_text("\n".join(evil) + "\n")
    write_report(folder / "r.jsonl", folder)
    return folder / "index.html"


@pytest.fixture(scope="module")
def crowd(crowded):
    """What the probe found in that page, on a narrow screen, where a class has markup for a name too."""
    name = json.dumps(EVIL).replace("<", "\\u003c")
    text = crowded.read_text().replace('"classes": ["0"', f'"classes": [{name}')
    return _probed(text, CROWD_PROBE, crowded.with_name("probed.html"), 400)


def test_the_page_opens_without_errors_or_requests(opened):
    assert opened["faults"] == []
    assert opened["requests"] == []


def test_tables_sort_both_ways(opened):
    assert opened["rising"] == sorted(opened["rising"])
    assert opened["falling"] == sorted(opened["falling"], reverse=True)
    assert opened["sort"] == "descending"


def test_a_sorted_table_has_one_body_without_groups(opened):
    assert opened["groups"]
    assert opened["left"] == 0


def test_what_has_no_number_comes_last_both_ways(crowd):
    for column in crowd["sorts"]:
        found = column["values"]
        numbers = [column["sign"] * value for value in found if value is not None]
        assert found[len(numbers) :] == [None] * (len(found) - len(numbers))
        assert numbers == sorted(numbers)
    assert any(None in column["values"] for column in crowd["sorts"])
    assert "Paper: accuracy %" not in {column["head"] for column in crowd["sorts"]}  # no row has one


def test_names_sort_downwards_too(crowd):
    named = [name for name in crowd["names"] if name.startswith("M")]

    assert named == sorted(named, reverse=True)


def test_names_stay_under_their_heading_and_leave_room_on_a_telephone(crowd):
    assert crowd["sticky"]["moved"] > 100
    assert crowd["sticky"]["offsets"] == pytest.approx([0] * len(crowd["sticky"]["offsets"]), abs=1)
    assert crowd["sticky"]["share"] < 0.4


def test_every_method_has_a_named_panel_of_its_own(crowd):
    assert crowd["panels"] == crowd["drawn"]
    assert len(set(crowd["panels"])) == len(crowd["panels"]) == 11


def test_lines_of_the_learning_curve_are_named_at_their_ends_without_overlap(crowd):
    names, shown, offsets = zip(*crowd["ends"])
    assert len(set(names)) == len(names) > 10
    assert all(shown)
    assert len(set(offsets)) > 1  # all errors are the same here: names must move


def test_points_at_one_place_have_names_apart_or_none(crowd):
    places = {}
    for (x, y), shown, offset in crowd["tags"]:
        places.setdefault((x, y), []).append(offset if shown else None)
    here = max(places.values(), key=len)  # many methods with the same record
    named = sorted(offset for offset in here if offset is not None)
    assert 1 < len(named) < len(here)
    assert min(b - a for a, b in pairwise(named)) >= 13


def test_confusion_matrices_are_square_on_a_telephone_too(crowd):
    assert crowd["square"] == pytest.approx([1.0] * len(crowd["square"]), abs=0.02)


def test_convergence_is_clipped_and_says_so(crowd, crowded):
    assert crowd["axis"] == list(RANGE)
    assert "Flat" not in crowd["drawn"]
    caption = re.search("<figcaption>(Objective of each.*?)</figcaption>", crowded.read_text())[1]
    assert "clipped to 0.0001 … 1000" in caption
    assert "Nothing to draw there: Flat" in caption


def test_charts_are_drawn_anew_only_for_a_new_width_and_keep_what_was_hidden(crowd):
    resized = crowd["resized"]
    assert resized["idle"] == 0
    assert resized["redrawn"] > 0
    assert resized["width"] == resized["box"] < 300
    assert resized["chosen"] is False


def test_what_was_hidden_stays_hidden_in_another_theme_and_for_another_time(crowd):
    assert crowd["later"] is False


def test_names_from_records_cannot_become_markup_in_tooltips(crowd):
    kinds = ("curves", "scatter", "seeds", "convergence", "confusion", "ablations")
    assert crowd["tips"] == dict.fromkeys(kinds, True)
    assert crowd["images"] == 0
    assert crowd["hit"] is None


def test_filters_say_whether_they_were_learned(crowded):
    text = crowded.read_text()

    assert "<h3>Filters</h3>" in text
    assert "<figcaption>DCADL, 8 learned filters, first split</figcaption>" in text
    assert "Random atoms, 8 random filters, which DCADL started from, first split</figcaption>" in text
    assert "Random atoms: 8 random filters, which DCADL started from, grey is zero" in text


@pytest.mark.parametrize("error", [ImportError, OSError, KeyError])
def test_a_data_set_that_cannot_be_loaded_leaves_the_report_whole(recorded, tmp_path, monkeypatch, error):
    def broken(name):
        raise error("no such thing here")

    monkeypatch.setattr("dcadl.bench.report.figures.load_dataset", broken)
    write_report(recorded, tmp_path)

    text = (tmp_path / "index.html").read_text()
    assert "Pairs that DCADL confuses most" in text
    assert f"the data set could not be loaded here ({error.__name__})" in text
    assert "An example of" not in text


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

    assert re.search(r"^\| DCADL \(8 atoms\) ‡ \| \d\d\.\d\d ± \d\.\d\d, n=2 \|", text, re.M)
    assert "### Ablations" in text
