"use strict";
// Draws the page's charts from its data, sorts its tables, and switches between dark and light.
(() => {
  const blocks = Object.fromEntries(
    JSON.parse(document.getElementById("data").textContent).map((block) => [block.name, block]),
  );
  // Okabe and Ito's colours, told apart by every kind of eye; symbols and dashes repeat what colours say.
  const COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8a7a00", "#7f7f7f"];
  const LIGHTER = ["#003a5c", "#0072b2", "#56b4e9", "#cfe9fb"]; // from the paper outwards: dark pages end light
  const SYMBOLS = [ // each as wide as high: charts stretch them to a square
    "circle", "rect", "triangle", "diamond",
    "path://M0 0h10L5 10z", // a triangle on its point
    "path://M4 0h2v4h4v2h-4v4h-2v-4h-4v-2h4z", // +
    "path://M5 0L6.2 3.6L10 3.6L6.9 5.9L8.1 9.5L5 7.3L1.9 9.5L3.1 5.9L0 3.6L3.8 3.6z", // a star
    "path://M0 1.5L1.5 0L5 3.5L8.5 0L10 1.5L6.5 5L10 8.5L8.5 10L5 6.5L1.5 10L0 8.5L3.5 5z", // ×
    "path://M0 0h10L0 10h10z", // an hourglass
    "path://M0 0L10 10V0L0 10z", // a bow
    "path://M0 0L10 5L0 10z", "path://M10 0L0 5L10 10z", // to the right, to the left
    "path://M0 0h10v10h-10zM2.5 2.5v5h5v-5z", "path://M0 0h10v3h-3.5v7h-3v-7h-3.5z", // a frame, T
  ];
  const DASHES = ["solid", "dashed", "dotted", [12, 4, 2, 4], [18, 5]];
  const root = document.documentElement;
  const drawn = [];

  const css = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const safe = (text) => echarts.format.encodeHTML(String(text)); // tooltips are markup
  const labels = unique(Object.values(blocks).flatMap((block) => block.points), "label");

  function look(label) {
    // a method's own in every chart
    const i = labels.indexOf(label);
    const color = COLOURS[i % COLOURS.length];
    return {
      symbol: SYMBOLS[i % SYMBOLS.length], itemStyle: { color, opacity: 1 },
      lineStyle: { color, width: 1.5, type: DASHES[i % DASHES.length] },
    };
  }

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

  function legend(extra = {}) {
    return { type: "scroll", top: 0, ...extra, textStyle: { color: css("--ink") }, pageTextStyle: { color: css("--ink") } };
  }

  function short(value) {
    return value < 0.01 || value >= 1e4 ? value.toExponential(0) : String(Number(value.toPrecision(2)));
  }

  const charts = {
    scatter(block, time) {
      return frame({
        legend: legend({ itemWidth: 14 }),
        xAxis: axis(block.times[time], {
          type: "log", axisLabel: { color: css("--quiet"), formatter: short, hideOverlap: true },
        }),
        yAxis: axis("Accuracy, %", { type: "value", scale: true, nameGap: 46 }),
        series: block.points.filter((point) => point[time] > 0).map((point) => ({
          name: point.label, type: "scatter", symbolSize: 14, ...look(point.label),
          data: [[point[time], point.accuracy]],
          tooltip: { formatter: () => `${safe(point.label)}: ${point.accuracy.toFixed(2)} %, ${short(point[time])} s` },
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
      const [min, max] = block.range;
      return frame({
        legend: legend({ itemWidth: 44 }),
        xAxis: axis("Share of the run, %", { type: "value", max: 100 }),
        yAxis: axis("Objective above its lowest, share", {
          type: "log", min, max, nameGap: 46, axisLabel: { color: css("--quiet"), formatter: short },
        }),
        series: block.convergence.map((line) => ({
          name: line.label, type: "line", symbolSize: 9, ...look(line.label), data: steps(line),
          tooltip: { formatter: ({ value: [x, y] }) => `${safe(line.label)}: ${short(y)} at ${x.toFixed(0)} % of its run` },
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
          tooltip: { formatter: ({ value }) => `${safe(block.classes[value[1]])} as ${safe(block.classes[value[0]])}: ${value[2]} %` },
        }],
      });
    },
  };

  function unique(found, key) {
    return [...new Set(found.map((each) => each[key]))];
  }

  function steps({ label, values }) {
    // some ten symbols a line, each line's at steps of its own
    const every = Math.ceil(values.length / 10);
    const marked = labels.indexOf(label) % every;
    return values.map((value, i) => ({
      value: [(100 * i) / (values.length - 1), value], ...(i % every === marked ? {} : { symbol: "none" }),
    }));
  }

  function boxPlot(boxes) {
    return frame({
      grid: { left: 16, right: 24, top: 16, bottom: 56, containLabel: true },
      xAxis: axis("Accuracy, %", { type: "value", scale: true }),
      yAxis: axis("", { type: "category", inverse: true, data: boxes.map((each) => each.label) }),
      series: [{
        type: "boxplot", data: boxes.map((each) => each.box),
        itemStyle: { color: css("--panel"), borderColor: COLOURS[0], borderWidth: 2 },
        tooltip: {
          formatter: ({ name, value }) =>
            `${safe(name)}<br>median ${value[3].toFixed(2)} %<br>range ${value[1].toFixed(2)} to ${value[5].toFixed(2)} %`,
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
    const show = () => {
      const option = charts[kind](block, select?.value);
      const selected = chart.getOption()?.legend?.[0]?.selected;
      if (option.legend && selected) option.legend.selected = selected; // what the reader hid stays hidden
      chart.setOption(option, true);
    };
    if (select) {
      select.append(...choices(block, kind).map(([value, text]) => new Option(text, value)));
      select.addEventListener("change", () => {
        show();
        box.setAttribute("aria-label", `${box.dataset.name}: ${select.selectedOptions[0].text}`);
      });
    }
    box.dataset.name = box.getAttribute("aria-label");
    show();
    drawn.push({ chart, show, box });
  }

  const number = (text) => Number.parseFloat(text.replace("+", "").replace("−", "-"));

  function compare(a, b, sign) {
    const [x, y] = [number(a), number(b)];
    const missing = Number.isNaN(x) - Number.isNaN(y);
    return missing || (Number.isNaN(x) ? 0 : sign * (x - y)); // what has no number comes last, both ways
  }

  function sortBy(head) {
    const rising = head.getAttribute("aria-sort") !== "ascending";
    const sign = rising ? 1 : -1;
    const body = head.closest("table").tBodies[0];
    const text = (row) => row.cells[head.cellIndex].textContent;
    const order = head.cellIndex === 0 ? (a, b) => sign * a.localeCompare(b) : (a, b) => compare(a, b, sign);
    const rows = [...body.rows].sort((a, b) => order(text(a), text(b)));
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
  window.addEventListener("resize", () => drawn.forEach(({ chart, box }) => {
    // a telephone also says "resize" when its address bar hides
    if (box.clientWidth !== chart.getWidth()) chart.resize();
  }));
})();
