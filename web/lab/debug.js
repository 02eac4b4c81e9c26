// What the debugger adds to the editor: breakpoints in the margin, the line that comes next, and
// values under the mouse. Breakpoints move with the text.

import { RangeSet, StateEffect, StateField } from "@codemirror/state";
import { Decoration, EditorView, gutter, GutterMarker, hoverTooltip } from "@codemirror/view";

class Break extends GutterMarker {
  constructor(condition, problem) { super(); this.condition = condition; this.problem = problem; }
  eq(other) { return other.condition === this.condition && other.problem === this.problem; }
  toDOM() {
    const dot = document.createElement("span");
    dot.className = `break${this.condition ? " conditional" : ""}${this.problem ? " idle" : ""}`;
    dot.title = this.problem || (this.condition ? `stops if ${this.condition}` : "stops here");
    return dot;
  }
}
const spacer = new (class extends GutterMarker { toDOM() { return document.createElement("span"); } })();

/** {line, condition} sets one, {line, condition: null} removes it. */
const setBreak = StateEffect.define();
const problems = StateEffect.define();
const breaks = StateField.define({
  create: () => RangeSet.empty,
  update(set, tr) {
    set = set.map(tr.changes);
    for (const effect of tr.effects) {
      if (effect.is(problems)) {
        const said = new Map(effect.value.map((one) => [one.line, one.message]));
        const add = [];
        for (const at = set.iter(); at.value; at.next()) add.push(new Break(at.value.condition, said.get(tr.state.doc.lineAt(at.from).number) ?? "").range(at.from));
        set = RangeSet.of(add, true);
      }
      if (!effect.is(setBreak)) continue;
      const { line, condition } = effect.value, { from, to } = tr.state.doc.line(line);
      set = set.update({ filter: (at) => at < from || at > to, add: condition === null ? [] : [new Break(condition, "").range(from)], sort: true });
    }
    return set;
  },
});

const setCurrent = StateEffect.define();
const current = StateField.define({
  create: () => Decoration.none,
  update(value, tr) {
    for (const effect of tr.effects) if (effect.is(setCurrent)) {
      const number = effect.value;
      if (!number || number > tr.state.doc.lines) return Decoration.none;
      return Decoration.set([Decoration.line({ class: "cm-current" }).range(tr.state.doc.line(number).from)]);
    }
    return tr.docChanged ? Decoration.none : value; // the launch is of the text before
  },
  provide: (field) => EditorView.decorations.from(field),
});

/** A name with the members and elements before the mouse: `p.x`, `tile[i]`. */
function expressionAt(text, at) {
  for (const match of text.matchAll(/[A-Za-z_]\w*(?:(?:\.|->)[A-Za-z_]\w*|\[[^\[\]]*\])*/g)) {
    const end = match.index + match[0].length;
    if (at < match.index || at > end) continue;
    // Under the first name, the name alone is meant; further right, what stands before the mouse.
    const rest = match[0].slice(at - match.index), stop = rest.search(/[.\[\]]|->/);
    let whole = stop < 0 ? match[0] : match[0].slice(0, at - match.index + stop);
    if (whole.includes("[") && !whole.endsWith("]")) whole = match[0].slice(0, match[0].indexOf("]", whole.length) + 1);
    return { text: whole, from: match.index, to: match.index + whole.length };
  }
  return null;
}

/** `value(expression)` gives the text of a value, or null where there is none. */
export function debugging({ onBreaks, value }) {
  return [
    breaks, current,
    gutter({
      class: "cm-breaks",
      markers: (view) => view.state.field(breaks),
      initialSpacer: () => spacer,
      domEventHandlers: { mousedown(view, at) { toggle(view, view.state.doc.lineAt(at.from).number); return true; } },
    }),
    hoverTooltip(async (view, pos) => {
      const line = view.state.doc.lineAt(pos), found = expressionAt(line.text, pos - line.from);
      const said = found && await value(found.text);
      if (!said) return null;
      return { pos: line.from + found.from, end: line.from + found.to, above: true, create() {
        const dom = document.createElement("div");
        dom.className = "cm-value";
        dom.textContent = said;
        return { dom };
      } };
    }, { hoverTime: 200 }),
    EditorView.updateListener.of((update) => {
      const set = update.transactions.some((tr) => tr.effects.some((effect) => effect.is(setBreak)));
      if (set || (update.docChanged && update.state.field(breaks).size)) onBreaks(); // not for problems, which answer it
    }),
  ];
}

export function breakpointsOf(view) {
  const out = [];
  for (const at = view.state.field(breaks).iter(); at.value; at.next()) out.push({ line: view.state.doc.lineAt(at.from).number, condition: at.value.condition });
  return out;
}
export function toggle(view, line) {
  const known = breakpointsOf(view).some((one) => one.line === line);
  view.dispatch({ effects: setBreak.of({ line, condition: known ? null : "" }) });
}
export function setBreakpoints(view, wanted) {
  const old = breakpointsOf(view).map(({ line }) => setBreak.of({ line, condition: null }));
  const fits = wanted.filter(({ line }) => Number.isInteger(line) && line >= 1 && line <= view.state.doc.lines);
  view.dispatch({ effects: [...old, ...fits.map(({ line, condition }) => setBreak.of({ line, condition: condition ?? "" }))] });
}
export const showProblems = (view, found) => view.dispatch({ effects: problems.of(found) });
export const showCurrent = (view, line) => view.dispatch({ effects: setCurrent.of(line) });
