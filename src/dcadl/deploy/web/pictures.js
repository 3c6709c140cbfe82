"use strict";
/* Pictures → the pixels that a model takes: grey by luma or colour, averaged down to its size. */
const pictures = (() => {
  /* How much of each source pixel falls on each target pixel of one axis: lists of [source, weight]. */
  function coverage(size, wanted) {
    const ratio = size / wanted;
    return Array.from({ length: wanted }, (_, i) => {
      const from = i * ratio, to = (i + 1) * ratio, parts = [];
      for (let k = Math.floor(from); k < Math.min(Math.ceil(to), size); k++) {
        const weight = (Math.min(to, k + 1) - Math.max(from, k)) / ratio;
        if (weight > 1e-9) parts.push([k, weight]);
      }
      return parts;
    });
  }

  /* RGBA bytes (transparent parts over white) → values 0…255 of rows × columns × channels, integers. */
  function reduce(rgba, width, height, [rows, columns, channels]) {
    const found = new Float32Array(rows * columns * channels);
    const down = coverage(height, rows), across = coverage(width, columns);
    for (let i = 0; i < rows; i++) {
      for (let j = 0; j < columns; j++) {
        const sum = [0, 0, 0];
        for (const [r, rowWeight] of down[i]) {
          for (const [c, columnWeight] of across[j]) {
            const at = 4 * (r * width + c), alpha = rgba[at + 3] / 255, weight = rowWeight * columnWeight;
            for (let k = 0; k < 3; k++) sum[k] += weight * (alpha * rgba[at + k] + (1 - alpha) * 255);
          }
        }
        const start = (i * columns + j) * channels;
        if (channels === 1) found[start] = Math.round(0.299 * sum[0] + 0.587 * sum[1] + 0.114 * sum[2]);
        else for (let k = 0; k < 3; k++) found[start + k] = Math.round(sum[k]);
      }
    }
    return found;
  }

  /* The smallest frame of the wanted proportions around what differs from the ground, or null if nothing does. */
  function inkFrame(rgba, width, height, ground, [rows, columns]) {
    let top = height, bottom = -1, left = width, right = -1;
    for (let i = 0; i < height; i++) {
      for (let j = 0; j < width; j++) {
        if (Math.abs(rgba[4 * (i * width + j)] - ground) < 64) continue;
        top = Math.min(top, i); bottom = Math.max(bottom, i);
        left = Math.min(left, j); right = Math.max(right, j);
      }
    }
    if (bottom < 0) return null;
    const tall = Math.max(bottom - top + 1, ((right - left + 1) * rows) / columns), wide = (tall * columns) / rows;
    return { x: (left + right + 1 - wide) / 2, y: (top + bottom + 1 - tall) / 2, width: wide, height: tall };
  }

  return { reduce, inkFrame };
})();
if (typeof module !== "undefined") module.exports = pictures;
