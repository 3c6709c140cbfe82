"use strict";
/* Pictures → the pixels that a model takes, as the library makes them but for rounding: grey by luma or colour,
   averaged over boxes to the model's size, whatever its proportions. */
const pictures = (() => {
  const BAND = 256; // rows of a picture that are held at a time

  /* Which source pixels make each target pixel of one axis, [first, one past the last]: Pillow's BOX filter. */
  function boxes(size, wanted) {
    const scale = size / wanted, width = Math.max(scale, 1);
    return Array.from({ length: wanted }, (_, i) => {
      const centre = (i + 0.5) * scale, place = (k) => (k - centre + 0.5) / width;
      let from = Math.max(0, Math.trunc(centre - width / 2 + 0.5));
      let to = Math.min(size, Math.trunc(centre + width / 2 + 0.5));
      while (place(from) <= -0.5) from++; // a pixel on both borders belongs to the box before
      while (place(to - 1) > 0.5) to--;
      return [from, to];
    });
  }

  /* One row of opaque RGBA bytes: its sums over the boxes of columns are added to `sums` from `at` on. */
  function addRow(rgba, start, across, channels, sums, at) {
    for (const [from, to] of across) {
      for (let c = from; c < to; c++) {
        const p = start + 4 * c, r = rgba[p], g = rgba[p + 1], b = rgba[p + 2];
        if (channels === 1) sums[at] += Math.round(0.299 * r + 0.587 * g + 0.114 * b);
        else { sums[at] += r; sums[at + 1] += g; sums[at + 2] += b; }
      }
      at += channels;
    }
  }

  /* A picture of opaque RGBA bytes → values 0…255 of rows × columns × channels, integers. `read(top, count)` gives
     the bytes of so many rows: a large photograph is never held whole. */
  function reduce(read, width, height, [rows, columns, channels]) {
    const across = boxes(width, columns), down = boxes(height, rows), line = columns * channels;
    const found = new Float32Array(rows * line), sums = new Float64Array(height * line);
    for (let top = 0; top < height; top += BAND) {
      const count = Math.min(BAND, height - top), rgba = read(top, count);
      for (let r = 0; r < count; r++) addRow(rgba, 4 * r * width, across, channels, sums, (top + r) * line);
    }
    down.forEach(([from, to], i) => {
      for (let j = 0; j < line; j++) {
        const [first, end] = across[Math.floor(j / channels)];
        let sum = 0;
        for (let r = from; r < to; r++) sum += sums[r * line + j];
        found[i * line + j] = Math.round(sum / ((to - from) * (end - first)));
      }
    });
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
