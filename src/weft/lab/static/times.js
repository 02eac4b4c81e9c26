// The pane Time: the predicted time of each launch on the chosen GPUs, what bounds it, and the lines
// in which warps wait. The server makes it of the counters of a profile; nothing runs again.

import { h } from "./dom.js";
import { get } from "./server.js";

const STYLES = { bold: "strong", yellow: "warn", dim: "soft" };

export class Times {
  /** `device()` is the GPU of the page, which is always shown; `onPick(line)` follows a line. */
  constructor(root, device, onPick, onProfile) {
    Object.assign(this, { root, device, onPick, run: null, launch: 0 });
    this.choices = h("span", { class: "chips" });
    this.answer = h("div", { "aria-live": "polite" });
    this.start = h("button", { onclick: onProfile }, "Profile");
    this.root.append(h("fieldset", { class: "gpus" }, h("legend", {}, "GPUs"), this.choices), this.answer);
    this.reset();
  }
  /** Fills the list of GPUs: key -> name. */
  offer(models) {
    this.choices.replaceChildren(...Object.entries(models).map(([key, name]) =>
      h("label", { class: "check", title: name }, h("input", { type: "checkbox", value: key, onchange: () => this.show() }), key)));
  }
  get chosen() {
    const marked = [...this.choices.querySelectorAll("input:checked")].map((box) => box.value);
    return [...new Set([this.device(), ...marked])];
  }
  set chosen(keys) { for (const box of this.choices.querySelectorAll("input")) box.checked = keys.includes(box.value); }
  reset() {
    this.run = null;
    this.answer.replaceChildren(h("p", { class: "empty" }, "The time is predicted from what the launches do, which Profile counts."), this.start);
  }
  async show(run = this.run, launch = this.launch) {
    Object.assign(this, { run, launch });
    for (const box of this.choices.querySelectorAll("input")) {
      const own = box.value === this.device();
      if (own || box.disabled) box.checked = own;
      box.disabled = own;
    }
    if (!run) return;
    const answer = await get("predict", { run, on: this.chosen.join(",") });
    if (run !== this.run) return; // edited meanwhile
    if (answer.error) return this.answer.replaceChildren(h("p", { class: "empty" }, answer.error.text));
    const shown = answer.launches[this.launch] ?? answer.launches[0];
    this.answer.replaceChildren(...report(answer.blocks), ...shown.map((one) => this.stalls(one)));
  }
  stalls(one) {
    const rows = one.stalls.map((s) => h("tr", {}, h("td", { class: "n heat", style: `--heat:${s.part}` }, s.share),
      h("td", {}, s.line ? h("button", { class: "small", onclick: () => this.onPick(s.line) }, `line ${s.line}`) : "no line"), h("td", {}, s.reasons), h("td", {}, h("code", {}, s.quote))));
    const head = h("tr", {}, ["time", "line", "stall reasons", "source"].map((t) => h("th", { scope: "col" }, t)));
    return h("table", { class: "plain stalls" }, h("caption", {}, `${one.kernel} on ${one.gpu}: where warps spend their time`), h("thead", {}, head), h("tbody", {}, rows));
  }
}

/** A report of the terminal: lines, and tables with a header. */
export function report(blocks) {
  return blocks.map((b) => b.columns === undefined ? h("p", { class: STYLES[b.style] ?? "" }, b.text) : h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Table" },
    h("table", { class: "plain" }, h("thead", {}, h("tr", {}, b.columns.map((c) => h("th", { scope: "col" }, c)))),
      h("tbody", {}, b.rows.map((row) => h("tr", {}, row.map((cell, i) => h("td", { class: b.right.includes(b.columns[i]) ? "n" : null }, cell))))))));
}
