"use strict";
// Draws the page's charts from its data, sorts its tables, and switches between dark and light.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const blocks = Object.fromEntries(data.blocks.map((block) => [block.name, block]));
  const curves = Object.fromEntries(data.curves.map((found) => [found.name, found]));
  // Okabe and Ito's colours, told apart by every kind of eye; symbols and dashes repeat what colours say.
  const GROUPS = {
    light: { ours: "#d55e00", controls: "#6f6f6f", published: "#0072b2", outsiders: "#008060" },
    dark: { ours: "#ff8a3d", controls: "#a8a8a8", published: "#56b4e9", outsiders: "#2fc79a" },
  };
  const COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8a7a00", "#7f7f7f"];
  const LIGHTER = ["#003a5c", "#0072b2", "#56b4e9", "#cfe9fb"]; // from the paper outwards: dark pages end light
  const SYMBOLS = { ours: "diamond", controls: "rect", published: "circle", outsiders: "triangle" };
  const VARIANTS = ["circle", "rect", "triangle", "diamond"]; // of an ablation
  const PANEL = { width: 230, height: 150 }; // of one method's convergence, at least
  const root = document.documentElement;
  const drawn = [];

  const css = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const safe = (text) => echarts.format.encodeHTML(String(text)); // tooltips are markup
  const colour = (group) => GROUPS[root.dataset.theme][group] ?? GROUPS[root.dataset.theme].published;
  const unique = (found, key) => [...new Set(found.map((each) => each[key]))];

  function look(group) {
    return { symbol: SYMBOLS[group] ?? "circle", itemStyle: { color: colour(group), opacity: 1 } };
  }

  function axis(name, extra = {}) {
    const line = { lineStyle: { color: css("--line") } };
    return {
      name, nameLocation: "middle", nameGap: 34, nameTextStyle: { color: css("--quiet") },
      axisLabel: { color: css("--quiet"), hideOverlap: true }, axisLine: line, splitLine: line, ...extra,
    };
  }

  function logAxis(name, formatter, extra = {}) {
    return axis(name, { type: "log", axisLabel: { color: css("--quiet"), formatter, hideOverlap: true }, ...extra });
  }

  function frame(extra) {
    return {
      animation: false, backgroundColor: "transparent", color: COLOURS, textStyle: { color: css("--ink") },
      tooltip: { confine: true, backgroundColor: css("--panel"), textStyle: { color: css("--ink") } },
      grid: { left: 64, right: 24, top: 24, bottom: 56 }, ...extra,
    };
  }

  function nameTag(text, extra = {}) {
    return { show: true, formatter: () => text, color: css("--ink"), fontSize: 11, ...extra };
  }

  function duration(seconds) {
    const [scale, unit] = [[1e6, "µs"], [1e3, "ms"]].find(([scale]) => seconds * scale < 999.5) ?? [1, "s"];
    return `${Number((seconds * scale).toPrecision(2))} ${unit}`;
  }

  function short(value) {
    return value < 0.01 || value >= 1e4 ? value.toExponential(0) : String(Number(value.toPrecision(2)));
  }

  const charts = {
    scatter(block, time, box) {
      const points = block.points.filter((point) => point[time] > 0 && point.error !== null);
      const grid = { left: 64, right: 110, top: 24, bottom: 56 };
      const across = powers(points.map((point) => point[time])), up = logRange(points.map((point) => point.error));
      const offsets = apart(points.map((point) => ({
        x: share(point[time], across) * (box.clientWidth - grid.left - grid.right),
        y: (1 - share(point.error, up)) * (box.clientHeight - grid.top - grid.bottom), text: point.label,
      })), box.clientHeight - grid.top - grid.bottom);
      return frame({
        grid,
        xAxis: logAxis(block.times[time], duration, across),
        yAxis: logAxis("Error, %", short, { nameGap: 46, ...up }),
        series: points.map((point, i) => ({
          name: point.label, type: "scatter", symbolSize: 12, ...look(point.group),
          data: [[point[time], point.error]],
          label: nameTag(point.label, { position: "right", offset: [0, offsets[i]], show: offsets[i] !== null }),
          tooltip: { formatter: () => `${safe(point.label)}: error ${short(point.error)} %, ${duration(point[time])}` },
        })),
      });
    },
    seeds(block) {
      const names = block.seeds.map((each) => each.label);
      const error = (accuracy) => Math.max(100 - accuracy, 0.02); // a logarithm has no zero
      const dots = block.seeds.flatMap((each) => each.values.map((value) => ({
        value: [error(value), each.label, value], itemStyle: { color: colour(each.group), opacity: 0.55 },
      })));
      const means = block.seeds.map((each) => ({ value: [error(each.mean), each.label, each.mean], itemStyle: { color: css("--ink") } }));
      const tip = ({ value, seriesName }) => `${safe(value[1])}<br>${safe(seriesName)}: accuracy ${value[2].toFixed(2)} %`;
      return frame({
        grid: { left: 16, right: 24, top: 16, bottom: 56, containLabel: true },
        xAxis: logAxis("Error, %", short, logRange(dots.map((dot) => dot.value[0]))),
        yAxis: axis("", { type: "category", inverse: true, data: names, axisLabel: { color: css("--ink"), interval: 0 } }),
        series: [
          { name: "one split", type: "scatter", symbolSize: 9, data: dots, tooltip: { formatter: tip } },
          { name: "mean", type: "scatter", symbol: "rect", symbolSize: [3, 18], data: means, tooltip: { formatter: tip } },
        ],
      });
    },
    curves(found, _, box) {
      const grid = { left: 64, right: 150, top: 24, bottom: 56 };
      const up = logRange(found.lines.flatMap((line) => line.errors));
      const ends = found.lines.map((line) => (1 - share(Math.max(line.errors.at(-1), 0.02), up)) * (box.clientHeight - grid.top - grid.bottom));
      const offsets = spread(ends, 13);
      return frame({
        grid,
        xAxis: logAxis("Training images of each class", String, {
          min: found.images[0], max: found.images.at(-1),
          axisLabel: { color: css("--quiet"), customValues: found.images }, axisTick: { customValues: found.images },
        }),
        yAxis: logAxis("Error, %", short, { nameGap: 46, ...up }),
        series: found.lines.map((line, n) => ({
          name: line.name, type: "line", symbolSize: 7, ...look(line.group), clip: false,
          lineStyle: { color: colour(line.group), width: line.group === "ours" ? 3 : 1.5, type: line.group === "controls" ? "dashed" : "solid" },
          data: line.images.map((k, i) => [k, Math.max(line.errors[i], 0.02)]),
          endLabel: nameTag(line.name, { offset: [0, offsets[n]], color: colour(line.group), fontWeight: line.group === "ours" ? "bold" : "normal" }),
          tooltip: { formatter: ({ value: [k, error] }) => `${safe(line.name)}: error ${short(error)} % with ${k} of each class` },
        })),
      });
    },
    ablations(block, codes) {
      const found = block.ablations.filter((each) => each.codes === codes);
      const [methods, ways, atoms] = ["method", "normalize", "atoms"].map((key) => unique(found, key));
      const series = methods.flatMap((method, i) => ways.map((way, j) => ({
        name: `${method}, ${way}`, type: "line", symbol: VARIANTS[j], symbolSize: 9,
        itemStyle: { color: COLOURS[j] }, lineStyle: { color: COLOURS[j], type: i ? "dashed" : "solid" },
        data: atoms.map((m) => found.find((e) => e.method === method && e.normalize === way && e.atoms === m)?.accuracy),
      })));
      return frame({
        grid: { left: 64, right: 24, top: 48, bottom: 56 },
        legend: { type: "scroll", top: 0, textStyle: { color: css("--ink") }, pageTextStyle: { color: css("--ink") } },
        series,
        xAxis: axis("Atoms", { type: "category", data: atoms }),
        yAxis: axis("Accuracy, %", { type: "value", scale: true, nameGap: 46 }),
      });
    },
    convergence(block, _, box) {
      // a small panel for each method, as many in a row as there is room for
      const [min, max] = block.range;
      const columns = panelsAcross(box), rows = Math.ceil(block.convergence.length / columns);
      const wide = 100 / columns, high = 100 / rows;
      const place = (i) => ({ left: `${(i % columns) * wide + 0.2 * wide}%`, width: `${0.74 * wide}%`,
        top: `${Math.floor(i / columns) * high + 0.18 * high}%`, height: `${0.58 * high}%` });
      const every = (make) => block.convergence.map(make);
      return frame({
        grid: every((_line, i) => place(i)),
        title: every((line, i) => ({ text: line.label, left: place(i).left, top: `${Math.floor(i / columns) * high + 0.03 * high}%`,
          padding: 0, textStyle: { color: css("--ink"), fontSize: 12, fontWeight: "normal" } })),
        xAxis: every((line, i) => axis("", { gridIndex: i, type: "value", min: 0, max: line.values.length - 1, splitNumber: 3 })),
        yAxis: every((_line, i) => logAxis("", short, { gridIndex: i, min, max, splitNumber: 3, interval: 2 })),
        series: every((line, i) => ({
          name: line.label, type: "line", xAxisIndex: i, yAxisIndex: i, showSymbol: line.values.length < 30, symbolSize: 4,
          ...look(line.group), lineStyle: { color: colour(line.group), width: 1.5 }, data: line.values.map((v, k) => [k, v]),
          tooltip: { formatter: ({ value: [k, v] }) => `${safe(line.label)}: ${short(v)} after step ${k}` },
        })),
      });
    },
    confusion(block, label) {
      const found = block.confusions.find((each) => each.label === label);
      const many = block.classes.length > 20;
      const names = axis("", { type: "category", data: block.classes, splitLine: { show: false } });
      names.axisLabel = { color: css("--quiet"), interval: many ? "auto" : 0, rotate: 90, fontSize: many ? 9 : 12, width: 90, overflow: "truncate" };
      return frame({
        grid: { left: 110, right: 16, top: 16, bottom: 176, outerBoundsMode: "none" }, // or long names make it oblong
        xAxis: { ...names, name: "Predicted", nameGap: 92 },
        yAxis: { ...names, name: "True", inverse: true, nameGap: 92, axisLabel: { ...names.axisLabel, rotate: 0 } },
        visualMap: {
          // by square root: a few per cent of confusion must not vanish beside the diagonal
          min: 0, max: 10, dimension: 3, formatter: (root) => `${Math.round(root * root)} %`,
          calculable: true, orient: "horizontal", left: "center", bottom: 0,
          textStyle: { color: css("--ink") }, inRange: { color: [css("--panel"), ...(root.dataset.theme === "dark" ? LIGHTER : LIGHTER.toReversed())] },
        },
        series: [{
          type: "heatmap", data: found.cells.map(([t, f, share]) => [f, t, share, Math.sqrt(share)]), encode: { x: 0, y: 1, value: 3 },
          tooltip: { formatter: ({ value }) => `${safe(block.classes[value[1]])} as ${safe(block.classes[value[0]])}: ${value[2]} %` },
        }],
      });
    },
  };

  function logRange(values) {
    // whole steps of 1, 2, 5: an axis that ends close to its points
    const steps = [-2, -1, 0, 1, 2].flatMap((power) => [1, 2, 5].map((digit) => digit * 10 ** power));
    const [low, high] = [Math.min(...values), Math.max(...values)];
    return { min: steps.findLast((step) => step <= low) ?? 0.01, max: steps.find((step) => step >= high) ?? 100 };
  }

  function powers(values) {
    // whole powers of ten around the values
    return { min: 10 ** Math.floor(Math.log10(Math.min(...values))), max: 10 ** Math.ceil(Math.log10(Math.max(...values))) };
  }

  const share = (value, { min, max }) => Math.log(value / min) / Math.log(max / min); // of a logarithmic axis

  function spread(heights, room) {
    // how far to shift each height so that all lie apart: those too close push each other away
    const order = heights.map((_height, i) => i).sort((i, j) => heights[i] - heights[j]);
    const placed = [...heights];
    for (let round = 0; round < 200; round += 1) {
      for (let k = 1; k < order.length; k += 1) {
        const [i, j] = [order[k - 1], order[k]];
        const push = Math.max(0, room - (placed[j] - placed[i])) / 2;
        placed[i] -= push;
        placed[j] += push;
      }
    }
    return placed.map((height, i) => height - heights[i]);
  }

  function apart(tags, height) {
    // how far to shift each name down so that it covers no other name or point: the highest are placed first;
    // null where there is no room within the height: then the point is named when it is touched
    const placed = [], order = tags.map((_tag, i) => i).sort((i, j) => tags[i].y - tags[j].y);
    const shifts = Array(tags.length).fill(0);
    for (const i of order) {
      const { x, y, text } = tags[i], width = 7 * text.length + 12;
      const onName = (at) => placed.some((p) => Math.abs(p.y - at) < 13 && p.x < x + width && x < p.x + p.width);
      const onPoint = (at) => tags.some((t, k) => k !== i && Math.abs(t.y - at) < 11 && x - 6 < t.x && t.x - 6 < x + width);
      const hit = (at) => at > height - 7 || onName(at) || onPoint(at);
      const shift = [0, -7, 7, -13, 13, -20, 20, -27, 27, -34, 34].find((d) => !hit(y + d)) ?? null;
      if (shift !== null) placed.push({ x, y: y + shift, width });
      shifts[i] = shift;
    }
    return shifts;
  }

  const panelsAcross = (box) => Math.max(1, Math.floor(box.clientWidth / PANEL.width));

  function heightOf(kind, block, box) {
    // pixels that a chart needs at this width; null where the style sheet says
    if (kind === "seeds") return 90 + 26 * block.seeds.length;
    if (kind === "convergence") return PANEL.height * Math.ceil(block.convergence.length / panelsAcross(box));
    if (kind === "confusion") return box.clientWidth + 66; // square cells: names and scale take as much on both sides
    if (kind === "curves") return Math.max(420, 24 * block.lines.length);
    if (kind === "scatter") return Math.max(384, 22 * block.points.length);
    return null;
  }

  function choices(block, kind) {
    if (kind === "scatter") return Object.entries(block.times);
    if (kind === "confusion") return block.confusions.map((each) => [each.label, each.label]);
    if (kind === "ablations") return unique(block.ablations, "codes").map((codes) => [codes, codes]);
    return [];
  }

  function draw(figure) {
    const { kind } = figure.dataset;
    const block = (kind === "curves" ? curves : blocks)[figure.dataset.block];
    const box = figure.querySelector(".chart");
    const select = figure.querySelector("select");
    const fit = () => { const height = heightOf(kind, block, box); if (height) box.style.height = `${height}px`; };
    fit();
    const chart = echarts.init(box);
    const show = () => {
      const option = charts[kind](block, select?.value, box);
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
    drawn.push({ chart, show, box, fit });
  }

  function compare(a, b, sign) {
    const [x, y] = [a, b].map((cell) => Number.parseFloat(cell.dataset.value));
    const missing = Number.isNaN(x) - Number.isNaN(y);
    return missing || (Number.isNaN(x) ? 0 : sign * (x - y)); // what has no number comes last, both ways
  }

  function sortBy(head) {
    const rising = head.getAttribute("aria-sort") !== "ascending";
    const sign = rising ? 1 : -1;
    const table = head.closest("table");
    const cell = (row) => row.cells[head.cellIndex];
    const order = head.cellIndex === 0
      ? (a, b) => sign * cell(a).textContent.localeCompare(cell(b).textContent)
      : (a, b) => compare(cell(a), cell(b), sign);
    table.querySelectorAll("tr.group").forEach((row) => row.remove()); // sorted rows know no groups
    const rows = [...table.tBodies].flatMap((body) => [...body.rows]).sort(order);
    for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", rising ? "ascending" : "descending");
    table.tBodies[0].append(...rows);
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
  window.addEventListener("resize", () => drawn.forEach(({ chart, box, fit, show }) => {
    // a telephone also says "resize" when its address bar hides
    if (box.clientWidth === chart.getWidth()) return;
    fit();
    chart.resize();
    show();
  }));
})();
