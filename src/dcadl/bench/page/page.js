"use strict";
// Draws the page's charts from its data, sorts its tables, and switches between dark and light.
(() => {
  const blocks = Object.fromEntries(
    JSON.parse(document.getElementById("data").textContent).map((block) => [block.name, block]),
  );
  // Okabe and Ito's colours, told apart by every kind of eye; symbols repeat what colours say.
  const COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8a7a00", "#7f7f7f"];
  const LIGHTER = ["#003a5c", "#0072b2", "#56b4e9", "#cfe9fb"]; // from the paper outwards: dark pages end light
  const SYMBOLS = ["circle", "rect", "triangle", "diamond", "pin", "arrow", "roundRect"];
  const root = document.documentElement;
  const drawn = [];

  const css = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const narrow = () => window.innerWidth < 600;

  function axis(name, extra = {}) {
    const line = { lineStyle: { color: css("--line") } };
    return {
      name, nameLocation: "middle", nameGap: 34, nameTextStyle: { color: css("--quiet") },
      axisLabel: { color: css("--quiet") }, axisLine: line, splitLine: line, ...extra,
    };
  }

  function frame(extra) {
    return {
      animation: false, backgroundColor: "transparent", color: COLOURS, textStyle: { color: css("--ink") },
      tooltip: { confine: true, backgroundColor: css("--panel"), textStyle: { color: css("--ink") } },
      grid: { left: 64, right: 24, top: 48, bottom: 56 }, ...extra,
    };
  }

  function legend() {
    return { type: "scroll", top: 0, textStyle: { color: css("--ink") }, pageTextStyle: { color: css("--ink") } };
  }

  function short(value) {
    return value < 0.01 || value >= 1e4 ? value.toExponential(0) : String(Number(value.toPrecision(2)));
  }

  const charts = {
    scatter(block, time) {
      return frame({
        legend: legend(),
        xAxis: axis(block.times[time], {
          type: "log", axisLabel: { color: css("--quiet"), formatter: short, hideOverlap: true },
        }),
        yAxis: axis("Accuracy, %", { type: "value", scale: true, nameGap: 46 }),
        series: block.points.filter((point) => point[time] > 0).map((point, i) => ({
          name: point.label, type: "scatter", symbolSize: 14, symbol: SYMBOLS[i % SYMBOLS.length],
          data: [[point[time], point.accuracy]],
          tooltip: { formatter: () => `${point.label}: ${point.accuracy.toFixed(2)} %, ${short(point[time])} s` },
        })),
      });
    },
    boxes: (block) => boxPlot(block.boxes),
    ablations(block, codes) {
      const found = block.ablations.filter((each) => each.codes === codes);
      const [methods, ways, atoms] = ["method", "normalize", "atoms"].map((key) => unique(found, key));
      const series = methods.flatMap((method, i) => ways.map((way, j) => ({
        name: `${method}, ${way}`, type: "line", symbol: SYMBOLS[j], symbolSize: 9,
        itemStyle: { color: COLOURS[j] }, lineStyle: { color: COLOURS[j], type: i ? "dashed" : "solid" },
        data: atoms.map((m) => found.find((e) => e.method === method && e.normalize === way && e.atoms === m)?.accuracy),
      })));
      return frame({
        legend: legend(), series,
        xAxis: axis("Atoms", { type: "category", data: atoms }),
        yAxis: axis("Accuracy, %", { type: "value", scale: true, nameGap: 46 }),
      });
    },
    convergence(block) {
      return frame({
        legend: legend(),
        xAxis: axis("Share of the run, %", { type: "value", max: 100 }),
        yAxis: axis("Objective above its lowest, share", { type: "log", nameGap: 46, axisLabel: { color: css("--quiet"), formatter: short } }),
        series: block.convergence.map((line) => ({
          name: line.label, type: "line", showSymbol: false,
          data: line.values.map((value, i) => [(100 * i) / (line.values.length - 1), value]),
        })),
      });
    },
    confusion(block, label) {
      const found = block.confusions.find((each) => each.label === label);
      const many = block.classes.length > 20;
      const names = axis("", { type: "category", data: block.classes, splitLine: { show: false } });
      names.axisLabel = { color: css("--quiet"), show: !many, interval: 0, rotate: 45 };
      return frame({
        grid: { left: many ? 40 : 90, right: 16, top: 16, bottom: many ? 90 : 130 },
        xAxis: { ...names, name: "Predicted", nameGap: many ? 12 : 60 },
        yAxis: { ...names, name: "True", inverse: true, nameGap: many ? 16 : 70, axisLabel: { ...names.axisLabel, rotate: 0 } },
        visualMap: {
          // by square root: a few per cent of confusion must not vanish beside the diagonal
          min: 0, max: 10, dimension: 3, formatter: (root) => `${Math.round(root * root)} %`,
          calculable: true, orient: "horizontal", left: "center", bottom: 0, text: ["100 %", "0 %"],
          textStyle: { color: css("--ink") }, inRange: { color: [css("--panel"), ...(root.dataset.theme === "dark" ? LIGHTER : LIGHTER.toReversed())] },
        },
        series: [{
          type: "heatmap", data: found.cells.map(([t, f, share]) => [f, t, share, Math.sqrt(share)]), encode: { x: 0, y: 1, value: 3 },
          tooltip: { formatter: ({ value }) => `${block.classes[value[1]]} as ${block.classes[value[0]]}: ${value[2]} %` },
        }],
      });
    },
  };

  function unique(found, key) {
    return [...new Set(found.map((each) => each[key]))];
  }

  function boxPlot(boxes) {
    return frame({
      grid: { left: narrow() ? 120 : 190, right: 24, top: 16, bottom: 56 },
      xAxis: axis("Accuracy, %", { type: "value", scale: true }),
      yAxis: axis("", { type: "category", inverse: true, data: boxes.map((each) => each.label) }),
      series: [{
        type: "boxplot", data: boxes.map((each) => each.box),
        itemStyle: { color: css("--panel"), borderColor: COLOURS[0], borderWidth: 2 },
        tooltip: {
          formatter: ({ name, value }) =>
            `${name}<br>median ${value[3].toFixed(2)} %<br>range ${value[1].toFixed(2)} to ${value[5].toFixed(2)} %`,
        },
      }],
    });
  }

  function choices(block, kind) {
    if (kind === "scatter") return Object.entries(block.times);
    if (kind === "confusion") return block.confusions.map((each) => [each.label, each.label]);
    if (kind === "ablations") return unique(block.ablations, "codes").map((codes) => [codes, codes]);
    return [];
  }

  function draw(figure) {
    const block = blocks[figure.dataset.block];
    const { kind } = figure.dataset;
    const box = figure.querySelector(".chart");
    const select = figure.querySelector("select");
    if (kind === "boxes") box.style.height = `${90 + 34 * block.boxes.length}px`;
    const chart = echarts.init(box);
    const show = () => chart.setOption(charts[kind](block, select?.value), true);
    if (select) {
      select.append(...choices(block, kind).map(([value, text]) => new Option(text, value)));
      select.addEventListener("change", () => {
        show();
        box.setAttribute("aria-label", `${box.dataset.name}: ${select.selectedOptions[0].text}`);
      });
    }
    box.dataset.name = box.getAttribute("aria-label");
    show();
    drawn.push({ chart, show });
  }

  const number = (text) => Number.parseFloat(text.replace("+", "").replace("−", "-"));

  function compare(a, b) {
    const [x, y] = [number(a), number(b)];
    if (Number.isNaN(x) || Number.isNaN(y)) {
      // what has no number comes last, names in their own order
      return Number.isNaN(x) && Number.isNaN(y) ? a.localeCompare(b) : Number.isNaN(x) - Number.isNaN(y);
    }
    return x - y;
  }

  function sortBy(head) {
    const rising = head.getAttribute("aria-sort") !== "ascending";
    const body = head.closest("table").tBodies[0];
    const text = (row) => row.cells[head.cellIndex].textContent;
    const rows = [...body.rows].sort((a, b) => (rising ? 1 : -1) * compare(text(a), text(b)));
    for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", rising ? "ascending" : "descending");
    body.append(...rows);
  }

  function paint(theme) {
    root.dataset.theme = theme;
    for (const { show } of drawn) show();
  }

  paint(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  document.querySelectorAll("figure[data-kind]").forEach(draw);
  document.querySelectorAll("table.sortable thead th").forEach((head) =>
    head.querySelector("button").addEventListener("click", () => sortBy(head)),
  );
  document.getElementById("theme").addEventListener("click", () =>
    paint(root.dataset.theme === "dark" ? "light" : "dark"),
  );
  window.addEventListener("resize", () => drawn.forEach(({ chart, show }) => { chart.resize(); show(); }));
})();
