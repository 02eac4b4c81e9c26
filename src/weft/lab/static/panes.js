// PTX, SASS and facts, linked to lines of the source; and the pane Output.

import { amount, h, roving } from "./dom.js";

/** A list of instructions [number, text, source line, executions] of which some belong to a line. */
export class Listing {
  constructor(root, onPick, onHover) {
    this.root = root;
    this.rows = new Map();
    this.onPick = onPick;
    root.addEventListener("click", (event) => { const line = lineOf(event); if (line) onPick(line); });
    root.addEventListener("mouseover", (event) => onHover(lineOf(event)));
    root.addEventListener("mouseleave", () => onHover(0));
    this.note("Nothing is compiled yet.");
  }
  note(text) { this.rows.clear(); this.root.replaceChildren(h("p", { class: "empty" }, text)); }
  show(rows) {
    this.rows.clear();
    const counted = rows.some((row) => row[3] >= 0), most = Math.max(1, ...rows.map((row) => row[3]));
    const body = rows.map(([number, text, line, times]) => {
      const label = !line && times < 0 && !number;
      const tr = h("tr", { class: label ? "label" : "ins", "data-line": line || null },
        h("td", { class: "n" }, number || ""), h("td", {}, h("code", {}, text)),
        h("td", { class: "n" }, line ? `:${line}` : ""),
        counted && h("td", { class: "n heat", style: `--heat:${times > 0 ? times / most : 0}` }, times >= 0 ? amount(times) : ""));
      if (line) this.rows.set(line, [...(this.rows.get(line) ?? []), tr]);
      return tr;
    });
    const head = h("tr", {}, h("td"), h("th", { class: "words" }, "instruction"), h("th", {}, "line"), counted && h("th", {}, "executions"));
    this.root.replaceChildren(h("table", { class: "listing" }, h("thead", {}, head), h("tbody", {}, body)));
    roving(this.root, "tr[data-line]", this.onPick);
  }
  /** Marks the rows of a source line and brings the first into view. */
  select(line) {
    for (const row of this.root.querySelectorAll("tr.picked")) row.classList.remove("picked");
    const rows = this.rows.get(line) ?? [];
    rows.forEach((row) => row.classList.add("picked"));
    if (rows[0] && this.root.offsetParent) reveal(this.root, rows[0]);
  }
}

function lineOf(event) { return Number(event.target.closest("[data-line]")?.dataset.line ?? 0); }

/** Scrolls only the pane; `scrollIntoView` would move the page on a phone. */
function reveal(box, row) {
  const top = row.offsetTop - box.clientHeight / 3;
  if (row.offsetTop < box.scrollTop + 24 || row.offsetTop + row.offsetHeight > box.scrollTop + box.clientHeight) box.scrollTo({ top });
}

const COLUMNS = [
  ["instr", "warp instructions", (f) => amount(f.executions)],
  ["lanes", "active lanes on average", (f) => f.lanes],
  ["sect/req", "sectors of global memory per request; 4 for 32 floats side by side", (f) => f.sectors],
  ["wave/req", "wavefronts of shared memory per request; 1 without conflicts", (f) => f.wavefronts],
  ["conflicts", "bank conflicts", (f) => f.conflicts ? amount(f.conflicts) : ""],
  ["diverged", "divergent branches of all branches", (f) => f.branches ? `${amount(f.diverged)}/${amount(f.branches)}` : ""],
];
const BAD = { "sect/req": (f) => f.wide, "wave/req": (f) => f.deep, conflicts: (f) => f.deep, diverged: (f) => f.diverged > 0, lanes: (f) => Number(f.lanes) < 24 };

export class Facts {
  constructor(root, onPick, onHover) {
    this.root = root;
    this.rows = new Map();
    this.onPick = onPick;
    root.addEventListener("click", (event) => { const line = lineOf(event); if (line) onPick(line); });
    root.addEventListener("mouseover", (event) => onHover(lineOf(event)));
    root.addEventListener("mouseleave", () => onHover(0));
    this.note();
  }
  note() { this.rows.clear(); this.root.replaceChildren(h("p", { class: "empty" }, "Profile counts what each line does: executions, sectors, bank conflicts, divergence.")); }
  /** `columns` are those that only some kernels have: [name, title], with values in `more`. */
  show(facts, source, columns) {
    this.rows.clear();
    const text = source.split("\n");
    const rows = facts.map((f) => {
      const tr = h("tr", { "data-line": f.line, class: "ins" }, h("td", { class: "n" }, f.line),
        COLUMNS.map(([name, , value]) => h("td", { class: `n${BAD[name]?.(f) ? " bad" : ""}${name === "instr" ? " heat" : ""}`, style: name === "instr" ? `--heat:${f.heat.instructions}` : null }, value(f))),
        f.more.map((value) => h("td", { class: "n" }, value)),
        h("td", {}, h("code", {}, (text[f.line - 1] ?? "").trim())));
      this.rows.set(f.line, [tr]);
      return tr;
    });
    const head = h("tr", {}, h("th", {}, "line"), [...COLUMNS, ...columns].map(([name, title]) => h("th", { title }, name)), h("th", { class: "words" }, "source"));
    this.root.replaceChildren(h("table", { class: "listing facts" }, h("thead", {}, head), h("tbody", {}, rows)));
    roving(this.root, "tr[data-line]", this.onPick);
  }
  select(line) { Listing.prototype.select.call(this, line); }
}

/** What the gutter of the editor shows of a line. */
export function gutterFact(f) {
  const parts = [amount(f.executions)];
  if (f.wide) parts.unshift(`${f.worst} s/r`);
  if (f.deep) parts.unshift(`${f.wavefronts} w/r`);
  const title = COLUMNS.map(([, what, value]) => [what, value(f)]).filter(([, v]) => v !== "").map(([what, v]) => `${v}  ${what}`).join("\n");
  return { text: parts.join("  "), title, bad: f.wide || f.deep, heat: f.heat.instructions };
}

// ---- output --------------------------------------------------------------------------------------
export class Output {
  constructor(root, onPick) {
    this.root = root;
    this.onPick = onPick;
    this.clear("Run executes the launches once on the simulated GPU and shows the arrays.");
  }
  clear(text) { this.root.replaceChildren(h("p", { class: "empty" }, text)); }
  message(good, title, text = "", marks = []) {
    const lines = [...new Set(marks.map((m) => m.line))];
    return h("div", { class: `message ${good ? "good" : "bad"}` }, h("b", {}, good ? "✓ " : "✗ ", title),
      lines.map((line) => h("button", { class: "small", onclick: () => this.onPick(line) }, `line ${line}`)), text && h("pre", { tabindex: "0" }, text));
  }
  said(text) { return text ? h("div", {}, h("h3", {}, "Printed"), h("pre", { class: "said", tabindex: "0", "aria-label": "Printed" }, text)) : null; }
  error(error, said = "") {
    const [first, ...rest] = error.text.split("\n");
    this.root.replaceChildren(this.message(false, first, rest.join("\n"), error.marks), this.said(said) ?? "");
  }
  ran(answer) { this.arrays(`ran in ${seconds(answer.seconds)}, compilation included`, answer); }
  arrays(title, answer) {
    const arrays = answer.results.map((a) => h("div", { class: `array${a.out ? " result" : ""}` },
      h("h3", {}, `${a.name} `, h("small", {}, `${a.dtype}[${a.shape.join(", ")}]${a.changed ? "" : ", unchanged"}${a.min === undefined ? "" : `, ${a.min} to ${a.max}`}`), a.nans ? h("b", { class: "badtext" }, ` ${amount(a.nans)} NaN`) : null),
      h("pre", { class: "values", tabindex: "0", "aria-label": `First elements of ${a.name}` }, valuesText(a))));
    arrays.sort((a, b) => b.classList.contains("result") - a.classList.contains("result"));
    this.root.replaceChildren(this.message(true, title), this.said(answer.said) ?? "", ...arrays);
  }
  checked(answer) {
    const trials = answer.trials && h("details", {}, h("summary", {}, `${answer.trials.length} trials`),
      h("table", { class: "plain" }, h("tr", {}, ["trial", "worst error, of what is allowed", "same bits twice"].map((t) => h("th", {}, t))), answer.trials.map(([a, b, c]) => h("tr", {}, h("td", {}, a), h("td", {}, b), h("td", {}, c ? "yes" : "no")))));
    this.root.replaceChildren(this.message(answer.passed, answer.passed ? "right" : "not yet", answer.text, answer.marks ?? []), trials || "", this.said(answer.said) ?? "");
  }
  sanitized(answer) {
    const n = answer.findings.length;
    const found = answer.findings.map((f) => this.message(false, f.what, f.text.split("\n").slice(1).join("\n"), f.accesses.map((a) => ({ line: a.number })).filter((m) => m.line)));
    this.root.replaceChildren(n ? h("p", { class: "sum" }, `${n} found in ${answer.summary}. ${answer.note}`) : this.message(true, "no race, no memory error", `checked: ${answer.summary}`), ...found, this.said(answer.said) ?? "");
  }
  profiled(launch, answer) {
    const advice = launch.advice.map((a) => h("li", {}, h("b", {}, a.rule), h("span", { class: "gain" }, a.gain),
      a.line ? h("button", { class: "small", onclick: () => this.onPick(a.line) }, `line ${a.line}`) : null, h("div", {}, a.evidence), h("div", { class: "soft" }, a.change)));
    this.root.replaceChildren(
      h("p", { class: "sum" }, `${launch.kernel}, grid ${launch.grid}, block ${launch.block} on ${launch.gpu}: bound by `, h("b", {}, launch.bound), `, at least ${launch.time} (modelled)`),
      h("p", { class: "sum" }, h("b", {}, launch.predicted), " The pane Time has its stalls, and other GPUs."),
      advice.length ? h("ul", { class: "advice" }, advice) : h("p", { class: "empty" }, "No advice: no single change gains 5 %."),
      this.said(answer.said) ?? "", sections(launch));
  }
}

function sections(launch) {
  return h("details", { class: "sections" }, h("summary", {}, "All counters"), launch.sections.map((s) =>
    h("table", { class: "plain" }, h("caption", {}, s.name), s.rows.map(([label, value]) => h("tr", {}, h("td", {}, label), h("td", { class: "n" }, value))))));
}

const seconds = (s) => s < 1 ? `${Math.round(s * 1000)} ms` : `${s.toFixed(1)} s`;

/** The first elements in columns; of a matrix, its corner. */
function valuesText(a) {
  const wide = Math.max(1, ...a.rows.flat().map((v) => v.length)), last = a.shape.at(-1), matrix = a.shape.length > 1;
  const lines = a.rows.map((row) => row.map((v) => v.padStart(wide)).join(" ") + (matrix && last > row.length ? " …" : ""));
  const shown = a.rows.reduce((n, row) => n + row.length, 0), total = a.shape.reduce((x, y) => x * y, 1);
  if (matrix ? total / last > a.rows.length : total > shown) lines.push("…");
  return lines.join("\n") || "no elements";
}
