"use strict";
/* The operations of a dcadl model in plain JavaScript: see dcadl/deploy/operations.py. No dependency, no network.
   Maps are {rows, columns, channels, values}, values row by row, channels innermost. */
const dcadl = (() => {
  function decode(array) {
    const text = atob(array.base64);
    const bytes = Uint8Array.from(text, (letter) => letter.charCodeAt(0));
    return new Float32Array(bytes.buffer);
  }

  /* The program with its arrays as Float32Array beside their shapes. */
  function read(program) {
    const open = (value) => {
      if (Array.isArray(value)) return value.map(open);
      if (value === null || typeof value !== "object") return value;
      if ("base64" in value) return { shape: value.shape, values: decode(value) };
      return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, open(inner)]));
    };
    return open(program);
  }

  function maps(rows, columns, channels) {
    return { rows, columns, channels, values: new Float64Array(rows * columns * channels) };
  }

  function pointwise(x, change) {
    return { ...x, values: x.values.map(change) };
  }

  function length(values) {
    let sum = 0;
    for (const value of values) sum += value * value;
    return Math.sqrt(sum);
  }

  /* Copies the patch at (top, left) and normalises it as the bank says. */
  function takePatch(bank, x, top, left, first, count, patch) {
    const [, h, w] = bank.filters.shape;
    let at = 0;
    for (let i = top; i < top + h; i++) {
      for (let j = left; j < left + w; j++) {
        const inside = i >= 0 && i < x.rows && j >= 0 && j < x.columns;
        const start = (i * x.columns + j) * x.channels + first;
        for (let k = 0; k < count; k++) patch[at++] = inside ? x.values[start + k] : 0;
      }
    }
    if (bank.local === null) return;
    let size = length(patch);
    if (bank.local === "unit") size = Math.max(size, bank.floor);
    else {
      const lowest = bank.floor * size;
      const mean = patch.reduce((sum, value) => sum + value, 0) / patch.length;
      for (let k = 0; k < patch.length; k++) patch[k] -= mean;
      size = Math.max(length(patch), lowest);
    }
    if (size > 0) for (let k = 0; k < patch.length; k++) patch[k] /= size;
  }

  function filterBank(bank, x) {
    const [m, h, w, c] = bank.filters.shape;
    const [above, left, below, right] = bank.padding;
    const rows = Math.floor((x.rows + above + below - h) / bank.stride[0]) + 1;
    const columns = Math.floor((x.columns + left + right - w) / bank.stride[1]) + 1;
    const groups = bank.per_channel ? x.channels : 1;
    const found = maps(rows, columns, m * groups);
    const patch = new Float64Array(h * w * c);
    const filters = bank.filters.values, bias = bank.bias.values;
    let at = 0;
    for (let i = 0; i < rows; i++) {
      for (let j = 0; j < columns; j++) {
        for (let group = 0; group < groups; group++) {
          takePatch(bank, x, i * bank.stride[0] - above, j * bank.stride[1] - left, group * c * (groups > 1), c, patch);
          for (let f = 0; f < m; f++) {
            let sum = bias[f];
            for (let k = 0, start = f * patch.length; k < patch.length; k++) sum += filters[start + k] * patch[k];
            found.values[at++] = sum;
          }
        }
      }
    }
    return found;
  }

  function hardThreshold(keep, x) {
    const found = maps(x.rows, x.columns, x.channels);
    for (let start = 0; start < x.values.length; start += x.channels) {
      const order = Array.from({ length: x.channels }, (_, k) => start + k);
      order.sort((a, b) => Math.abs(x.values[b]) - Math.abs(x.values[a]));
      for (const k of order.slice(0, keep)) found.values[k] = x.values[k];
    }
    return found;
  }

  function split(thresholds, x) {
    const m = x.channels, found = maps(x.rows, x.columns, 2 * m);
    for (let place = 0; place < x.rows * x.columns; place++) {
      for (let k = 0; k < m; k++) {
        const value = x.values[place * m + k];
        found.values[place * 2 * m + k] = Math.max(value - thresholds[k], 0);
        found.values[place * 2 * m + m + k] = Math.max(-value - thresholds[k], 0);
      }
    }
    return found;
  }

  /* Calls visit(cell, top, bottom, left, right) for every cell of every grid. */
  function eachCell(grids, visit) {
    let cell = 0;
    for (const [rows, columns] of grids) {
      for (const [top, bottom] of rows) {
        for (const [left, right] of columns) visit(cell++, top, bottom, left, right);
      }
    }
    return cell;
  }

  function gridPool(grids, x) {
    const found = maps(1, eachCell(grids, () => {}), x.channels);
    eachCell(grids, (cell, top, bottom, left, right) => {
      const area = (bottom - top) * (right - left);
      for (let i = top; i < bottom; i++) {
        for (let j = left; j < right; j++) {
          const start = (i * x.columns + j) * x.channels;
          for (let k = 0; k < x.channels; k++) found.values[cell * x.channels + k] += x.values[start + k] / area;
        }
      }
    });
    return found;
  }

  function linear(operation, x) {
    const [C, D] = operation.coef.shape;
    const found = maps(1, 1, C);
    for (let k = 0; k < C; k++) {
      let sum = operation.intercept.values[k];
      for (let j = 0, start = k * D; j < D; j++) sum += operation.coef.values[start + j] * x.values[j];
      found.values[k] = sum;
    }
    return found;
  }

  /* Calls visit(row of the table, pixel) for every pixel of every block of every map. */
  function eachHashed(operation, x, visit) {
    const [count, , bins, C] = operation.table.shape, bank = operation.bank, L = bank.filters.shape[0];
    const responses = filterBank(bank, x);
    const [[, columns], [h, w], [down, right]] = operation.blocks;
    const across = Math.floor((columns - w) / right) + 1, n = operation.table.shape[1];
    const offset = Math.max(...bank.bias.values.map(Math.abs));
    for (let map = 0; map < count; map++) {
      let largest = 0;
      for (let i = 0; i < x.values.length; i++) {
        if (!bank.per_channel || i % x.channels === map) largest = Math.max(largest, Math.abs(x.values[i]));
      }
      const lowest = operation.rounding * (largest + offset);
      for (let block = 0; block < n; block++) {
        const top = Math.floor(block / across) * down, left = (block % across) * right;
        for (let i = top; i < top + h; i++) {
          for (let j = left; j < left + w; j++) {
            const pixel = i * columns + j, start = pixel * responses.channels + map * L;
            let code = 0;
            for (let bit = 0; bit < L; bit++) code = 2 * code + (responses.values[start + bit] > lowest ? 1 : 0);
            visit(((map * n + block) * bins + code) * C, pixel);
          }
        }
      }
    }
  }

  function hashedLinear(operation, x) {
    const C = operation.intercept.values.length, found = maps(1, 1, C);
    found.values.set(operation.intercept.values);
    eachHashed(operation, x, (row) => {
      for (let k = 0; k < C; k++) found.values[k] += operation.table.values[row + k];
    });
    return found;
  }

  function apply(operation, x) {
    switch (operation.kind) {
      case "Rescale": return pointwise(x, (value) => value * operation.factor);
      case "UnitImage": {
        const size = length(x.values);
        return pointwise(x, (value) => (size > 0 ? value / size : value));
      }
      case "FilterBank": return filterBank(operation, x);
      case "SoftThreshold": {
        const t = operation.threshold;
        return pointwise(x, (value) => (value > t ? value - t : value < -t ? value + t : 0));
      }
      case "HardThreshold": return hardThreshold(operation.keep, x);
      case "Relu": return pointwise(x, (value) => Math.max(value, 0));
      case "Split": return split(operation.thresholds.values, x);
      case "GridPool": return gridPool(operation.grids, x);
      case "Linear": return linear(operation, x);
      case "HashedLinear": return hashedLinear(operation, x);
      default: throw new Error(`unknown operation ${operation.kind}`);
    }
  }

  function softmax(scores, temperature) {
    const top = Math.max(...scores), parts = Array.from(scores, (score) => Math.exp((score - top) / temperature));
    const sum = parts.reduce((a, b) => a + b, 0);
    return parts.map((part) => part / sum);
  }

  /* Index of the best class, scores, probabilities, and the maps before and after every operation. */
  function run(program, pixels) {
    const [rows, columns, channels] = program.image;
    const trace = [{ rows, columns, channels, values: Float64Array.from(pixels) }];
    const operations = program.operations.slice(0, -1);
    for (const operation of operations) trace.push(apply(operation, trace[trace.length - 1]));
    const scores = Array.from(trace[trace.length - 1].values);
    const temperature = program.operations[program.operations.length - 1].temperature;
    return { best: scores.indexOf(Math.max(...scores)), scores, probabilities: softmax(scores, temperature), trace };
  }

  function spread(found, bank, x) {
    const [, h, w] = bank.filters.shape, C = found.channels, laid = maps(x.rows, x.columns, C);
    for (let i = 0; i < found.rows; i++) {
      for (let j = 0; j < found.columns; j++) {
        const top = i * bank.stride[0] - bank.padding[0], left = j * bank.stride[1] - bank.padding[1];
        const rows = [Math.max(top, 0), Math.min(top + h, x.rows)], columns = [Math.max(left, 0), Math.min(left + w, x.columns)];
        const count = (rows[1] - rows[0]) * (columns[1] - columns[0]);
        for (let r = rows[0]; r < rows[1]; r++) {
          for (let c = columns[0]; c < columns[1]; c++) {
            for (let k = 0; k < C; k++) {
              laid.values[(r * x.columns + c) * C + k] += found.values[(i * found.columns + j) * C + k] / count;
            }
          }
        }
      }
    }
    return laid;
  }

  /* Each place's part of the scores, and the number of operations before those places. */
  function ofPlaces(operations, trace) {
    const end = operations.length - 1, last = operations[end], pool = operations[end - 1];
    const C = last.intercept.values.length, pooled = pool !== undefined && pool.kind === "GridPool";
    const x = trace[pooled ? end - 1 : end], found = maps(x.rows, x.columns, C);
    if (last.kind === "HashedLinear") {
      eachHashed(last, x, (row, pixel) => {
        for (let k = 0; k < C; k++) found.values[pixel * C + k] += last.table.values[row + k];
      });
      return [found, end];
    }
    const D = last.coef.shape[1], m = x.channels;
    const add = (place, start, area) => {
      for (let k = 0; k < C; k++) {
        let sum = 0;
        for (let j = 0; j < m; j++) sum += last.coef.values[k * D + start + j] * x.values[place * m + j];
        found.values[place * C + k] += sum / area;
      }
    };
    if (pooled) {
      eachCell(pool.grids, (cell, top, bottom, left, right) => {
        for (let i = top; i < bottom; i++) {
          for (let j = left; j < right; j++) add(i * x.columns + j, cell * m, (bottom - top) * (right - left));
        }
      });
      return [found, end - 1];
    }
    for (let place = 0; place < x.rows * x.columns; place++) add(place, place * m, 1);
    return [found, end];
  }

  /* Evidence of every pixel for every class: summed over pixels, the scores less the intercept. */
  function evidence(program, trace) {
    const operations = program.operations.slice(0, -1);
    let [found, before] = ofPlaces(operations, trace);
    for (let i = before - 1; i >= 0; i--) {
      if (operations[i].kind === "FilterBank") found = spread(found, operations[i], trace[i]);
    }
    return found;
  }

  return { read, run, evidence };
})();
if (typeof module !== "undefined") module.exports = dcadl;
