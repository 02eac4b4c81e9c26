// The form: sizes, arrays and launches. `job()` reads it, `show(job)` fills it.

import { h } from "./dom.js";

const DTYPES = ["f32", "f16", "bf16", "f64", "int32", "uint32", "int64", "uint64", "int16", "uint16", "int8", "uint8", "bool"];
const FILLS = ["random", "zeros", "ones", "index", "uninitialised", "given", "0..9", "0..n-1"];

export class Form {
  constructor(root, onChange) {
    this.root = root;
    this.onChange = onChange;
    this.sizes = h("tbody");
    this.arrays = h("tbody");
    this.launches = h("textarea", { rows: "2", spellcheck: "false", "aria-label": "Launches", oninput: onChange, placeholder: "kernel<<<cdiv(n, 256), 256>>>" });
    this.reference = h("input", { type: "text", spellcheck: "false", "aria-label": "Reference", oninput: onChange, placeholder: "a formula of the inputs, e.g. 2 * x + y" });
    this.launchRow = h("label", { class: "wide" }, h("b", {}, "Launches"), h("small", {}, "kernel<<<grid, block, shared bytes>>>, one a line; parameters get the row of their name"), this.launches);
    this.pythonRow = h("p", { class: "hint", hidden: true }, "The lab calls the function run of the source with the rows of the form, by name.");
    this.checks = h("p", { class: "hint" });
    root.append(
      h("div", { class: "tables" },
        h("div", {}, h("h2", {}, "Sizes ", this.adder("Add a size", () => this.size({ name: "n", value: 1024 }))), h("table", { class: "sizes" }, this.sizes)),
        h("div", {}, h("h2", {}, "Arrays ", this.adder("Add an array", () => this.array({ name: "x", dtype: "f32", shape: "n", fill: "random" }))),
          h("table", { class: "arrays" }, h("thead", {}, h("tr", {}, ...["name", "type", "shape", "data", "out"].map((t) => h("th", { scope: "col" }, t)), h("td"))), this.arrays))),
      this.launchRow, this.pythonRow,
      h("label", { class: "wide" }, h("b", {}, "Reference"), h("small", {}, "for Check: what the arrays marked out must hold"), this.reference), this.checks);
    root.append(h("datalist", { id: "fills" }, FILLS.map((f) => h("option", { value: f }))));
  }
  adder(title, add) { return h("button", { class: "small", title, "aria-label": title, onclick: () => { add().querySelector("input").select(); this.onChange(); } }, "+"); }
  remover(row, name) { return h("td", {}, h("button", { class: "small quiet", title: `Remove ${name}`, "aria-label": `Remove ${name}`, onclick: () => { row.remove(); this.onChange(); } }, "×")); }
  /** A field is as wide as its text, so that no name is cut. */
  field(key, value, label, more = {}) {
    const fit = () => field.style.setProperty("--letters", field.value.length);
    const field = h("input", { "data-key": key, value: String(value), "aria-label": label, spellcheck: "false", oninput: () => { fit(); this.onChange(); }, ...more });
    fit();
    return h("td", {}, field);
  }

  size({ name, value }) {
    const row = h("tr", {}, this.field("name", name, "Name of a size"), h("td", {}, "="), this.field("value", value, "Value", { inputmode: "decimal" }));
    row.append(this.remover(row, "this size"));
    this.sizes.append(row);
    return row;
  }
  array({ name, dtype, shape, fill, out }) {
    const types = h("select", { "data-key": "dtype", "aria-label": "Type", onchange: this.onChange }, [...new Set([...DTYPES, dtype])].map((t) => h("option", { value: t, selected: t === dtype }, t)));
    const mark = h("input", { type: "checkbox", "data-key": "out", checked: Boolean(out), "aria-label": "Result", title: "The kernel writes it; Check compares it", onchange: this.onChange });
    const row = h("tr", {}, this.field("name", name, "Name of an array"), h("td", {}, types), this.field("shape", shape, "Shape", { title: "Sizes or expressions: n, 2 * n or rows, columns" }),
      this.field("fill", fill, "Data", { list: "fills", title: "random, zeros, ones, index, uninitialised, given (by the operation), or a range such as 0..n-1" }), h("td", { class: "mid" }, mark));
    row.append(this.remover(row, "this array"));
    this.arrays.append(row);
    return row;
  }
  show(job) {
    this.sizes.replaceChildren();
    this.arrays.replaceChildren();
    (job.sizes ?? []).forEach((row) => this.size(row));
    (job.arrays ?? []).forEach((row) => this.array(row));
    this.launches.value = (job.launches ?? []).join("\n");
    this.launches.rows = Math.max(2, Math.min(6, (job.launches ?? []).length));
    this.launches.placeholder = job.planned ? "as the rung's launch.py plans; write launches here to replace them" : "kernel<<<cdiv(n, 256), 256>>>";
    this.reference.value = job.reference ?? "";
    this.checks.textContent = job.checks ? `Without a reference, Check uses all sizes of ${job.checks}` : "";
    this.language(job.kind);
  }
  language(kind) {
    this.launchRow.hidden = kind !== "cuda";
    this.pythonRow.hidden = kind === "cuda";
  }
  /** Adds rows that the kernel's parameters lack. */
  add(rows) {
    rows.sizes.forEach((row) => this.size(row));
    rows.arrays.forEach((row) => this.array(row));
    if (rows.launches.length && !this.launches.value.trim()) this.launches.value = rows.launches.join("\n");
    return rows.sizes.length + rows.arrays.length + rows.launches.length > 0;
  }
  job() {
    const read = (row) => Object.fromEntries([...row.querySelectorAll("[data-key]")].map((e) => [e.dataset.key, e.type === "checkbox" ? e.checked : e.value.trim()]));
    return {
      sizes: [...this.sizes.rows].map(read), arrays: [...this.arrays.rows].map(read),
      launches: this.launches.value.split("\n").filter((line) => line.trim()), reference: this.reference.value.trim(),
    };
  }
}
