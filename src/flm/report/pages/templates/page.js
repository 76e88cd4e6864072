"use strict";
// Tables: a click on a header sorts by it, numbers as numbers.
for (const table of document.querySelectorAll("table")) {
  table.querySelectorAll("th").forEach((head, column) => {
    const button = document.createElement("button");
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      table.querySelectorAll("th").forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const body = table.tBodies[0];
      const read = (row) => row.cells[column].textContent.trim();
      const order = (a, b) => {
        const [x, y] = [parseFloat(read(a)), parseFloat(read(b))];
        if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y) || read(a).localeCompare(read(b));
        return x - y;
      };
      const rows = [...body.rows].sort((a, b) => (down ? -order(a, b) : order(a, b)));
      body.replaceChildren(...rows);
    });
  });
}

// Figures that show values under the pointer.
const COLORS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"];
const STOPS = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]]; // viridis
const show = (value) => (value === null || value === undefined ? "–" : Number(value.toPrecision(5)).toString());
// Three digits of the range, not of the value: 0.0000028 on a range of 0.6 is 0.
const tick = (value, span) => {
  const digits = Math.min(Math.max(2 - Math.floor(Math.log10(span)), 0), 20);
  const rounded = Number(value.toFixed(digits));
  return rounded !== 0 && (Math.abs(rounded) < 1e-3 || Math.abs(rounded) >= 1e5) ? rounded.toExponential(1) : rounded.toString();
};
const nearest = (line, value) => {
  let best = 0;
  line.forEach((at, i) => { if (Math.abs(at - value) < Math.abs(line[best] - value)) best = i; });
  return best;
};

function viridis(part) {
  const at = Math.min(Math.max(part, 0), 1) * (STOPS.length - 1);
  const i = Math.min(Math.floor(at), STOPS.length - 2);
  return STOPS[i].map((low, c) => Math.round(low + (at - i) * (STOPS[i + 1][c] - low)));
}

function live(figure) {
  const data = JSON.parse(figure.dataset.values);
  const canvas = figure.querySelector("canvas");
  const output = figure.querySelector("output");
  const map = figure.dataset.kind === "heatmap";
  const across = map ? data.across : data.x;
  const every = (map ? data.values.flat() : Object.values(data.curves).flat()).filter((v) => v !== null);
  const bottom = Math.min(...every);
  const top = Math.max(...every) > bottom ? Math.max(...every) : bottom + 1;
  const [low, high] = map ? [data.up[0], data.up[data.up.length - 1]] : [bottom, top];
  const [left, right] = [across[0], across[across.length - 1]];
  const pad = { left: 58, right: 12, top: 12, bottom: 34 };
  let mark = null;

  function draw() {
    const ratio = window.devicePixelRatio || 1;
    const width = canvas.clientWidth;
    const height = Math.round(data.shape ? (width - pad.left - pad.right) * data.shape + pad.top + pad.bottom : 0.55 * width);
    canvas.style.height = `${height}px`;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    const c = canvas.getContext("2d");
    c.scale(ratio, ratio);
    const style = getComputedStyle(document.body);
    const inner = { w: width - pad.left - pad.right, h: height - pad.top - pad.bottom };
    const px = (x) => pad.left + ((x - left) / (right - left)) * inner.w;
    const py = (y) => pad.top + (1 - (y - low) / (high - low)) * inner.h;
    if (map) {
      const n = across.length, k = data.up.length;
      const image = new ImageData(n, k);
      for (let i = 0; i < n; i++) for (let j = 0; j < k; j++) {
        const value = data.values[i][j], at = 4 * ((k - 1 - j) * n + i);
        if (value !== null) image.data.set([...viridis((value - bottom) / (top - bottom)), 255], at);
      }
      const small = document.createElement("canvas");
      small.width = n; small.height = k;
      small.getContext("2d").putImageData(image, 0, 0);
      c.drawImage(small, pad.left, pad.top, inner.w, inner.h);
    } else {
      Object.values(data.curves).forEach((values, i) => {
        c.beginPath();
        c.strokeStyle = COLORS[i % COLORS.length];
        c.lineWidth = 1.8;
        let pen = false;
        values.forEach((value, j) => {
          if (value === null) { pen = false; return; }
          if (pen) c.lineTo(px(across[j]), py(value)); else c.moveTo(px(across[j]), py(value));
          pen = true;
        });
        c.stroke();
      });
    }
    c.fillStyle = style.color;
    c.strokeStyle = style.color;
    c.font = "12px system-ui, sans-serif";
    c.lineWidth = 1;
    c.strokeRect(pad.left, pad.top, inner.w, inner.h);
    c.textAlign = "center";
    for (const part of [0, 0.5, 1]) c.fillText(tick(left + part * (right - left), right - left), Math.min(px(left + part * (right - left)), width - 22), height - 16);
    c.fillText(map ? data.labels[0] : data.label, pad.left + inner.w / 4, height - 16);
    c.textAlign = "right";
    for (const part of [0, 0.5, 1]) c.fillText(tick(low + part * (high - low), high - low), pad.left - 6, py(low + part * (high - low)) + (part === 1 ? 10 : part ? 4 : 0));
    if (!map) {
      let at = pad.left + inner.w - 8;
      Object.keys(data.curves).map((name, i) => [name, COLORS[i % COLORS.length]]).reverse().forEach(([name, color]) => {
        c.fillStyle = color;
        c.fillText(name, at, pad.top + 16);
        at -= c.measureText(name).width + 12;
      });
      c.fillStyle = style.color;
    }
    if (map) c.fillText(data.labels[1], pad.left - 6, py(low + 0.25 * (high - low)));
    if (mark) {
      c.setLineDash([4, 3]);
      c.beginPath();
      c.moveTo(px(mark.x), pad.top); c.lineTo(px(mark.x), pad.top + inner.h);
      if (map) { c.moveTo(pad.left, py(mark.y)); c.lineTo(pad.left + inner.w, py(mark.y)); }
      c.stroke();
      c.setLineDash([]);
    }
  }

  function read(x, y) {
    const i = nearest(across, x);
    if (map) {
      const j = nearest(data.up, y);
      mark = { x: across[i], y: data.up[j] };
      output.textContent = `${data.labels[0]} = ${show(mark.x)}, ${data.labels[1]} = ${show(mark.y)}: ${data.labels[2]} = ${show(data.values[i][j])}`;
    } else {
      mark = { x: across[i] };
      const values = Object.entries(data.curves).map(([name, line]) => `${name} = ${show(line[i])}`);
      output.textContent = `${data.label} = ${show(mark.x)}: ${values.join(", ")}`;
    }
    draw();
  }

  canvas.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect();
    const x = left + ((event.clientX - box.left - pad.left) / (box.width - pad.left - pad.right)) * (right - left);
    const y = high - ((event.clientY - box.top - pad.top) / (box.height - pad.top - pad.bottom)) * (high - low);
    read(x, y);
  });
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
    if (!step) return;
    event.preventDefault();
    const move = (line, value, by) => line[Math.min(Math.max(nearest(line, value) + by, 0), line.length - 1)];
    const now = mark || { x: (left + right) / 2, y: (low + high) / 2 };
    read(move(across, now.x, step[0]), map ? move(data.up, now.y, step[1]) : 0);
  });
  figure.hidden = false;
  window.addEventListener("resize", draw);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  draw();
}

document.querySelectorAll("figure.live").forEach(live);
