"use strict";
(() => {
  const find = (id) => document.getElementById(id);
  const program = dcadl.read(JSON.parse(find("program").textContent));
  const [rows, columns, channels] = program.image;
  const canvas = find("picture"), pen = canvas.getContext("2d", { willReadFrequently: true });
  const SHOWN = 10, CAMERA_MS = 120;
  let mode = "empty"; // empty, file, draw or camera
  let source = null; // what the canvas shows in file mode
  let chosen = null; // class whose evidence is shown; null: the best one
  let answer = null;
  let stream = null;

  /* ---- answering ---- */

  function ground() { return find("light").checked ? 0 : 255; }

  /* The pixels of what is on the canvas, or of the video, as the model takes them. */
  function pixels() {
    if (mode === "file") return reduced(source, { x: 0, y: 0, width: source.width, height: source.height }, 255);
    if (mode === "camera") return reduced(find("video"), middle(find("video").videoWidth, find("video").videoHeight));
    const drawn = pen.getImageData(0, 0, canvas.width, canvas.height);
    const whole = { x: 0, y: 0, width: canvas.width, height: canvas.height };
    const frame = find("fit").checked && pictures.inkFrame(drawn.data, canvas.width, canvas.height, ground(), program.image);
    return reduced(canvas, frame || whole);
  }

  /* The middle in the model's proportions: of a camera's view, which is turned to the thing in question. A file is
     taken whole, as `dcadl predict` does. */
  function middle(width, height) {
    const wide = Math.min(width, (height * columns) / rows), tall = (wide * rows) / columns;
    return { x: (width - wide) / 2, y: (height - tall) / 2, width: wide, height: tall };
  }

  /* A frame of an image, which may lie partly outside: the ground is there. */
  function reduced(image, frame, shade = ground()) {
    const width = Math.max(1, Math.round(frame.width)), height = Math.max(1, Math.round(frame.height));
    const sheet = document.createElement("canvas"), context = sheet.getContext("2d", { willReadFrequently: true });
    const read = (top, count) => {
      [sheet.width, sheet.height] = [width, count];
      context.fillStyle = `rgb(${shade} ${shade} ${shade})`;
      context.fillRect(0, 0, width, count);
      context.drawImage(image, frame.x, frame.y + top, width, count, 0, 0, width, count);
      return context.getImageData(0, 0, width, count).data;
    };
    return pictures.reduce(read, width, height, program.image);
  }

  function classify() {
    if (mode === "empty") return;
    const seen = pixels(), start = performance.now();
    answer = { seen, ...dcadl.run(program, seen) };
    find("time").textContent = `${(performance.now() - start).toFixed(1)} ms`;
    const name = program.classes[answer.best];
    if (find("label").textContent !== name) find("label").textContent = name;
    showBars();
    showSeen();
    showEvidence();
  }

  function showBars() {
    const order = answer.scores.map((_, k) => k).sort((a, b) => answer.scores[b] - answer.scores[a]);
    const list = find("bars"), focused = list.contains(document.activeElement) ? document.activeElement.dataset.k : null;
    list.replaceChildren(...order.slice(0, SHOWN).map(bar));
    const again = focused === null ? null : list.querySelector(`[data-k="${focused}"]`);
    if (again) again.focus();
  }

  function bar(k) {
    const item = document.createElement("li"), button = document.createElement("button");
    const share = answer.probabilities[k];
    for (const [kind, text] of [["bar", ""], ["name", program.classes[k]], ["value", `${(100 * share).toFixed(1)} %`]]) {
      const part = document.createElement("span");
      part.className = kind;
      part.textContent = text;
      button.append(part);
    }
    button.firstChild.style.width = `${100 * share}%`;
    button.type = "button";
    button.dataset.k = k;
    button.setAttribute("aria-pressed", String(k === (chosen ?? answer.best)));
    button.addEventListener("click", () => { chosen = k; showBars(); showEvidence(); });
    item.append(button);
    return item;
  }

  /* ---- pictures of arrays ---- */

  function paint(target, height, width, colour) {
    [target.width, target.height] = [width, height];
    const context = target.getContext("2d"), image = context.createImageData(width, height);
    for (let i = 0; i < width * height; i++) {
      const [r, g, b] = colour(i);
      image.data.set([r, g, b, 255], 4 * i);
    }
    context.putImageData(image, 0, 0);
  }

  function showSeen() {
    paint(find("seen"), rows, columns, (i) => {
      const at = i * channels;
      return channels === 1 ? Array(3).fill(answer.seen[at]) : Array.from(answer.seen.slice(at, at + 3));
    });
  }

  /* Blue for, orange against, over a pale print of the picture. */
  function showEvidence() {
    const k = chosen ?? answer.best, found = dcadl.evidence(program, answer.trace), C = found.channels;
    const values = Array.from({ length: rows * columns }, (_, i) => {
      let mean = 0;
      for (let c = 0; c < C; c++) mean += found.values[i * C + c] / C;
      return found.values[i * C + k] - mean;
    });
    const most = Math.max(...values.map(Math.abs)) || 1;
    paint(find("evidence"), rows, columns, (i) => {
      const at = i * channels, shade = 140 + 0.35 * answer.seen[at], strength = Math.sqrt(Math.abs(values[i]) / most);
      const tint = values[i] > 0 ? [31, 111, 235] : [217, 115, 13];
      return tint.map((value) => (1 - strength) * shade + strength * value);
    });
    const name = program.classes[k];
    find("evidence-caption").textContent = `evidence for ${name}`;
    find("evidence").setAttribute("aria-label", `Evidence for ${name}`);
  }

  function showAtoms() {
    const { shape: [m, h, w, c], values } = dcadl.read(JSON.parse(find("atom-values").textContent));
    find("atoms-section").hidden = m === 0;
    for (let f = 0; f < m; f++) {
      const atom = values.slice(f * h * w * c, (f + 1) * h * w * c), most = Math.max(...atom.map(Math.abs)) || 1;
      const item = document.createElement("li"), sheet = document.createElement("canvas");
      sheet.setAttribute("role", "img");
      sheet.setAttribute("aria-label", `Filter ${f + 1}`);
      paint(sheet, h, w, (i) => [0, 1, 2].map((k) => 127.5 + (127.5 * atom[i * c + Math.min(k, c - 1)]) / most));
      item.append(sheet);
      find("atoms").append(item);
    }
  }

  /* ---- where pictures come from ---- */

  function enter(next) {
    if (mode === "camera" && next !== "camera") stopCamera();
    mode = next;
    chosen = null;
    find("message").textContent = "";
    find("hint").hidden = next !== "empty";
    find("stage").classList.toggle("drawing", next === "draw");
    for (const name of ["draw", "camera"]) find(name).setAttribute("aria-pressed", String(next === name));
    canvas.hidden = next === "camera";
    find("video").hidden = next !== "camera";
  }

  function wipe() {
    pen.fillStyle = ground() ? "white" : "black";
    pen.fillRect(0, 0, canvas.width, canvas.height);
  }

  async function open(file) {
    try {
      source = await createImageBitmap(file, { colorSpaceConversion: "none" }); // values as they are in the file
    } catch {
      find("message").textContent = "This file is no picture that the browser can read.";
      return;
    }
    enter("file");
    pen.clearRect(0, 0, canvas.width, canvas.height);
    const factor = Math.min(canvas.width / source.width, canvas.height / source.height);
    const [width, height] = [source.width * factor, source.height * factor];
    pen.drawImage(source, (canvas.width - width) / 2, (canvas.height - height) / 2, width, height);
    classify();
  }

  async function startCamera() {
    if (!navigator.mediaDevices) {
      find("message").textContent = "Browsers give the camera only to files on disk, to localhost and to https.";
      return;
    }
    try {
      stream = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment" } });
    } catch (error) {
      find("message").textContent = `The camera cannot be used: ${error.message || error.name}`;
      return;
    }
    enter("camera");
    const video = find("video");
    video.srcObject = stream;
    await video.play();
    const look = () => {
      if (mode !== "camera") return;
      if (video.videoWidth) classify();
      setTimeout(look, CAMERA_MS);
    };
    look();
  }

  function stopCamera() {
    for (const track of stream.getTracks()) track.stop();
    find("video").srcObject = null;
  }

  /* ---- drawing, by pointer or by keys ---- */

  const hand = { x: canvas.width / 2, y: canvas.height / 2, down: false, last: null };

  function stroke(x, y) {
    const from = hand.last ?? [x, y];
    pen.strokeStyle = ground() ? "black" : "white";
    pen.lineWidth = canvas.width / 11;
    pen.lineCap = pen.lineJoin = "round";
    pen.beginPath();
    pen.moveTo(...from);
    pen.lineTo(x + 0.01, y);
    pen.stroke();
    hand.last = [x, y];
  }

  function startDrawing() {
    enter("draw");
    wipe();
  }

  function pointed(event) {
    const box = canvas.getBoundingClientRect();
    return [((event.clientX - box.left) * canvas.width) / box.width, ((event.clientY - box.top) * canvas.height) / box.height];
  }

  canvas.addEventListener("pointerdown", (event) => {
    if (mode === "empty") startDrawing();
    if (mode !== "draw") return;
    canvas.setPointerCapture(event.pointerId);
    hand.last = null;
    stroke(...pointed(event));
    classify();
  });
  canvas.addEventListener("pointermove", (event) => {
    if (mode !== "draw" || !canvas.hasPointerCapture(event.pointerId)) return;
    stroke(...pointed(event));
    classify();
  });
  canvas.addEventListener("pointerup", () => { hand.last = null; });

  const STEPS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  canvas.addEventListener("keydown", (event) => {
    if (event.key !== " " && !(event.key in STEPS)) return;
    if (mode === "empty") startDrawing();
    if (mode !== "draw") return; // an opened picture is not wiped by a key that scrolls
    event.preventDefault();
    if (event.key === " ") {
      hand.down = !hand.down;
      hand.last = null;
    } else {
      const step = canvas.width / 16;
      hand.x = Math.min(canvas.width, Math.max(0, hand.x + step * STEPS[event.key][0]));
      hand.y = Math.min(canvas.height, Math.max(0, hand.y + step * STEPS[event.key][1]));
    }
    find("message").textContent = `Pen ${hand.down ? "down" : "up"} at ${Math.round(hand.x)}, ${Math.round(hand.y)}.`;
    if (!hand.down) return;
    stroke(hand.x, hand.y);
    classify();
  });

  /* ---- buttons, dropping, pasting ---- */

  find("file").addEventListener("change", (event) => {
    if (event.target.files.length) open(event.target.files[0]);
    event.target.value = "";
  });
  find("draw").addEventListener("click", () => { startDrawing(); canvas.focus(); });
  find("camera").addEventListener("click", () => (mode === "camera" ? enter("empty") : startCamera()));
  find("clear").addEventListener("click", () => {
    if (mode === "draw") { wipe(); hand.last = null; } else { enter("empty"); pen.clearRect(0, 0, canvas.width, canvas.height); }
    find("label").textContent = "–";
    find("time").textContent = "";
    find("bars").replaceChildren();
    for (const name of ["seen", "evidence"]) find(name).getContext("2d").clearRect(0, 0, columns, rows);
  });
  find("light").addEventListener("change", () => { if (mode === "draw") wipe(); });
  find("fit").addEventListener("change", classify);
  const stage = find("stage");
  document.addEventListener("dragover", (event) => { event.preventDefault(); stage.classList.add("over"); });
  document.addEventListener("dragleave", () => stage.classList.remove("over"));
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    stage.classList.remove("over");
    if (event.dataTransfer.files.length) open(event.dataTransfer.files[0]);
  });
  document.addEventListener("paste", (event) => {
    const item = Array.from(event.clipboardData.items).find((entry) => entry.type.startsWith("image/"));
    if (item) open(item.getAsFile());
  });

  find("light").checked = document.documentElement.dataset.ink === "light";
  for (const name of ["seen", "evidence"]) [find(name).width, find(name).height] = [columns, rows];
  showAtoms();
})();
