// The warp view: which lanes of a warp are active at a line, and the addresses that each one touches.
// Global memory is drawn in lines of 128 bytes and coloured by sector, shared memory by bank.

import { h, some, svg } from "./dom.js";
import { get } from "./server.js";

const CELL = 20, HEIGHT = 18, LEFT = 108, LANES = [...Array(32).keys()];
const hex = (n) => `${n < 0 ? "-" : ""}0x${Math.abs(n).toString(16)}`;
// Neighbours differ clearly: 137.5 degrees is the golden angle.
const sectorColour = (rank) => `hsl(${(rank * 137.5) % 360} 62% 66%)`;
const bankColour = (bank) => `hsl(${(bank * 360) / 32} 62% 66%)`;

export class Warp {
  constructor(root, onBlock) {
    this.root = root;
    this.run = null;
    this.at = { warp: "0", access: 0, step: 0 };
    this.warps = {};
    this.access = h("select", { "aria-label": "Access", onchange: () => this.choose({ access: Number(this.access.value), step: 0 }) });
    this.warp = h("select", { "aria-label": "Warp", onchange: () => this.choose({ warp: this.warp.value, step: 0 }) });
    this.step = h("input", { type: "range", min: "0", "aria-label": "Execution", oninput: () => this.choose({ step: Number(this.step.value) }) });
    this.count = h("span", { class: "soft" });
    this.block = h("input", { type: "number", min: "0", value: "0", class: "short", "aria-label": "Block", title: "The block whose warps are recorded; Profile applies it", onchange: () => onBlock() });
    this.says = h("p", { class: "says", role: "status" });
    this.picture = h("div", { class: "picture" });
    this.bar = h("div", { class: "bar" }, h("label", {}, "Block ", this.block), h("label", {}, "Warp ", this.warp), h("label", {}, "Access ", this.access),
      h("span", { class: "steps" }, h("button", { class: "small", title: "Previous execution", "aria-label": "Previous execution", onclick: () => this.move(-1) }, "◀"), this.step,
        h("button", { class: "small", title: "Next execution", "aria-label": "Next execution", onclick: () => this.move(1) }, "▶"), this.count));
    this.empty("Profile records the accesses of one block. Then select a line of the source.");
  }
  empty(text) { this.root.replaceChildren(this.bar, h("p", { class: "empty" }, text)); this.bar.classList.add("idle"); }
  reset(run, launch, threads) { this.run = run; this.launch = launch; this.threads = threads; this.line = 0; }

  async select(line) {
    if (!this.run || line === this.line) return;
    this.line = line;
    const asked = [this.run, this.launch];
    const answer = await get("trace", { run: this.run, launch: this.launch, line });
    if (line !== this.line || asked[0] !== this.run || asked[1] !== this.launch) return; // another line was selected since
    this.warps = answer.warps ?? {};
    const names = Object.keys(this.warps).sort((a, b) => a - b);
    if (!names.length) return this.empty(answer.error?.text ?? `Line ${line} has no code, or the warps of this block did not reach it.`);
    this.bar.classList.remove("idle");
    this.root.replaceChildren(this.bar, this.says, this.picture);
    this.warp.replaceChildren(...names.map((name) => h("option", { value: name }, name)));
    this.choose({ warp: names.includes(this.at.warp) ? this.at.warp : names[0], access: 0, step: 0 });
  }
  choose(change) {
    Object.assign(this.at, change);
    const accesses = this.warps[this.at.warp] ?? [];
    const access = accesses[this.at.access] ?? accesses[0];
    if (!access) return;
    this.at.access = accesses.indexOf(access);
    this.warp.value = this.at.warp;
    this.access.replaceChildren(...accesses.map((a, i) => h("option", { value: i, selected: i === this.at.access }, a.text)));
    this.at.step = Math.min(this.at.step, access.steps.length - 1);
    this.step.max = access.steps.length - 1;
    this.step.value = this.at.step;
    this.step.disabled = access.steps.length < 2;
    const kept = access.steps.length < access.executions ? `, ${access.steps.length} kept` : "";
    const step = access.steps[this.at.step];
    this.count.textContent = `execution ${this.at.step + 1} of ${access.executions.toLocaleString("en")}${kept}${step.ptx ? `, PTX ${step.ptx}` : ""}`;
    this.draw(access, step);
  }
  move(by) { this.choose({ step: Math.max(0, Math.min(Number(this.step.max), this.at.step + by)) }); }

  draw(access, step) {
    const active = step.offsets.filter((at) => at !== null).length;
    const draw = { global: sectors, shared: banks, lanes: none }[access.space];
    const { says, colour, body } = draw(access, step, active);
    this.says.replaceChildren(...says);
    this.picture.replaceChildren(strip(step, colour, access, this.at.warp), ...body, addresses(access, step, this.at.warp));
  }
}

/** The 32 lanes; inactive ones are hollow. */
function strip(step, colour, access, warp) {
  const cells = LANES.map((lane) => {
    const at = step.offsets[lane], x = LEFT + lane * CELL;
    const fill = at === null ? "var(--cell)" : colour(at, lane);
    const title = at === null ? `lane ${lane}: inactive` : `lane ${lane}, thread ${Number(warp) * 32 + lane}${access.space === "lanes" ? "" : `: ${step.place} + ${at}`}`;
    return svg("g", { class: at === null ? "lane off" : "lane" }, svg("rect", { x, y: 2, width: CELL - 2, height: HEIGHT + 2, rx: 3, fill }), svg("text", { x: x + CELL / 2 - 1, y: 16, "text-anchor": "middle" }, String(lane)), svg("title", {}, title));
  });
  return svg("svg", { viewBox: `0 0 ${LEFT + 32 * CELL} 26`, class: "strip", role: "img", "aria-label": "Active lanes" }, svg("text", { x: LEFT - 8, y: 16, "text-anchor": "end", class: "tick" }, "lanes"), cells);
}

/** word number -> lanes that touch it */
function wordsOf(access, step) {
  const words = new Map();
  step.offsets.forEach((at, lane) => {
    if (at === null) return;
    for (let word = Math.floor(at / 4); word <= Math.floor((at + Math.max(1, access.nbytes) - 1) / 4); word++) words.set(word, [...(words.get(word) ?? []), lane]);
  });
  return words;
}

function cell(x, y, words, word, colour, name) {
  const lanes = words.get(word);
  const box = svg("rect", { x, y: y + 1, width: CELL - 2, height: HEIGHT - 2, rx: 2, fill: lanes ? colour : "var(--cell)", class: lanes ? "word" : "none" });
  if (!lanes) return [box];
  box.append(svg("title", {}, `${name} + ${hex(word * 4)}, bank ${((word % 32) + 32) % 32}: lane${lanes.length > 1 ? "s" : ""} ${lanes.join(", ")}`));
  return [box, svg("text", { x: x + CELL / 2 - 1, y: y + 13, "text-anchor": "middle", class: "in" }, lanes.length > 1 ? `${lanes[0]}+` : String(lanes[0]))];
}

const rowsOf = (words) => [...new Set([...words.keys()].map((w) => Math.floor(w / 32)))].sort((a, b) => a - b);

function sectors(access, step, active) {
  const words = wordsOf(access, step), rows = rowsOf(words);
  const ranks = new Map([...new Set([...words.keys()].map((w) => Math.floor(w / 8)))].sort((a, b) => a - b).map((s, i) => [s, i]));
  const part = Math.min(100, (100 * words.size * 4) / (32 * ranks.size)), ideal = Math.ceil(words.size / 8), bad = ranks.size > 1.25 * ideal;
  const says = [`${some(active, "lane")} of 32 touch ${some(ranks.size, "sector")} of 32 bytes in ${some(rows.length, "line")} of 128 bytes; `,
    h(bad ? "b" : "span", {}, `${Number(part.toPrecision(3))} % of what is moved is used${bad ? `, ${some(ideal, "sector")} would do` : ""}`), "."];
  const top = 16, drawing = svg("svg", { viewBox: `0 0 ${LEFT + 32 * CELL} ${top + rows.length * (HEIGHT + 3) + 2}`, role: "img", "aria-label": "Sectors that the warp touches" });
  for (let s = 0; s < 4; s++) drawing.append(svg("text", { x: LEFT + s * 8 * CELL + 2, y: 11, class: "tick" }, `sector ${s}`));
  rows.forEach((row, i) => {
    const y = top + i * (HEIGHT + 3);
    drawing.append(svg("text", { x: LEFT - 8, y: y + 13, "text-anchor": "end", class: "tick" }, `${step.place.slice(0, 9)} + ${hex(row * 128)}`));
    for (let k = 0; k < 32; k++) {
      const rank = ranks.get(row * 4 + Math.floor(k / 8));
      drawing.append(...cell(LEFT + k * CELL, y, words, row * 32 + k, sectorColour(rank ?? 0), step.place));
    }
    for (let s = 0; s < 4; s++) if (ranks.has(row * 4 + s)) drawing.append(svg("rect", { x: LEFT + s * 8 * CELL - 1, y, width: 8 * CELL - 1, height: HEIGHT, rx: 3, class: "sector" }));
  });
  return { says, colour: (at) => sectorColour(ranks.get(Math.floor(at / 32)) ?? 0), body: [drawing] };
}

function banks(access, step, active) {
  const words = wordsOf(access, step), rows = rowsOf(words), load = Array(32).fill(0);
  for (const word of words.keys()) load[((word % 32) + 32) % 32]++;
  const most = Math.max(...load), bad = step.wavefronts > step.ideal, share = Math.ceil(words.size / 32);
  const says = [`${some(active, "lane")} of 32 touch ${some(words.size, "word")}: `, h(bad ? "b" : "span", {}, bad ? `${some(step.wavefronts, "wavefront")} where ${step.ideal} would do; bank ${load.indexOf(most)} has ${most} words` : `${some(step.wavefronts, "wavefront")}, no bank conflict`), "."];
  const top = 48, drawing = svg("svg", { viewBox: `0 0 ${LEFT + 32 * CELL} ${top + rows.length * (HEIGHT + 1) + 2}`, role: "img", "aria-label": "Banks that the warp touches" });
  load.forEach((n, bank) => {
    const tall = most ? (26 * n) / most : 0, x = LEFT + bank * CELL;
    drawing.append(svg("rect", { x, y: 28 - tall, width: CELL - 2, height: tall, rx: 2, class: "bankload", fill: n > share ? "var(--hot)" : "var(--good)" }, svg("title", {}, `bank ${bank}: ${some(n, "word")}`)),
      svg("text", { x: x + CELL / 2 - 1, y: 41, "text-anchor": "middle", class: "tick" }, String(bank)));
  });
  drawing.append(svg("text", { x: LEFT - 8, y: 41, "text-anchor": "end", class: "tick" }, "bank"));
  rows.forEach((row, i) => {
    const y = top + i * (HEIGHT + 1);
    drawing.append(svg("text", { x: LEFT - 8, y: y + 13, "text-anchor": "end", class: "tick" }, `shared + ${hex(row * 128)}`));
    for (let k = 0; k < 32; k++) drawing.append(...cell(LEFT + k * CELL, y, words, row * 32 + k, bankColour(k), "shared"));
  });
  return { says, colour: (at) => bankColour((((Math.floor(at / 4)) % 32) + 32) % 32), body: [drawing] };
}

function none(access, step, active) {
  const says = [h(active < 32 ? "b" : "span", {}, `${active} of 32 lanes`), " enter this code. It touches neither global nor shared memory."];
  return { says, colour: () => "var(--on)", body: [] };
}

/** The addresses as a table, for reading and for screen readers. */
function addresses(access, step, warp) {
  if (access.space === "lanes") return "";
  const shared = access.space === "shared";
  const row = (lane) => {
    const at = step.offsets[lane];
    return h("tr", { class: at === null ? "off" : null }, h("td", {}, lane), h("td", {}, Number(warp) * 32 + lane), h("td", {}, at === null ? "inactive" : `${step.place} + ${at}`), h("td", {}, at === null ? "" : shared ? `bank ${Math.floor(at / 4) % 32}` : `sector ${Math.floor(at / 32)}`));
  };
  return h("details", { class: "addresses" }, h("summary", {}, "Addresses of the 32 lanes"), h("table", { class: "plain" }, h("tr", {}, ["lane", "thread", "address", shared ? "bank" : "sector"].map((t) => h("th", {}, t))), LANES.map(row)));
}
