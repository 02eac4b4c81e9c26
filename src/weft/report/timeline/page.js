// Draws a timeline on a canvas: zoom, pan, search, the critical path, one event in words.
const data = JSON.parse(document.getElementById("data").textContent);
const canvas = document.getElementById("view"), says = document.getElementById("says");
const search = document.getElementById("search"), critical = document.getElementById("critical");
const ROW = 22, LABEL = 170, AXIS = 24, count = data.start.length;
const onPath = new Uint8Array(count), matches = new Uint8Array(count);
for (const i of data.path) onPath[i] = 1;
let end = 1;
for (let i = 0; i < count; i++) end = Math.max(end, data.start[i] + data.dur[i]);
let from = 0, to = end, picked = -1, searched = false;

// Bars of a lane in the order of their begins, so that those in view are found by bisection.
const lanes = data.lanes.map(() => []);
for (let i = 0; i < count; i++) lanes[data.lane[i]].push(i);
for (const lane of lanes) lane.sort((a, b) => data.start[a] - data.start[b]);
// Ranges are nested: an outer one is drawn lower the deeper it holds others. Each lane's rows:
const depth = new Uint8Array(count), rows = lanes.map((lane) => {
  const open = [];
  let most = 1;
  for (const i of lane) {
    while (open.length && open[open.length - 1] <= data.start[i] + 1e-6) open.pop();
    depth[i] = Math.min(open.length, 7);
    open.push(data.start[i] + data.dur[i]);
    most = Math.max(most, depth[i] + 1);
  }
  return most;
});
const tops = [];
let height = AXIS;
for (const n of rows) tops.push(height), (height += n * ROW);
// The longest bar of each lane bounds how far left of the view a visible one may begin.
const longest = lanes.map((lane) => lane.reduce((most, i) => Math.max(most, data.dur[i]), 0));

const KINDS = { call: "--soft", kernel: "--accent", copy: "--hot", fill: "--num", library: "--kw", range: "--good", graph: "--l1", module: "--l2", mark: "--bad", "host function": "--com" };
let colours = {};
function readColours() {
  const style = getComputedStyle(document.documentElement);
  for (const [kind, name] of Object.entries({ ...KINDS, ink: "--ink", line: "--line", card: "--card", quiet: "--soft", pick: "--bad" }))
    colours[kind] = style.getPropertyValue(name).trim();
}

function time(ns) {
  for (const [size, unit] of [[1e9, "s"], [1e6, "ms"], [1e3, "µs"]])
    if (Math.abs(ns) >= size) return `${+(ns / size).toPrecision(4)} ${unit}`;
  return `${+ns.toPrecision(3)} ns`;
}

function firstIn(lane, at) {
  let low = 0, high = lane.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (data.start[lane[middle]] < at) low = middle + 1; else high = middle;
  }
  return low;
}

let bars = 0;  // drawn in the last picture
function draw() {
  const scale = devicePixelRatio || 1, width = canvas.clientWidth, per = (width - LABEL) / (to - from);
  canvas.style.height = `${height}px`;
  canvas.width = width * scale, canvas.height = height * scale;
  const pen = canvas.getContext("2d");
  pen.scale(scale, scale);
  pen.fillStyle = colours.card, pen.fillRect(0, 0, width, height);
  pen.font = "11px system-ui, sans-serif", pen.textBaseline = "middle";
  drawAxis(pen, width, per);
  bars = 0;
  lanes.forEach((lane, n) => drawLane(pen, lane, n, width, per));
}

function drawAxis(pen, width, per) {
  const rough = (to - from) / Math.max(2, (width - LABEL) / 110), size = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((k) => k * size).find((s) => s >= rough);
  pen.fillStyle = colours.quiet, pen.strokeStyle = colours.line, pen.lineWidth = 1;
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) {
    const x = LABEL + (at - from) * per;
    pen.fillText(time(at), x + 3, AXIS / 2);
    pen.beginPath(), pen.moveTo(x, 0), pen.lineTo(x, height), pen.stroke();
  }
}

function drawLane(pen, lane, n, width, per) {
  const top = tops[n], free = Array(rows[n]).fill(-1);
  for (let at = firstIn(lane, from - longest[n]); at < lane.length; at++) {
    const i = lane[at], left = LABEL + (data.start[i] - from) * per;
    if (left > width) break;
    const right = left + data.dur[i] * per;
    if (right < LABEL) continue;
    const marked = i === picked || (searched && matches[i]) || (critical.checked && onPath[i]);
    // What is narrower than a pixel and lies in one that is drawn is left out.
    if (!marked && right - left < 1 && right < free[depth[i]]) continue;
    bar(pen, i, Math.max(left, LABEL), Math.min(right, width), top + depth[i] * ROW, marked);
    free[depth[i]] = Math.max(right, left + 1);
    bars++;
  }
  pen.globalAlpha = 1;
  pen.fillStyle = colours.card, pen.fillRect(0, top, LABEL - 4, rows[n] * ROW);
  pen.fillStyle = colours.ink, pen.fillText(clip(pen, data.lanes[n], LABEL - 14), 8, top + ROW / 2);
  pen.strokeStyle = colours.line;
  pen.beginPath(), pen.moveTo(0, top - 0.5), pen.lineTo(width, top - 0.5), pen.stroke();
}

function bar(pen, i, left, right, top, marked) {
  const faded = (searched && !matches[i]) || (critical.checked && !onPath[i]);
  const wide = Math.max(right - left, 1);
  pen.globalAlpha = faded && i !== picked ? 0.18 : 1;
  pen.fillStyle = colours[data.kinds[data.kind[i]]] || colours.quiet;
  pen.fillRect(left, top + 3, wide, ROW - 6);
  if (marked && i === picked) pen.strokeStyle = colours.pick, (pen.lineWidth = 2), pen.strokeRect(left, top + 2, wide, ROW - 4);
  if (wide > 34) pen.fillStyle = colours.card, pen.fillText(clip(pen, data.names[data.name[i]], wide - 8), left + 4, top + ROW / 2);
}

function clip(pen, text, room) {
  if (pen.measureText(text).width <= room) return text;
  let most = Math.max(1, Math.floor((text.length * room) / pen.measureText(text).width) - 1);
  return `${text.slice(0, most)}…`;
}

function pick(i) {
  picked = i;
  says.textContent = i < 0 ? "" : describe(i);
  draw();
}
function describe(i) {
  const name = (k) => data.names[data.name[k]];
  const parts = [name(i), data.kinds[data.kind[i]], `at ${time(data.start[i])}`, `for ${time(data.dur[i])}`, data.said[data.facts[i]]];
  if (data.launch[i] >= 0) parts.push(`called by ${name(data.launch[i])}`);
  if (data.after[i] >= 0) parts.push(`after ${name(data.after[i])}`);
  if (onPath[i]) parts.push("on the critical path");
  return parts.filter(Boolean).join(" · ");
}
function show(i) {
  const room = Math.max(data.dur[i] * 8, (to - from) / 50, 50);
  from = Math.max(0, data.start[i] - room / 2), to = Math.min(end, data.start[i] + data.dur[i] + room / 2);
  pick(i);
}

function zoom(factor, at = (from + to) / 2) {
  const low = at - (at - from) * factor, high = at + (to - at) * factor;
  if (high - low < 0.5) return;
  from = Math.max(0, low), to = Math.min(end * 1.02, high);
  draw();
}
function pan(by) {
  const room = to - from;
  from = Math.min(Math.max(0, from + by), Math.max(0, end * 1.02 - room)), to = from + room;
  draw();
}
const per = () => (canvas.clientWidth - LABEL) / (to - from);
const timeAt = (x) => from + (x - LABEL) / per();

function hit(x, y) {
  const n = tops.findIndex((top, k) => y >= top && y < top + rows[k] * ROW);
  if (n < 0 || x < LABEL) return -1;
  const level = Math.floor((y - tops[n]) / ROW), at = timeAt(x), near = 3 / per();
  let best = -1, distance = near;
  for (let k = firstIn(lanes[n], at - longest[n] - near); k < lanes[n].length; k++) {
    const i = lanes[n][k];
    if (data.start[i] > at + near) break;
    const away = Math.max(data.start[i] - at, at - data.start[i] - data.dur[i], 0);
    if (depth[i] === level && away <= distance) (best = i), (distance = away);
  }
  return best;
}

canvas.addEventListener("wheel", (event) => {
  event.preventDefault();
  const box = canvas.getBoundingClientRect();
  if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan(event.deltaX / per());
  else zoom(Math.exp(event.deltaY * 0.0015), timeAt(event.clientX - box.left));
}, { passive: false });
let drag = null;
canvas.addEventListener("pointerdown", (event) => {
  drag = { x: event.clientX, moved: false };
  canvas.setPointerCapture(event.pointerId);
});
canvas.addEventListener("pointermove", (event) => {
  if (!drag) return;
  const by = event.clientX - drag.x;
  if (Math.abs(by) > 3 || drag.moved) (drag.moved = true), (drag.x = event.clientX), pan(-by / per());
});
canvas.addEventListener("pointerup", (event) => {
  const box = canvas.getBoundingClientRect();
  if (drag && !drag.moved) pick(hit(event.clientX - box.left, event.clientY - box.top));
  drag = null;
});
canvas.addEventListener("keydown", (event) => {
  const act = { w: () => zoom(0.7), s: () => zoom(1.4), a: () => pan(-(to - from) / 8), d: () => pan((to - from) / 8), 0: all }[event.key];
  if (act) event.preventDefault(), act();
});
function all() {
  from = 0, to = end;
  draw();
}
document.getElementById("in").addEventListener("click", () => zoom(0.6));
document.getElementById("out").addEventListener("click", () => zoom(1 / 0.6));
document.getElementById("all").addEventListener("click", all);
critical.addEventListener("change", draw);

let last = -1;  // the match that was shown last
function find() {
  const words = search.value.trim().toLowerCase();
  const named = data.names.map((name) => words !== "" && name.toLowerCase().includes(words));
  let found = 0;
  for (let i = 0; i < count; i++) found += matches[i] = +named[data.name[i]];
  searched = words !== "", last = -1;
  document.getElementById("found").textContent = searched ? `${found.toLocaleString()} found` : "";
  draw();
}
search.addEventListener("input", find);
search.addEventListener("keydown", (event) => {
  if (event.key !== "Enter") return;
  for (let k = 1; k <= count; k++) {
    const i = (last + k) % count;
    if (matches[i]) return (last = i), show(i);
  }
});
document.addEventListener("click", (event) => {
  const row = event.target.closest("[data-event], tr[data-name]");
  if (!row) return;
  if (row.dataset.event !== undefined) show(+row.dataset.event);
  else (search.value = row.dataset.name), find();
  canvas.scrollIntoView({ block: "nearest" });
});

function themed() {
  readColours();
  draw();
}
document.getElementById("theme").addEventListener("click", () => {
  const root = document.documentElement, dark = matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = (root.dataset.theme || (dark ? "dark" : "light")) === "dark" ? "light" : "dark";
  themed();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", themed);
new ResizeObserver(draw).observe(canvas.parentElement);
themed();
document.documentElement.dataset.ready = `${Math.round(performance.now())} ms, ${bars} bars`;
