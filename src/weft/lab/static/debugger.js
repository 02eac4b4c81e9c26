// The pane Debug: moves a launch from stop to stop, and shows lanes, variables and PTX of a stop.

import { h } from "./dom.js";
import { Lanes } from "./lanes.js";
import { post } from "./server.js";

const MOVES = [
  ["continue", "Continue", "to the next stop (F8)"], ["next", "Line", "one line, over calls (F10)"], ["step", "Into", "one line, also in a called function (F11)"],
  ["finish", "Out", "to the caller (Shift+F11)"], ["stepi", "Instruction", "one PTX instruction (Alt+F10)"],
];
const KEYS = { F8: "continue", F10: "next", F11: "step", "Shift+F11": "finish", "Alt+F10": "stepi" };

export class Debug {
  /** `start(breakpoints)` sends the job and gives the first answer, or null; `onLine(line)` follows the stop; 0 for code of another file. */
  constructor(root, { editor, start, onLine, onEnd, say }) {
    Object.assign(this, { root, editor, start, onLine, onEnd, say, session: null, at: null, busy: false });
    const button = (name, text, title, call) => h("button", { "data-move": name, title, onclick: call }, text);
    this.starter = button("start", "Start", "Start the launches under the debugger (F8)", () => this.begin());
    this.moves = [...MOVES.map(([name, text, title]) => button(name, text, title, () => this.move(name))), button("pause", "Pause", "Stop where the launch is", () => this.command("pause")), button("end", "End", "End the launch where it is", () => this.end())];
    this.where = h("p", { class: "where", role: "status" });
    this.expression = h("input", { class: "mono", "aria-label": "Expression", placeholder: "an expression, e.g. x[i]", spellcheck: "false", onkeydown: (event) => { if (event.key === "Enter") this.look(); } });
    this.answer = h("output", { class: "mono" });
    this.asks = h("div", { class: "bar" }, this.expression, h("button", { onclick: () => this.look() }, "Value in all lanes"), h("button", { title: "Go back to the last write of the expression", onclick: () => this.back(this.expression.value) }, "Back to its last write"), this.answer);
    this.breaks = h("tbody");
    this.grid = h("div", {});
    this.lanes = new Lanes(this.grid, (number) => this.thread(number));
    this.details = h("div", { class: "stopped" });
    this.printed = h("pre", { class: "said", hidden: true, tabindex: "0", "aria-label": "Printed" });
    root.append(h("div", { class: "bar", role: "toolbar", "aria-label": "Debugger" }, this.starter, this.moves), this.where, this.asks, this.grid, this.details, this.printed,
      h("table", { class: "plain breaks" }, h("caption", {}, "Breakpoints"), h("thead", {}, h("tr", {}, ["line", "stops if"].map((t) => h("th", { scope: "col" }, t)), h("td"), h("td"))), this.breaks));
    this.idle("Click into the margin of the editor, or press F9 in a line, to set a breakpoint. Without one, the launch stops at its first line.");
    this.listBreaks();
  }
  get active() { return this.session !== null; }
  idle(text) {
    Object.assign(this, { session: null, at: null });
    this.where.replaceChildren(text);
    this.buttons();
    this.editor.setCurrent(0);
  }
  buttons() {
    this.starter.hidden = this.active;
    const stopped = this.active && this.at?.state === "stopped" && !this.busy;
    for (const one of this.moves) {
      one.hidden = !this.active;
      one.disabled = one.dataset.move === "pause" ? stopped : one.dataset.move !== "end" && !stopped;
    }
    for (const part of [this.asks, this.grid, this.details]) part.hidden = !this.at;
  }

  // ---- commands ----------------------------------------------------------------------------------
  async begin() {
    if (this.busy) return;
    const answer = await this.during(() => this.start(this.editor.breakpoints));
    if (!answer) return;
    this.session = answer.session ?? null;
    await this.follow(answer);
  }
  async command(command, given = {}) { return this.follow(await post(`debug/${command}`, { session: this.session, ...given })); }
  move(name, given = {}) { if (!this.busy && this.at?.state === "stopped") return this.during(() => this.command(name, given)); }
  async during(call) {
    this.busy = true;
    this.buttons();
    try { return await call(); } finally { this.busy = false; this.buttons(); }
  }
  /** Shows an answer; while the launch runs, it asks again. */
  async follow(answer) {
    const session = this.session;
    while (answer.state === "running" && session === this.session) {
      this.where.replaceChildren("The launch runs…");
      this.at = this.at && { ...this.at, state: "running" };
      this.buttons();
      answer = await post("debug/wait", { session });
    }
    if (session !== this.session) return;
    if (answer.state === "ended" || !answer.ok) return this.ended(answer);
    if (answer.breakpoints) { this.told = answer.breakpoints; this.editor.showProblems(answer.breakpoints); this.listBreaks(); }
    this.printed.textContent = answer.said ?? "";
    this.printed.hidden = !answer.said;
    if (answer.problem) return this.where.replaceChildren(h("b", { class: "bad" }, answer.problem));
    if (answer.line !== undefined) this.stopped(answer);
  }
  ended(answer) {
    this.idle(answer.error ? `Ended: ${answer.error.text.split("\n")[0]}` : "The launches have ended.");
    this.onEnd(answer);
  }
  async end() {
    const session = this.session;
    this.idle("The launch was ended.");
    if (session) await post("debug/end", { session });
    this.say("debug: ended");
  }
  /** Ends the session when the page goes; the server ends forgotten ones later. */
  leave() { if (this.active) navigator.sendBeacon("api/debug/end", new Blob([JSON.stringify({ session: this.session })], { type: "application/json" })); }
  back(expression) { if (expression.trim()) return this.move("back", { expression }); }
  thread(number, block = null) {
    const [x, y] = this.at.shape;
    return this.move("thread", { thread: [number % x, Math.floor(number / x) % y, Math.floor(number / (x * y))], ...(block && { block }) });
  }
  async look() {
    const expression = this.expression.value.trim();
    if (!expression || this.at?.state !== "stopped") return;
    const answer = await post("debug/value", { session: this.session, expression });
    this.answer.textContent = answer.value === undefined ? answer.problem ?? answer.error?.text ?? "" : `= ${answer.value}`;
    this.lanes.show(this.at, answer.lanes);
  }
  /** The value of an expression for the chosen thread, for the mouse; null without one. */
  async value(expression) {
    if (this.at?.state !== "stopped" || this.busy) return null;
    const answer = await post("debug/value", { session: this.session, expression });
    return answer.value === undefined ? null : `${expression} = ${answer.value}  (${answer.type})`;
  }
  key(event) {
    const name = KEYS[`${event.shiftKey ? "Shift+" : ""}${event.altKey ? "Alt+" : ""}${event.key}`];
    if (event.key === "F9") this.editor.toggleBreakpoint();
    else if (name === "continue" && !this.active) this.begin();
    else if (name && this.active) this.move(name);
    else return false;
    return true;
  }

  // ---- a stop ------------------------------------------------------------------------------------
  stopped(at) {
    this.at = at;
    const where = `block (${at.block.join(", ")}), thread (${at.thread.join(", ")})`;
    this.where.replaceChildren(h("b", { class: at.failed ? "bad" : null }, `${at.kernel}: ${at.failed ? at.failed.split("\n")[0] : at.reason}`), `; ${at.line ? `line ${at.line}` : "no line of the source"} in ${at.function}, ${where}`);
    this.answer.textContent = "";
    this.lanes.show(at);
    this.details.replaceChildren(this.variables(at), this.places(at), this.ptx(at));
    this.buttons();
    this.editor.setCurrent(at.line);
    this.onLine(at.line);
    if (this.expression.value.trim()) this.look();
  }
  variables(at) {
    const row = (v) => h("tr", {}, h("td", {}, h("code", {}, v.name)), h("td", { class: v.problem ? "soft" : "mono" }, v.problem || v.value), h("td", { class: "soft" }, v.type),
      h("td", {}, v.problem ? null : h("button", { class: "small", title: `Back to the last write of ${v.name}`, "aria-label": `Back to the last write of ${v.name}`, onclick: () => this.back(v.name) }, "↶")));
    return h("table", { class: "plain variables" }, h("caption", {}, "Variables of the thread"), h("tbody", {}, at.variables.map(row)));
  }
  places(at) {
    const frames = at.frames.map(([name, line], i) => h("option", { value: i, selected: i === at.frame }, `${name}${line ? `, line ${line}` : ""}`));
    const block = at.block.join(", "), blocks = at.blocks.map((b) => h("option", { value: b.join(","), selected: b.join(", ") === block }, `(${b.join(", ")})`));
    return h("div", { class: "bar" }, h("label", {}, "Block ", h("select", { onchange: (event) => this.thread(0, event.target.value.split(",").map(Number)) }, blocks)),
      h("label", {}, "Frame ", h("select", { onchange: (event) => this.move("frame", { frame: Number(event.target.value) }) }, frames)));
  }
  ptx(at) {
    const rows = at.ptx.map(([number, text, line, next]) => h("tr", { class: `ins${next ? " picked" : ""}`, "aria-current": next ? "true" : null }, h("td", { class: "n" }, number), h("td", {}, h("code", {}, text)), h("td", { class: "n" }, line ? `:${line}` : "")));
    const told = h("details", {}, h("summary", {}, "PTX around the stop"), h("table", { class: "listing" }, h("tbody", {}, rows)));
    told.open = this.open ?? false;
    told.addEventListener("toggle", () => { this.open = told.open; });
    return told;
  }

  // ---- breakpoints -------------------------------------------------------------------------------
  /** Follows the editor: the list, and the launch that is stopped. */
  async breaksChanged() {
    this.listBreaks();
    if (this.at?.state === "stopped" && !this.busy) await this.command("breakpoints", { breakpoints: this.editor.breakpoints });
  }
  listBreaks() {
    const rows = this.editor.breakpoints, told = new Map((this.told ?? []).map((one) => [one.line, one.message]));
    const change = (line, condition) => { this.editor.breakpoints = rows.map((one) => (one.line === line ? { line, condition } : one)); };
    if (this.breaks.contains(document.activeElement) && document.activeElement.tagName === "INPUT") return; // a condition is being written
    this.breaks.replaceChildren(...(rows.length ? rows.map(({ line, condition }) => h("tr", {}, h("td", {}, h("button", { class: "small", onclick: () => this.editor.goTo(line, true) }, `line ${line}`)),
      h("td", {}, h("input", { class: "mono", value: condition, "aria-label": `Condition of line ${line}`, placeholder: "always; or e.g. i == 37", spellcheck: "false", onchange: (event) => { event.target.blur(); change(line, event.target.value.trim()); } })),
      h("td", { class: "badtext" }, (this.active && told.get(line)?.split("\n")[0]) || ""),
      h("td", {}, h("button", { class: "small quiet", "aria-label": `Remove the breakpoint of line ${line}`, onclick: () => this.editor.toggleBreakpoint(line) }, "×")))) : [h("tr", {}, h("td", { colspan: "4", class: "soft" }, "none"))]));
  }
}

export const printed = (text) => { byId("debug-printed").textContent = text; };
