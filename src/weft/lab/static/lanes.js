// The lanes of a block as a grid: a row for each warp, a cell for each lane with the line it is at.
// Arrow keys and clicks choose the thread.

import { h } from "./dom.js";

const LEGEND = [["on", "executes"], ["off", "elsewhere"], ["wait", "waits at a barrier"], ["done", "has returned"]];
const bit = (mask, lane) => Math.floor(mask / 2 ** lane) % 2 === 1; // masks have 32 bits

function kindOf(warp, lane) {
  if (bit(warp.done, lane)) return "done";
  if (warp.state === "waits at a barrier") return "wait";
  return bit(warp.active, lane) && ["runs", "failed"].includes(warp.state) ? "on" : "off";
}

export class Lanes {
  /** `onThread(number)` is called with the number of a thread in its block. */
  constructor(root, onThread) {
    this.root = root;
    this.onThread = onThread;
    this.body = h("tbody");
    this.grid = h("table", { class: "lanes", role: "grid", "aria-label": "Lanes of the block: line of each" }, this.body);
    this.grid.addEventListener("click", (event) => this.choose(event.target.closest("[data-thread]")));
    this.grid.addEventListener("keydown", (event) => this.key(event));
    root.append(h("div", { class: "bar" }, LEGEND.map(([kind, words]) => h("span", { class: "key" }, h("i", { class: `lane-${kind}` }), words))), h("div", { class: "picture" }, this.grid));
  }
  /** Shows a stop; `values` are texts of an expression in the lanes of the chosen warp, if one is watched. */
  show(at, values = null) {
    const focused = this.grid.contains(document.activeElement);
    this.body.replaceChildren(...at.warps.map((warp) => h("tr", {}, h("th", { scope: "row", title: `${warp.state}, active ${(warp.active >>> 0).toString(16).padStart(8, "0")}` }, `warp ${warp.warp}`),
      warp.lines.map((line, lane) => this.cell(at, warp, lane, line, warp.warp === at.warp ? values?.[lane] : null)))));
    if (focused) this.grid.querySelector("[aria-selected=true]")?.focus();
  }
  cell(at, warp, lane, line, value) {
    const kind = kindOf(warp, lane), chosen = warp.warp === at.warp && lane === at.lane;
    const words = `warp ${warp.warp} lane ${lane}: ${LEGEND.find(([k]) => k === kind)[1]}${line ? `, line ${line}` : ""}${value ? `, ${value}` : ""}`;
    return h("td", { role: "gridcell", class: `lane-${kind}${chosen ? " chosen" : ""}`, "data-thread": warp.warp * 32 + lane, tabindex: chosen ? "0" : "-1", "aria-selected": String(chosen), "aria-label": words, title: words }, kind === "done" ? "–" : value ?? (line || "·"));
  }
  choose(cell) { if (cell) this.onThread(Number(cell.dataset.thread)); }
  key(event) {
    const cell = event.target.closest("[data-thread]"), step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (!cell || !step) return;
    event.preventDefault();
    const row = this.body.rows[cell.parentElement.rowIndex + step[0]];
    this.choose(row?.cells[cell.cellIndex + step[1]]?.closest("[data-thread]"));
  }
}
