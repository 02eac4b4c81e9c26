// The panes Stages, Roofline, Occupancy and Compare.

import { h, picture, roving, settled } from "./dom.js";
import { get } from "./server.js";
import { createMerge } from "./editor.js";

/** The life of a block's stages: `stages` is null for kernels without them. A bar leads to its line. */
export function showStages(root, stages, onPick) {
  root.classList.remove("stale");
  if (!stages) return root.replaceChildren(h("p", { class: "empty" }, "No copy of this launch reports to an mbarrier: it has no stages."));
  const chart = h("div", { class: "picture" }, picture(stages.chart));
  chart.addEventListener("click", (event) => { const line = Number(event.target.closest("[data-line]")?.dataset.line); if (line) onPick(line); });
  chart.querySelector("svg")?.setAttribute("role", "group"); // its bars are controls
  for (const bar of chart.querySelectorAll("[data-line]")) { bar.setAttribute("role", "button"); bar.setAttribute("aria-label", bar.querySelector("title")?.textContent ?? `line ${bar.dataset.line}`); }
  roving(chart, "[data-line]", onPick);
  root.replaceChildren(
    h("div", { class: "bar" }, h("b", {}, `Block ${stages.block}`), stages.legend.map(([kind, words]) => h("span", { class: "key" }, h("i", { class: kind }), words))),
    h("p", { class: "hint" }, `${stages.says} Each row is a part of shared memory that copies fill again and again. Click a bar for its line; the pane Warp chooses the block.`),
    chart);
}

export function showRoofline(root, launch) {
  root.replaceChildren(
    h("p", { class: "sum" }, "Bound by ", h("b", {}, launch.bound), `: at least ${launch.time}. Floor ${launch.floor}: the time for the arithmetic and for the bytes that must be moved. All of it is modelled for ${launch.gpu}.`),
    launch.roofline ? h("div", { class: "chart" }, picture(launch.roofline)) : h("p", { class: "empty" }, "There is no point to draw: the launch computes nothing, or moves no memory."),
    h("table", { class: "plain" }, h("tr", {}, ["array", "size", "read", "written"].map((t) => h("th", {}, t))), launch.arrays.map((row) => h("tr", {}, row.map((v) => h("td", {}, v))))));
}

// ---- occupancy -----------------------------------------------------------------------------------
export class Occupancy {
  constructor(root, device) {
    this.root = root;
    this.device = device;
    this.answer = h("div", {});
    this.sliders = { threads: this.slider("Threads of a block", 32, 1024, 32, 256), registers: this.slider("Registers of a thread", 16, 255, 1, 32), shared: this.slider("Shared memory of a block", 0, 232448, 256, 0) };
    this.source = h("p", { class: "hint" }, "Profile sets the sliders to the launch. Move them to see what a change would give.");
    root.append(this.source, h("div", { class: "sliders" }, Object.values(this.sliders).map((s) => s.label)), this.answer);
    this.ask = settled(50, () => this.fetch());
  }
  slider(name, min, max, step, value) {
    const shown = h("output", {}, String(value));
    const input = h("input", { type: "range", min: String(min), max: String(max), step: String(step), value: String(value), oninput: () => { shown.textContent = Number(input.value).toLocaleString("en"); this.ask(); } });
    return { input, shown, label: h("label", {}, h("span", {}, name), input, shown) };
  }
  set(name, value) {
    const { input, shown } = this.sliders[name];
    input.step = name === "threads" && value % 32 ? "1" : input.step; // any block size, not only whole warps
    input.value = String(value);
    shown.textContent = value.toLocaleString("en");
  }
  show(launch) {
    this.set("threads", launch.threads);
    this.set("registers", launch.registers ?? 32);
    this.set("shared", launch.shared);
    this.source.textContent = `${launch.kernel}: ${launch.threads} threads, ${launch.registers ?? "unknown"} registers, ${launch.shared.toLocaleString("en")} bytes of shared memory. Move a slider to see what a change would give.`;
    this.ask();
  }
  async fetch() {
    const query = Object.fromEntries(Object.entries(this.sliders).map(([name, s]) => [name, s.input.value]));
    const o = await get("occupancy", { ...query, device: this.device() });
    if (o.error) return this.answer.replaceChildren(h("p", { class: "empty" }, o.error.text));
    this.sliders.shared.input.max = String(o.most.shared);
    const part = Math.round((100 * o.warps) / o.max_warps);
    this.answer.replaceChildren(
      h("p", { class: "sum" }, h("b", {}, `${part} %`), ` occupancy on ${o.gpu}: ${o.blocks} blocks, ${o.warps} of ${o.max_warps} warps of an SM, limited by ${o.limiter.join(" and ")}.`),
      h("div", { class: "meter", role: "img", "aria-label": `${o.warps} of ${o.max_warps} warps` }, [...Array(o.max_warps).keys()].map((i) => h("i", { class: i < o.warps ? "on" : "" }))),
      h("div", { class: "curves" }, o.curves.map((text) => picture(text))),
      h("table", { class: "plain" }, h("tr", {}, h("th", {}, "limit"), h("th", {}, "blocks of an SM")), Object.entries(o.limits).map(([name, n]) => h("tr", { class: o.limiter.includes(name) ? "now" : null }, h("td", {}, name), h("td", {}, n)))));
  }
}

// ---- comparison ----------------------------------------------------------------------------------
export class Compare {
  /** `current()` gives {job, run}: the version in the editor, and its last profile. */
  constructor(root, current, onOpen) {
    this.root = root;
    this.current = current;
    this.onOpen = onOpen;
    this.kept = null;
    this.show();
  }
  keep() {
    this.kept = { ...this.current() };
    this.show();
  }
  async show() {
    const keep = h("button", { onclick: () => this.keep() }, "Keep this version as A");
    if (!this.kept) return this.root.replaceChildren(h("p", { class: "empty" }, "Keep a version as A, change the kernel, and profile it: counters and lines of both stand side by side."), keep);
    const now = this.current();
    const bar = h("p", { class: "bar" }, h("span", {}, `A: ${this.kept.job.title || "kept version"}`), keep, h("button", { onclick: () => this.onOpen(this.kept.job) }, "Go back to A"), h("button", { onclick: () => { this.kept = null; this.show(); } }, "Forget A"));
    const merge = h("div", { class: "merge" }), table = h("div", {});
    this.root.replaceChildren(bar, merge, table);
    createMerge(merge, now.job.kind, this.kept.job.source, now.job.source);
    if (!this.kept.run || !now.run) return table.replaceChildren(h("p", { class: "empty" }, `Profile ${this.kept.run ? "this version" : "A before you keep it"} to compare counters.`));
    if (this.kept.run === now.run) return table.replaceChildren(h("p", { class: "empty" }, "This is A. Change the kernel and profile it."));
    const answer = await get("compare", { a: this.kept.run, b: now.run });
    if (answer.error) return table.replaceChildren(h("p", { class: "empty" }, answer.error.text));
    table.replaceChildren(...answer.launches.map(changes));
  }
}

function changes(launch) {
  const row = (cells, kind) => h("tr", { class: kind }, cells.map((c) => h("td", {}, c ?? "")));
  const rows = [];
  for (const [section, list] of launch.sections) rows.push(h("tr", { class: "head" }, h("th", { colspan: "4" }, section)), ...list.map((c) => row(c)));
  if (launch.lines.length) rows.push(h("tr", { class: "head" }, h("th", { colspan: "4" }, "Source lines")));
  for (const [before, after, quote, counters] of launch.lines) {
    rows.push(h("tr", { class: before && after ? "line" : after ? "line added" : "line removed" }, h("td", { colspan: "4" }, h("code", {}, `${before ?? ""}${before && after && before !== after ? ` → ${after}` : before ? "" : after}  ${quote}`))));
    rows.push(...counters.map((c) => row(c, "of")));
  }
  const head = h("tr", {}, h("td"), ["A", "now", "ratio"].map((t) => h("th", { scope: "col" }, t)));
  return rows.length ? h("table", { class: "plain changes" }, head, rows) : h("p", { class: "empty" }, "No counter differs.");
}
