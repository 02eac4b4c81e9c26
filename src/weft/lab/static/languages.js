// The pane Languages: a kernel in CUDA C++, Triton and Numba side by side, with the same counters.

import { h } from "./dom.js";
import { get } from "./server.js";

const NAMES = { cuda: "CUDA C++", triton: "Triton", numba: "Numba" };

export class Languages {
  /** `current()` is the job of the editor, `profile(job)` its profile, or null; `onOpen(job)` opens another. */
  constructor(root, { current, profile, onOpen }) {
    Object.assign(this, { root, current, profile, onOpen, origin: null, jobs: [] });
    this.table = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Counters by language" });
    this.says = h("p", { class: "hint", role: "status" });
  }
  /** Shows the kernels of the open origin; the one of the editor as it is there. */
  async show() {
    const now = this.current();
    if (this.origin !== now.origin) {
      const answer = await get("languages", { origin: now.origin ?? "" });
      this.origin = now.origin;
      this.jobs = answer.jobs ?? [];
      this.table.replaceChildren();
      this.says.textContent = "";
    }
    if (!this.jobs.length) return this.root.replaceChildren(h("p", { class: "empty" }, "The examples Vector sum and Twice a vector, and every puzzle, exist in CUDA C++, Triton and Numba. Open one of them."));
    const jobs = this.versions();
    this.root.replaceChildren(
      h("div", { class: "bar" }, h("button", { onclick: () => this.compare() }, "Profile all of them")), this.says, this.table,
      h("div", { class: "versions" }, jobs.map((job) => h("section", { "aria-label": NAMES[job.kind] }, h("h3", {}, NAMES[job.kind], " ", job.origin === now.origin ? h("small", {}, "in the editor") : h("button", { class: "small", onclick: () => this.onOpen(job) }, "Open")), h("pre", { tabindex: "0", "aria-label": `Source in ${NAMES[job.kind]}` }, job.source)))));
  }
  versions() {
    const now = this.current();
    return this.jobs.map((job) => (job.origin === now.origin ? now : { ...job, device: now.device }));
  }
  async compare() {
    const columns = [], origin = this.origin;
    for (const job of this.versions()) {
      this.says.textContent = `${NAMES[job.kind]} is profiled…`;
      const answer = await this.profile(job);
      columns.push({ name: NAMES[job.kind], launch: answer?.launches?.[0], problem: answer === null ? "not allowed to run" : answer.error?.text.split("\n")[0] });
    }
    if (origin !== this.origin) return; // another one was opened meanwhile
    this.says.textContent = "Counters are those of the first launch of each.";
    this.table.replaceChildren(counters(columns));
  }
}

/** All counters of all columns: those that differ are marked. */
function counters(columns) {
  const rows = new Map([["Predicted time", columns.map((c) => c.launch?.predicted.replace(/^Predicted: /, "") ?? c.problem ?? "")], ["Grid and block", columns.map((c) => (c.launch ? `${c.launch.grid}; ${c.launch.block}` : ""))]]);
  columns.forEach(({ launch }, i) => launch?.sections.forEach((section) => section.rows.forEach(([label, value]) => {
    const key = `${section.name}: ${label}`;
    rows.set(key, (rows.get(key) ?? columns.map(() => "")).with(i, value));
  })));
  const head = h("tr", {}, h("th", { scope: "col" }, "counter"), columns.map((c) => h("th", { scope: "col" }, c.name)));
  const body = [...rows].map(([label, values]) => h("tr", { class: new Set(values).size > 1 ? "differs" : null }, h("th", { scope: "row" }, label), values.map((v) => h("td", {}, v))));
  return h("table", { class: "plain" }, h("caption", {}, "The same counters of each language; rows that differ are bold"), h("thead", {}, head), h("tbody", {}, body));
}
